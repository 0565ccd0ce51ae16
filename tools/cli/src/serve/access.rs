//! Who may call a server, and what is refused to begin for want of an answer to that.

use std::path::{Path, PathBuf};

use clap::Args;
use greenwave::authorize::{AllowList, Authorize, AuthorizeRequest, BearerTokens, CertificateNames, Denied, Grant};
use greenwave::{Address, ServerConfig};
use serde::{Deserialize, Serialize};

use super::needed;
use super::values::{List, Switch};
use crate::problem::Problem;

/// Who may call what.
#[derive(Args, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[command(next_help_heading = "Access")]
pub(super) struct AccessOptions {
    /// Who may call what, a file of lines WHO METHOD..., read again when it changes: WHO is a name in a client's
    /// certificate, token:SUBJECT:SHA256 or anyone, METHOD is package.Service/Method, package.Service/* or *, such as
    /// `spiffe://shop.example/cart kv.Kv/*`
    #[arg(long, value_name = "FILE")]
    pub(super) allow: Option<PathBuf>,
    /// The names of which a client's certificate has to have one: URIs, names of hosts, or spiffe://DOMAIN/* for all
    /// of a trust domain. It takes --tls-client-ca
    #[arg(long, value_name = "LIST")]
    pub(super) require_client_name: Option<List<String>>,
    /// The tokens of which a call has to bring one, as metadata `authorization: Bearer TOKEN`: a file of lines SUBJECT
    /// TOKEN, 16 characters or more each
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Serve everybody who can connect, at addresses of the network too, where nobody has to prove who they are or
    /// tokens can be read on the way [default: off]
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(super) insecure: Option<Switch>,
}

/// All of them have to agree.
struct All(Vec<Box<dyn Authorize>>);

impl Authorize for All {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        self.0.iter().try_fold(Grant::to_peer(), |grant, one| Ok(grant.and(one.authorize(call)?)))
    }

    /// As they say it one by one: a list of what is allowed has to name it.
    fn covers_meta(&self) -> bool {
        self.0.iter().any(|one| one.covers_meta())
    }

    fn refresh(&self) {
        self.0.iter().for_each(|one| one.refresh());
    }
}

/// As few characters a token has, at least: less can be tried out.
const TOKEN_CHARACTERS: usize = 16;

impl AccessOptions {
    /// The same server, which asks whom these options name. `has_client_ca`: clients have to have certificates.
    ///
    /// # Errors
    /// A file or a name that can't be meant, or a server that is open to a network without anybody having said that it is to be.
    pub(super) fn guard(
        &self,
        config: ServerConfig,
        (has_tls, has_client_ca): (bool, bool),
    ) -> Result<ServerConfig, Problem> {
        let mut all: Vec<Box<dyn Authorize>> = Vec::new();
        if let Some(List(names)) = &self.require_client_name {
            let why = "a PEM file, as only a certificate that is checked has a name";
            needed(has_client_ca.then_some(()), "tls_client_ca", why)?;
            let names = CertificateNames::new(names.iter().map(String::as_str));
            all.push(Box::new(names.map_err(|error| wrong(&error, "require_client_name"))?));
        }
        if let Some(path) = &self.token_file {
            all.push(Box::new(tokens(path)?));
        }
        if let Some(path) = &self.allow {
            all.push(Box::new(AllowList::open(path).map_err(Problem::wrong_use)?));
        }
        self.check(&config, has_tls, has_client_ca, !all.is_empty())?;
        Ok(if all.is_empty() { config } else { config.authorize(All(all)) })
    }

    /// Refuses what can only be meant if somebody says so.
    fn check(&self, config: &ServerConfig, has_tls: bool, has_ca: bool, is_guarded: bool) -> Result<(), Problem> {
        if self.insecure == Some(Switch::On) || has_ca || is_guarded && has_tls {
            return Ok(());
        }
        let Some(open) = config.addresses().find(|address| is_of_network(address)) else { return Ok(()) };
        let (what, remedy) = if is_guarded {
            (
                "without TLS, tokens cross the network as they are, and whoever reads one may use it",
                "give --tls-cert and --tls-key, listen at 127.0.0.1 or a socket of Unix, or say --insecure if the network \
                 keeps them secret",
            )
        } else {
            (
                "everybody who reaches this address may call every method and read everything that the server has",
                "give --tls-cert, --tls-key and --tls-client-ca (mutual TLS), or these with --allow or --token-file; listen \
                 at 127.0.0.1 or a socket of Unix; or say --insecure if everybody may",
            )
        };
        Err(Problem::wrong_use(what).at(open).remedy(remedy))
    }
}

