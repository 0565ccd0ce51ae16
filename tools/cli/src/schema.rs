//! What a server can be asked, by its own account: its methods, and the types of their messages.

use clap::Args;
use greenwave::{Channel, ChannelConfig, Code, Reason, Status, Target};
use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::problem::Problem;
use crate::reflection;
use crate::server::Caller;
use crate::web::{self, Format};

/// What describes the messages of a server that doesn't do so itself.
#[derive(Args)]
pub(crate) struct Described {
    /// The service's .proto file, for a server that doesn't describe itself. May be repeated
    #[arg(long, value_name = "FILE")]
    proto: Vec<PathBuf>,
    /// Where the files that it imports are, besides its own folder. May be repeated
    #[arg(long, value_name = "DIR", requires = "proto")]
    proto_path: Vec<PathBuf>,
}

/// How long a server may take to describe itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The methods that every server has, whose answers are text, and the one whose isn't.
const METHODS: &str = "greenwave.Meta/Methods";
const COUNTERS: &str = "greenwave.Meta/Counters";
const DESCRIPTORS: &str = "greenwave.Meta/Descriptors";

/// A server's account of itself.
pub(crate) struct Schema {
    /// Where it is.
    place: String,
    /// The name that it has in receipts.
    pub(crate) server: String,
    methods: Vec<String>,
    /// `None`: it doesn't describe itself, and reads JSON.
    pool: Option<DescriptorPool>,
}

/// A method that a server has.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// `package.Service/Method`.
    pub(crate) name: String,
    messages: Messages,
}

/// What a method takes and returns.
#[derive(Clone, Debug)]
enum Messages {
    /// Messages that the server described.
    Described(MethodDescriptor),
    /// Nothing, and text.
    Text,
    /// JSON of which nothing more is known.
    Json,
}

impl Schema {
    /// Asks the server, which may take so long.
    ///
    /// # Errors
    /// When it isn't there, or what it says of itself makes no sense.
    pub(crate) fn fetch(caller: &Caller, described: &Described, patience: Duration) -> Result<Self, Problem> {
        if !described.proto.is_empty() {
            return Self::compiled(caller, described);
        }
        let place = caller.place();
        let listed = match (caller, caller.ask(METHODS, Vec::new(), patience)) {
            (_, Ok(listed)) => listed,
            // It may be none of our own.
            (Caller::Channel(channel), Err(status)) if channel.target().is_grpc() && is_unknown(&status) => {
                let (methods, pool) = reflection::ask(channel, patience)?;
                return Ok(Self { place, server: SERVER.to_owned(), methods, pool: Some(pool) });
            }
            (Caller::Web(client), Err(status)) if has_answered(&status) && client.address().format == Format::Json => {
                return Ok(Self { place, server: SERVER.to_owned(), methods: Vec::new(), pool: None });
            }
            (Caller::Web(_), Err(status)) if has_answered(&status) => {
                let problem = Problem::failure(format!("the server does not describe itself: {status}")).at(place);
                return Err(problem.remedy("name the service's .proto with --proto, or send JSON: http://, json+.."));
            }
            (_, Err(status)) => return Err(failed(&status, METHODS, &place)),
        };
        let broken = |what: &dyn std::fmt::Display| {
            let what = format!("the server's account of itself can't be read: {what}");
            Problem::failure(what).at(&place).remedy("check the versions of both")
        };
        let listed = std::str::from_utf8(&listed).map_err(|error| broken(&error))?;
        let mut lines = listed.lines().map(str::to_owned);
        let server = lines.next().unwrap_or_default();
        let set = caller.ask(DESCRIPTORS, Vec::new(), patience);
        let pool = pool(&set.map_err(|status| failed(&status, DESCRIPTORS, &place))?);
        let pool = Some(pool.map_err(|error| broken(&error))?);
        Ok(Self { methods: lines.collect(), place, server, pool })
    }

