//! `greenwave call`: one call, with JSON in and out.
//!
//! The server describes its methods' messages itself, so that nothing has to be known here but its address.

mod http;
mod kv;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use clap::{Args, Subcommand};
use greenwave::{AnswerMetadata, Channel, Context, Receipt};
use greenwave_proto::wire::Meta;

use crate::problem::Problem;
use crate::quantity;
use crate::schema::{self, Described, Method, PATIENCE, Schema};
use crate::secured::Secured;
use crate::server::{self, Caller, Server};
use crate::web::Format;

/// Call a method of any server, with JSON in and out
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
The address says what the server is called by:
  tcp://, unix://, greenwave://   Greenwave's own protocol
  grpc://, grpcs://               gRPC, without and with TLS
  http://, https://               Connect, in JSON; before it, with a + behind each, may stand:
    grpc-web                      gRPC-Web, in protobuf
    json, proto                   what messages are written in
    h1, h2                        which HTTP; by default 1.1, with TLS what the server prefers

A server of gRPC is asked for its descriptors by reflection, unless --proto has them. \
A server over HTTP that doesn't describe itself is sent JSON as it is.
Without a method, the server's methods are listed. The reply goes to standard output, the receipt to standard error.

Examples:
  greenwave call tcp://127.0.0.1:7100
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"completion queue\", \"limit\": 3}'
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"queue\"}' --deadline 2ms --receipt
  echo '{\"user\": \"serde@1.0.228\"}' | greenwave call tcp://127.0.0.1:7200 Profile/Recommend -
  greenwave call tcp://127.0.0.1:7100 greenwave.Meta/Counters
  greenwave call grpc://127.0.0.1:50051 Greeter/SayHello '{\"name\": \"Ada\"}' --proto helloworld.proto
  greenwave call http://127.0.0.1:7100 greenwave.search.Search/Query '{\"text\": \"queue\"}'
  greenwave call https://shop.example/api shop.v1.Cart/Add '{\"item\": \"book\"}' --tls-ca authority.pem
  greenwave call grpc-web+h2+http://127.0.0.1:7100 Search/Query '{\"text\": \"queue\"}'
  greenwave call tcp://shop.example:7400 Kv/Get '{\"key\": \"ada\"}' --tls-ca authority.pem
  greenwave call kv get ada --to tcp://10.0.0.1:7400,tcp://10.0.0.2:7400")]
pub(crate) struct Call {
    #[command(subcommand)]
    known: Option<Known>,
    /// Where the server is, such as tcp://127.0.0.1:7100, unix:///run/shop.sock or http://127.0.0.1:7100; or several, by a
    /// name such as greenwave://shop.example:7100 or a list of addresses
    #[arg(value_name = "ADDRESS", required = true, value_parser = server::parse)]
    server: Option<Server>,
    /// What to call: package.Service/Method, the package may be left out
    method: Option<String>,
    /// The request; - reads it from standard input
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    request: String,
    /// How soon the answer has to be there
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    deadline: Duration,
    /// Something to say of the request, such as user=ada; every stage can read it. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = metadata)]
    metadata: Vec<(String, String)>,
    /// Show what the server says beside the answer
    #[arg(long)]
    show_metadata: bool,
    /// The file with the token to bring, as metadata `authorization: Bearer TOKEN`: where other users don't see it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Show where the time went
    #[arg(long)]
    receipt: bool,
    /// How long a message of the answer may be
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = quantity::message)]
    message_bytes: usize,
    #[command(flatten)]
    described: Described,
    #[command(flatten)]
    secured: Secured,
}

/// Services with a client of their own.
#[derive(Subcommand)]
enum Known {
    Kv(kv::Kv),
}

/// Columns of a receipt's bars.
const COLUMNS: usize = 48;

impl Call {
    /// Calls, and prints the answer.
    pub(crate) fn run(self) -> Result<(), Problem> {
        if let Some(Known::Kv(kv)) = self.known {
            return kv.run();
        }
        let Some(server) = &self.server else {
            return Err(Problem::wrong_use("no server is named").remedy("see --help"));
        };
        let mut caller = server.caller("client", &self.secured, self.message_bytes)?;
        if let Some(path) = &self.token_file {
            caller = caller.bringing(&token(path)?)?;
        }
        let schema = Schema::fetch(&caller, &self.described, self.patience(server))?;
        let Some(name) = &self.method else { return list(&schema, server) };
        let method = schema.method(name)?;
        match &caller {
            Caller::Channel(channel) => self.by_channel(channel, &schema, &method, server),
            Caller::Web(client) => self.over_http(client, &schema, &method, server),
        }
    }

