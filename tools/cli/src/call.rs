//! `greenwave call`: one call, with JSON in and out.
//!
//! The server describes its methods' messages itself, so that nothing has to be known here but its address.

mod kv;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use greenwave::{Channel, Code, Context, Method, Receipt, Status, Target};

use crate::address;
use crate::problem::Problem;
use crate::schema::{self, Described, Schema};
use crate::secured::Secured;

/// Call a method of any server, with JSON in and out
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
A server of gRPC is asked for its descriptors by reflection, unless --proto has them.
Without a method, the server's methods are listed. The reply goes to standard output, the receipt to standard error.

Examples:
  greenwave call tcp://127.0.0.1:7100
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"completion queue\", \"limit\": 3}'
  greenwave call tcp://127.0.0.1:7100 Search/Query '{\"text\": \"queue\"}' --deadline 2ms --receipt
  echo '{\"user\": \"serde@1.0.228\"}' | greenwave call tcp://127.0.0.1:7200 Profile/Recommend -
  greenwave call tcp://127.0.0.1:7100 greenwave.Meta/Counters
  greenwave call grpc://127.0.0.1:50051 Greeter/SayHello '{\"name\": \"Ada\"}' --proto helloworld.proto
  greenwave call tcp://shop.example:7400 Kv/Get '{\"key\": \"ada\"}' --tls-ca authority.pem
  greenwave call kv get ada --to tcp://10.0.0.1:7400,tcp://10.0.0.2:7400")]
pub(crate) struct Call {
    #[command(subcommand)]
    known: Option<Known>,
    /// Where the server is, such as tcp://127.0.0.1:7100 or unix:///run/shop.sock; or several, by a name such as
    /// greenwave://shop.example:7100 or a list of addresses
    #[arg(value_name = "ADDRESS", required = true, value_parser = address::target)]
    server: Option<Target>,
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
    /// The file with the token to bring, as metadata `authorization: Bearer TOKEN`: where other users don't see it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Show where the time went
    #[arg(long)]
    receipt: bool,
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
        let mut channel = schema::channel(server, &self.secured.config_to("client", server)?)?;
        if let Some(path) = &self.token_file {
            channel = bringing(&channel, token(path)?);
        }
        let schema = Schema::fetch(&channel, &self.described)?;
        let Some(name) = &self.method else { return list(&schema) };
        let method = schema.method(name)?;
        let request = method.request(&self.json()?)?;
        let mut context = Context::with_deadline(self.deadline);
        for (name, value) in &self.metadata {
            context = context.with_metadata(name, value).map_err(Problem::wrong_use)?;
        }
        match channel.call_detailed(&context, Method::named(String::leak(method.name.clone())), request) {
            Ok(reply) => {
                print(&method.reply(&reply.body)?)?;
                if self.receipt {
                    tell!("\n{} in all, {:.1?} of it on the way", shown(reply.total), reply.network);
                    waterfall(&reply.receipt, &schema.server);
                }
                Ok(())
            }
            Err(failure) => {
                if let Some(receipt) = failure.receipt.filter(|_| self.receipt) {
                    waterfall(&receipt, &schema.server);
                }
                Err(schema::failed(&failure.status, &method.name, server))
            }
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

/// The same channel, whose calls bring this token.
fn bringing(channel: &Channel, token: String) -> Channel {
    channel.intercept(move |context, _| {
        let said = context.with_metadata("authorization", format!("Bearer {token}"));
        said.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
    })
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("allowed: a name and a value, such as user=ada")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn list(schema: &Schema) -> Result<(), Problem> {
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

fn shown(time: Duration) -> String {
    format!("{time:.2?}")
}

/// Prints on standard output; a reader that went away wanted no more.
fn print(text: &str) -> Result<(), Problem> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Problem::failure(error).at("standard output")),
        _ => Ok(()),
    }
}