    /// What files say of a server.
    fn compiled(caller: &Caller, described: &Described) -> Result<Self, Problem> {
        let own = described.proto.iter().map(|file| match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        });
        let folders: Vec<PathBuf> = described.proto_path.iter().cloned().chain(own).collect();
        let files = protox::compile(&described.proto, &folders).map_err(Problem::wrong_use)?;
        let pool = DescriptorPool::from_file_descriptor_set(files).map_err(Problem::wrong_use)?;
        let services = pool.services().collect::<Vec<_>>();
        let methods = services.iter().flat_map(|service| {
            service.methods().map(|method| format!("{}/{}", service.full_name(), method.name())).collect::<Vec<_>>()
        });
        let methods = methods.collect();
        Ok(Self { place: caller.place(), server: SERVER.to_owned(), methods, pool: Some(pool) })
    }

    /// Whether it is known what there is.
    pub(crate) fn is_described(&self) -> bool {
        self.pool.is_some()
    }

    /// The methods with their messages, those included that every server has.
    pub(crate) fn methods(&self) -> impl Iterator<Item = (String, Option<(String, String)>)> {
        let described = self.methods.iter().map(|name| {
            let messages = self
                .described(name)
                .map(|method| (method.input().name().to_owned(), method.output().name().to_owned()));
            (name.clone(), messages)
        });
        described.chain([METHODS, COUNTERS].map(|name| (name.to_owned(), None)))
    }

    /// Finds a method by its name, which may leave out the package if that is clear.
    ///
    /// # Errors
    /// When there is none, or more than one, or the server didn't describe it.
    pub(crate) fn method(&self, name: &str) -> Result<Method, Problem> {
        if [METHODS, COUNTERS].iter().any(|text| is_meant(name, text)) {
            let name = if is_meant(name, METHODS) { METHODS } else { COUNTERS };
            return Ok(Method { name: name.to_owned(), messages: Messages::Text });
        }
        if self.pool.is_none() {
            return match name.split_once('/') {
                Some((service, method)) if !service.is_empty() && !method.is_empty() => {
                    Ok(Method { name: name.to_owned(), messages: Messages::Json })
                }
                _ => {
                    let problem = Problem::wrong_use(format!("no method is called `{name}`")).at(&self.place);
                    Err(problem.remedy("the server does not describe itself: write package.Service/Method"))
                }
            };
        }
        let exact = self.methods.iter().filter(|method| *method == name);
        let meant = self.methods.iter().filter(|method| *method != name && is_meant(name, method));
        let found: Vec<_> = exact.chain(meant).collect();
        let name = match found[..] {
            [] => {
                let problem = Problem::failure(format!("no method is called `{name}`")).at(&self.place);
                return Err(problem.remedy(format!("it has {}", self.methods.join(", "))));
            }
            [only] => only,
            [exact, ..] if exact == name => exact,
            [..] => {
                let found: Vec<_> = found.into_iter().map(String::as_str).collect();
                let problem = Problem::failure(format!("`{name}` may be {}", found.join(" or "))).at(&self.place);
                return Err(problem.remedy("write the whole name"));
            }
        };
        let Some(described) = self.described(name) else {
            let problem = Problem::failure(format!("the server does not describe `{name}`")).at(&self.place);
            return Err(problem.remedy("add the descriptors of its .proto to the server's router"));
        };
        Ok(Method { name: name.clone(), messages: Messages::Described(described) })
    }

    fn described(&self, name: &str) -> Option<MethodDescriptor> {
        let (service, method) = name.split_once('/')?;
        let service = self.pool.as_ref()?.get_service_by_name(service)?;
        service.methods().find(|it| it.name() == method)
    }
}

impl Method {
    /// What its messages are written in where this is what messages are written in: text is none of JSON.
    pub(crate) fn format(&self, format: Format) -> Format {
        match self.messages {
            Messages::Text => Format::Proto,
            Messages::Described(_) | Messages::Json => format,
        }
    }

    /// Whether what it takes is a stream of messages, and whether what it returns is.
    pub(crate) fn streams(&self) -> (bool, bool) {
        match &self.messages {
            Messages::Described(method) => (method.is_client_streaming(), method.is_server_streaming()),
            Messages::Text | Messages::Json => (false, false),
        }
    }

