//! A server as `call` and `bench` are told of it, and what they call it by: a channel, or HTTP.

use std::fmt;
use std::time::Duration;

use greenwave::{Channel, Code, Context, Limits, Method, Status, Target};

use crate::address;
use crate::problem::Problem;
use crate::schema;
use crate::secured::Secured;
use crate::web::{self, Client, Format};

/// Where a server is, and by what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Greenwave's own protocol, or gRPC: one server or several.
    Channel(Target),
    /// Connect or gRPC-Web.
    Web(web::Address),
}

/// What a server is called by.
pub(crate) enum Caller {
    Channel(Channel),
    Web(Client),
}

/// Reads where a server is.
pub(crate) fn parse(text: &str) -> Result<Server, String> {
    match web::Address::parse(text) {
        Some(address) => address.map(Server::Web),
        None => address::target(text).map(Server::Channel),
    }
}

/// As it was written.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(target) => target.fmt(f),
            Self::Web(address) => address.fmt(f),
        }
    }
}

impl Server {
    /// What the server is called by, from somebody of this name. Messages of answers have at most so many bytes.
    ///
    /// # Errors
    /// When it is to be secured and isn't, or the other way round, or a file is not what it should be.
    pub(crate) fn caller(&self, name: &str, secured: &Secured, most: usize) -> Result<Caller, Problem> {
        match self {
            Self::Channel(target) => {
                let limits = Limits::new();
                let limits = limits.message_bytes(most).assembly_bytes(most.max(ASSEMBLY));
                let config = secured.config_to(name, target)?.limits(limits);
                schema::channel(target, &config).map(Caller::Channel)
            }
            Self::Web(address) => Client::new(address, secured.web(address)?, most).map(Caller::Web),
        }
    }
}

/// Bytes of unfinished messages that a connection may hold.
const ASSEMBLY: usize = 64 << 20;

impl Caller {
    /// The same, whose calls bring this token.
    pub(crate) fn bringing(self, token: &str) -> Result<Self, Problem> {
        let bearer = format!("Bearer {token}");
        Ok(match self {
            Self::Channel(channel) => Self::Channel(channel.intercept(move |context, _| {
                let said = context.with_metadata("authorization", bearer.as_str());
                said.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
            })),
            Self::Web(client) => Self::Web(client.bringing(&bearer)?),
        })
    }

    /// Where the server is.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Channel(channel) => channel.target().to_string(),
            Self::Web(client) => client.address().to_string(),
        }
    }

    /// What messages are written in.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Channel(_) => Format::Proto,
            Self::Web(client) => client.address().format,
        }
    }

    /// Calls a method with a message in protobuf.
    pub(crate) fn ask(&self, method: &'static str, message: Vec<u8>, patience: Duration) -> Result<Vec<u8>, Status> {
        match self {
            Self::Channel(channel) => {
                let reply = channel.call(&Context::with_deadline(patience), Method::named(method), &message)?;
                Ok(reply.body.to_vec())
            }
            Self::Web(client) => client.ask(&web::Call::new(method, Format::Proto), message, patience),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_a_server_is_called_by() {
        assert!(matches!(parse("http://127.0.0.1:7000"), Ok(Server::Web(_))));
        for other in ["tcp://127.0.0.1:7000", "127.0.0.1:7000", "grpc://127.0.0.1:7000", "unix:///run/a+http://b"] {
            assert!(matches!(parse(other), Ok(Server::Channel(_))), "{other}");
        }
        for text in ["", "nowhere", "ftp://127.0.0.1:1"] {
            assert!(parse(text).unwrap_err().contains("tcp://10.0.0.1:7000"), "{text}");
        }
    }
}