fn wrong(error: &dyn std::fmt::Display, key: &str) -> Problem {
    Problem::wrong_use(format!("setting `{key}`: {error}"))
}

/// Whether other machines may reach an address.
pub(super) fn is_of_network(address: &Address) -> bool {
    match address {
        Address::Unix(_) => false,
        address => address.socket().is_none_or(|socket| !socket.ip().to_canonical().is_loopback()),
    }
}

/// The tokens in a file, each with its subject before it.
fn tokens(path: &Path) -> Result<BearerTokens, Problem> {
    let at = |problem: Problem| problem.at(path.display()).remedy("write lines `SUBJECT TOKEN`; # begins a comment");
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::wrong_use(format!("can't read the tokens: {error}")).at(path.display()))?;
    let (mut tokens, mut any) = (BearerTokens::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let [subject, token] = words[..] else {
            return Err(at(Problem::wrong_use(format!("line {number} is not a subject and a token"))));
        };
        if token.len() < TOKEN_CHARACTERS {
            let short = format!("the token in line {number} has less than {TOKEN_CHARACTERS} characters");
            return Err(at(Problem::wrong_use(short)));
        }
        (tokens, any) = (tokens.token(subject, token), true);
    }
    if any { Ok(tokens) } else { Err(at(Problem::wrong_use("there is no token"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(options: &AccessOptions, listen: &str, tls: (bool, bool)) -> Result<ServerConfig, String> {
        let listen: Vec<Address> = listen.split(',').map(|address| address.parse().unwrap()).collect();
        options.guard(ServerConfig::default().listen(listen), tls).map_err(|problem| problem.to_string())
    }

    #[test]
    fn nobody_serves_a_network_without_having_said_who_may_call() {
        let open = AccessOptions::default();
        for inside in ["tcp://127.0.0.1:1", "tcp://[::1]:1", "unix:///tmp/x", "tcp://127.9.9.9:1,unix:///tmp/y"] {
            assert!(guard(&open, inside, (false, false)).is_ok(), "{inside}");
        }
        for outside in ["tcp://0.0.0.0:1", "tcp://10.0.0.1:1", "tcp://[::]:1", "tcp://127.0.0.1:1,tcp://10.0.0.1:2"] {
            for tls in [(false, false), (true, false)] {
                let told = guard(&open, outside, tls).unwrap_err();
                let parts = ["every method", "tcp://", "--insecure", "--tls-client-ca"];
                assert!(parts.iter().all(|part| told.contains(part)), "{told}");
            }
            assert!(guard(&open, outside, (true, true)).is_ok(), "mutual TLS");
            let insecure = AccessOptions { insecure: Some(Switch::On), ..open.clone() };
            assert!(guard(&insecure, outside, (false, false)).is_ok());
        }
    }

    #[test]
    fn tokens_cross_a_network_by_tls_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "# ours\nci 0123456789abcdef\n").unwrap();
        let options = AccessOptions { token_file: Some(file.path().to_owned()), ..AccessOptions::default() };
        assert!(guard(&options, "tcp://10.0.0.1:1", (false, false)).unwrap_err().contains("tokens cross the network"));
        for (listen, tls) in [("tcp://10.0.0.1:1", (true, false)), ("tcp://127.0.0.1:1", (false, false))] {
            assert!(guard(&options, listen, tls).unwrap().is_authorized());
        }
    }

    #[test]
    fn what_can_not_be_meant_is_told_with_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let none = AccessOptions::default();
        let names = |name: &str| Some(List(vec![name.to_owned()]));
        let tokens =
            |text: &str| AccessOptions { token_file: file(&format!("tokens{}", text.len()), text), ..none.clone() };
        for (options, tls, parts) in [
            (
                AccessOptions { require_client_name: names("cart"), ..none.clone() },
                (true, false),
                ["`tls_client_ca`", "PEM"],
            ),
            (
                AccessOptions { require_client_name: names("*"), ..none.clone() },
                (true, true),
                ["require_client_name", "spiffe"],
            ),
            (AccessOptions { allow: file("allow", "x"), ..none.clone() }, (true, true), ["line 1", "allow"]),
            (
                AccessOptions { allow: Some("/nowhere".into()), ..none.clone() },
                (true, true),
                ["can't read", "/nowhere"],
            ),
            (tokens("0123456789abcdef"), (true, true), ["line 1", "SUBJECT TOKEN"]),
            (tokens("ci short"), (true, true), ["line 1", "16 characters"]),
            (tokens("# nobody yet"), (true, true), ["no token", "SUBJECT TOKEN"]),
        ] {
            let told = guard(&options, "tcp://10.0.0.1:1", tls).unwrap_err();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
    }
}