    /// How long a server may take to describe itself. One that never answers over HTTP, where calls need no description, is
    /// waited for no longer than for an answer, if that is some time.
    fn patience(&self, server: &Server) -> Duration {
        match server {
            Server::Channel(_) => PATIENCE,
            Server::Web(_) => self.deadline.clamp(Duration::from_secs(1), PATIENCE),
        }
    }

    fn by_channel(&self, channel: &Channel, schema: &Schema, method: &Method, server: &Server) -> Result<(), Problem> {
        let request = method.request(Format::Proto, &self.json()?)?;
        let mut context = Context::with_deadline(self.deadline);
        for (name, value) in &self.metadata {
            context = context.with_metadata(name, value).map_err(Problem::wrong_use)?;
        }
        match channel.call_detailed(&context, greenwave::Method::named(String::leak(method.name.clone())), request) {
            Ok(reply) => {
                self.metadata_of(reply.metadata.as_deref());
                print(&method.reply(Format::Proto, &reply.body)?)?;
                self.receipt_of(Some(&reply.receipt), reply.total, Some(reply.network), &schema.server);
                Ok(())
            }
            Err(failure) => {
                self.metadata_of(failure.metadata.as_deref());
                self.receipt_of_failure(failure.receipt.as_deref(), &schema.server);
                Err(schema::failed(&failure.status, &method.name, server))
            }
        }
    }

    /// Shows what was said beside an answer, if that is wanted.
    fn metadata_of(&self, metadata: Option<&AnswerMetadata>) {
        let Some(metadata) = metadata.filter(|_| self.show_metadata) else { return };
        for (place, entries) in [("before", &metadata.leading), ("behind", &metadata.trailing)] {
            let entries = Meta::parse(entries.as_deref().unwrap_or_default()).into_iter().flatten();
            entries.for_each(|(name, value)| tell_metadata(place, name, value));
        }
    }

    /// Shows where the time went, if that is wanted. A server that isn't one of ours doesn't say.
    fn receipt_of(&self, receipt: Option<&Receipt>, total: Duration, network: Option<Duration>, server: &str) {
        if !self.receipt {
            return;
        }
        let Some(receipt) = receipt else { return tell!("\n{total:.2?} in all; the server has no receipt") };
        let network = network.unwrap_or_else(|| total.saturating_sub(receipt.total));
        tell!("\n{total:.2?} in all, {network:.1?} of it on the way");
        waterfall(receipt, server);
    }

    fn receipt_of_failure(&self, receipt: Option<&Receipt>, server: &str) {
        if let Some(receipt) = receipt.filter(|_| self.receipt) {
            waterfall(receipt, server);
        }
    }

    fn json(&self) -> Result<String, Problem> {
        if self.request != "-" {
            return Ok(self.request.clone());
        }
        let mut text = String::new();
        let read = io::stdin().lock().read_to_string(&mut text);
        read.map_err(|error| Problem::failure(error).at("standard input"))?;
        Ok(text)
    }
}

/// The token in a file.
fn token(path: &Path) -> Result<String, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::wrong_use(format!("can't read the token: {error}")).at(path.display()))?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(token), None) => Ok(token.to_owned()),
        _ => Err(Problem::wrong_use("a token is one word").at(path.display())),
    }
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("allowed: a name and a value, such as user=ada")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn list(schema: &Schema, server: &Server) -> Result<(), Problem> {
    if !schema.is_described() {
        let problem = Problem::failure("the server does not describe itself").at(server);
        return Err(problem.remedy("name a method, or the service's .proto with --proto"));
    }
    let mut lines = vec![format!("{} has", schema.server)];
    lines.extend(schema.methods().map(|(name, messages)| match messages {
        Some((takes, returns)) => format!("  {name} ({takes}) returns ({returns})"),
        None => format!("  {name}"),
    }));
    print(&lines.join("\n"))
}

fn waterfall(receipt: &Receipt, server: &str) {
    tell!("{}", receipt.waterfall(server, COLUMNS).to_string().trim_end());
    tell!("· network  ▒ queue  █ service  ─ waiting for the stages below");
}

/// Shows one of the things that are said before an answer or behind it. What is no text is Base64.
fn tell_metadata(place: &str, name: &str, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => tell!("{place}: {name}: {text}"),
        _ => tell!("{place}: {name}: {}", STANDARD_NO_PAD.encode(value)),
    }
}

/// Prints on standard output; a reader that went away wanted no more.
fn print(text: &str) -> Result<(), Problem> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Problem::failure(error).at("standard output")),
        _ => Ok(()),
    }
}