    /// The request with this JSON.
    ///
    /// # Errors
    /// When it is no JSON, or not of the method's type.
    pub(crate) fn request(&self, format: Format, json: &str) -> Result<Vec<u8>, Problem> {
        let method = match &self.messages {
            Messages::Described(method) => method,
            Messages::Text => return Ok(Vec::new()),
            Messages::Json => {
                let read = web::json(json.as_bytes());
                let wrong = |error| Problem::wrong_use(format!("the request is no JSON: {error}"));
                return read.map(|()| json.as_bytes().to_vec()).map_err(wrong);
            }
        };
        let wrong = |error: serde_json::Error| {
            let what = format!("the request is no {}: {error}", method.input().name());
            Problem::wrong_use(what).remedy(format!("it has the fields {}", fields(&method.input())))
        };
        let mut reader = serde_json::Deserializer::from_str(json);
        let message = DynamicMessage::deserialize(method.input(), &mut reader).map_err(wrong)?;
        reader.end().map_err(wrong)?;
        Ok(match self.format(format) {
            Format::Proto => message.encode_to_vec(),
            Format::Json => json.as_bytes().to_vec(),
        })
    }

    /// An encoded request as JSON.
    ///
    /// # Errors
    /// When it is not of the method's type, or that isn't known.
    pub(crate) fn request_as_json(&self, encoded: &[u8]) -> Result<Vec<u8>, Problem> {
        let Messages::Described(method) = &self.messages else {
            let problem = Problem::failure(format!("the server does not describe `{}`", self.name));
            return Err(problem.remedy("name the service's .proto with --proto, or say the request with --json"));
        };
        let broken = |error: &dyn std::fmt::Display| Problem::failure(format!("the request can't be read: {error}"));
        let message = DynamicMessage::decode(method.input(), encoded).map_err(|error| broken(&error))?;
        serde_json::to_vec(&message).map_err(|error| broken(&error))
    }

    /// The reply as JSON, or as the text that it is.
    ///
    /// # Errors
    /// When it is not of the method's type.
    pub(crate) fn reply(&self, format: Format, body: &[u8]) -> Result<String, Problem> {
        let broken = |error: &dyn std::fmt::Display| {
            Problem::failure(format!("the reply can't be read: {error}")).remedy("check the versions of both")
        };
        let as_text = || String::from_utf8_lossy(body).trim_end().to_owned();
        let method = match &self.messages {
            Messages::Described(method) => method,
            Messages::Text => return Ok(as_text()),
            // As the server wrote it.
            Messages::Json => return web::json(body).map(|()| as_text()).map_err(|error| broken(&error)),
        };
        let message = match self.format(format) {
            Format::Proto => DynamicMessage::decode(method.output(), body).map_err(|error| broken(&error))?,
            Format::Json => {
                let mut reader = serde_json::Deserializer::from_slice(body);
                // A server of a later version may say more.
                let options = DeserializeOptions::new().deny_unknown_fields(false);
                let message = DynamicMessage::deserialize_with_options(method.output(), &mut reader, &options);
                let message = message.map_err(|error| broken(&error))?;
                reader.end().map_err(|error| broken(&error))?;
                message
            }
        };
        let options = SerializeOptions::new()
            .skip_default_fields(false)
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true);
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::pretty(&mut text);
        message.serialize_with_options(&mut writer, &options).map_err(|error| broken(&error))?;
        String::from_utf8(text).map_err(|error| broken(&error))
    }
}

/// What a server is called that doesn't say what it calls itself.
const SERVER: &str = "server";

fn is_unknown(status: &Status) -> bool {
    matches!(status.code, Code::Unimplemented | Code::NotFound)
}

/// Whether something at the address has answered, whatever it is.
fn has_answered(status: &Status) -> bool {
    !matches!(status.reason, Reason::Unreachable | Reason::ConnectionLost | Reason::Expired(_))
}

/// The types of a set of descriptors, in which a file may be several times: a server's is the sets of all its services, one
/// after the other, and they import the same.
fn pool(set: &[u8]) -> Result<DescriptorPool, Box<dyn std::error::Error>> {
    let mut files = FileDescriptorSet::decode(set)?;
    let mut names = HashSet::new();
    files.file.retain(|file| names.insert(file.name().to_owned()));
    Ok(DescriptorPool::from_file_descriptor_set(files)?)
}

/// A channel for this command.
///
/// # Errors
/// A name, where names are not resolved.
pub(crate) fn channel(target: &Target, config: &ChannelConfig) -> Result<Channel, Problem> {
    Channel::to(target.clone(), config.clone()).map_err(|error| {
        let problem = Problem::wrong_use(&error);
        match error.key {
            "tls" => problem.remedy("say whom to believe with --tls-ca for grpcs://, and for grpc:// nothing of TLS"),
            _ => problem,
        }
    })
}

/// A call that failed.
pub(crate) fn failed(status: &Status, method: &str, place: &impl std::fmt::Display) -> Problem {
    Problem::failure(format!("{method} at {place} failed: {status}"))
}

/// Whether `name` is the end of the method's full name, from a word on.
fn is_meant(name: &str, method: &str) -> bool {
    method.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn fields(message: &MessageDescriptor) -> String {
    let fields: Vec<_> = message.fields().map(|field| format!("{} ({:?})", field.name(), field.kind())).collect();
    if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_services::proto::{DESCRIPTORS, search};

    fn schema() -> Schema {
        let methods = [search::QUERY, search::SHARD_QUERY].map(str::to_owned).to_vec();
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        Schema { place: "tcp://127.0.0.1:1".into(), server: "both".into(), methods, pool: Some(pool) }
    }

    #[test]
    fn descriptors_of_services_that_share_a_file_are_read() {
        let twice = [DESCRIPTORS, DESCRIPTORS].concat();
        let pool = pool(&twice).unwrap();
        assert_eq!(pool.services().count(), DescriptorPool::decode(DESCRIPTORS).unwrap().services().count());
        assert!(super::pool(b"no descriptors").is_err());
    }

    #[test]
    fn the_package_may_be_left_out() {
        for name in ["greenwave.search.Search/Query", "search.Search/Query", "Search/Query"] {
            assert_eq!(schema().method(name).unwrap().name, "greenwave.search.Search/Query");
        }
        assert_eq!(schema().method("SearchShard/Query").unwrap().name, "greenwave.search.SearchShard/Query");
        assert_eq!(schema().method("Meta/Counters").unwrap().name, COUNTERS);
    }

    #[test]
    fn a_method_that_is_not_there_is_refused_with_those_that_are() {
        for name in ["Query", "earch/Query", "Search/Find", ""] {
            let told = schema().method(name).unwrap_err().to_string();
            assert!(
                told.ends_with("it has greenwave.search.Search/Query, greenwave.search.SearchShard/Query"),
                "{told}"
            );
        }
    }

    #[test]
    fn json_becomes_the_message_and_the_message_json() {
        let method = schema().method("Search/Query").unwrap();
        let request = method.request(Format::Proto, r#"{"text": "queue", "limit": 3}"#).unwrap();
        let expected = search::QueryRequest { text: "queue".into(), limit: 3 };
        assert_eq!(search::QueryRequest::decode(&*request).unwrap(), expected);
        let reply = search::QueryReply { matching: u64::MAX, ..Default::default() };
        let json: serde_json::Value =
            serde_json::from_str(&method.reply(Format::Proto, &reply.encode_to_vec()).unwrap()).unwrap();
        assert_eq!((json["matching"].as_u64(), json["shards"].as_u64()), (Some(u64::MAX), Some(0)));
    }

    #[test]
    fn a_request_that_is_not_of_the_type_is_refused_with_its_fields() {
        let method = schema().method("Search/Query").unwrap();
        for json in ["", "{", "{}x", "[]", r#"{"txt": "queue"}"#, r#"{"limit": "many"}"#, r#"{"limit": -1}"#] {
            let told = method.request(Format::Json, json).unwrap_err().to_string();
            assert!(told.starts_with("the request is no QueryRequest: "), "{told}");
            assert!(told.ends_with("it has the fields text (string), limit (uint32)"), "{told}");
        }
        assert!(method.reply(Format::Proto, &[0xff]).is_err());
    }
}
