//! Messages as protobuf's JSON.

use crate::status::{Code, Status};
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MethodDescriptor, Value};
use std::sync::OnceLock;

/// How deep a request in JSON may be nested, and how many messages of a reply may lie in one another. What reads and writes them
/// calls itself for each level, on the handler's stack: without optimization a level takes 8 KiB.
const DEPTH_MOST: usize = 32;
const REPLY_DEPTH_MOST: usize = 2 * DEPTH_MOST + 2;

/// The smallest stack with room for that, in bytes.
const STACK_LEAST: usize = 384 << 10;

/// The types of a router's methods.
#[derive(Clone, Default)]
pub(crate) struct Types {
    pool: OnceLock<Result<DescriptorPool, String>>,
    /// Handlers' stacks have no room for JSON.
    too_small: bool,
}

/// What is known of one method's messages.
pub(crate) struct Method(MethodDescriptor);

impl Types {
    /// The same for handlers with stacks of so many bytes.
    pub(crate) fn on_stacks(mut self, bytes: usize) -> Self {
        self.too_small = bytes < STACK_LEAST;
        self
    }

    /// A method's, by its full name and the descriptors that the router has.
    pub(crate) fn method(&self, sets: &[&'static [u8]], name: &str) -> Result<Method, Status> {
        if self.too_small {
            let text = format!(
                "the server's stacks have no room for JSON; give it {STACK_LEAST} bytes or more by ServerConfig::stack, or call \
                 it with application/proto by POST"
            );
            return Err(Status::new(Code::Unimplemented, text));
        }
        let pool =
            self.pool.get_or_init(|| read(sets)).as_ref().map_err(|error| {
                Status::new(Code::Internal, format!("the server's descriptors can't be read: {error}"))
            })?;
        let found = name.split_once('/').and_then(|(service, method)| {
            let service = pool.get_service_by_name(service)?;
            service.methods().find(|it| it.name() == method)
        });
        found.map(Method).ok_or_else(|| {
            let text = format!(
                "the server knows no types of {name}; add the descriptors of its .proto by Router::descriptors, or call it \
                 with application/proto by POST"
            );
            Status::new(Code::Unimplemented, text)
        })
    }
}

/// The types that these sets of descriptors have. A file may be in several of them.
fn read(sets: &[&'static [u8]]) -> Result<DescriptorPool, String> {
    let mut pool = DescriptorPool::new();
    sets.iter().try_for_each(|set| pool.decode_file_descriptor_set(*set)).map_err(|error| error.to_string())?;
    Ok(pool)
}

impl Method {
    /// Whether its `.proto` says that it has no side effects.
    pub(crate) fn is_safe(&self) -> bool {
        let options = self.0.method_descriptor_proto().options.as_ref();
        options.is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects)
    }

    /// The request that this JSON is. Fields that it doesn't have are ignored, as its clients may be newer.
    pub(crate) fn request(&self, json: &[u8]) -> Result<Vec<u8>, Status> {
        let input = self.0.input();
        let wrong = |error: &dyn std::fmt::Display| {
            Status::new(Code::InvalidArgument, format!("the request is no {} in JSON: {error}", input.full_name()))
        };
        if depth(json) > DEPTH_MOST {
            return Err(wrong(&format_args!("it is nested more than {DEPTH_MOST} levels deep")));
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let message = DynamicMessage::deserialize_with_options(input.clone(), &mut reader, &options);
        let message = message.map_err(|error| wrong(&error))?;
        reader.end().map_err(|error| wrong(&error))?;
        Ok(message.encode_to_vec())
    }

    /// Adds the JSON that a reply is to `into`.
    pub(crate) fn reply(&self, reply: &[u8], into: &mut Vec<u8>) -> Result<(), Status> {
        let broken = |error: &dyn std::fmt::Display| {
            Status::new(Code::Internal, format!("the reply is no {}: {error}", self.0.output().full_name()))
        };
        let message = DynamicMessage::decode(self.0.output(), reply).map_err(|error| broken(&error))?;
        if is_deeper(&message, REPLY_DEPTH_MOST) {
            return Err(broken(&format_args!("it is nested more than {REPLY_DEPTH_MOST} levels deep")));
        }
        serde_json::to_writer(into, &message).map_err(|error| broken(&error))
    }
}

/// Whether more than so many messages lie in one another.
fn is_deeper(message: &DynamicMessage, most: usize) -> bool {
    let Some(left) = most.checked_sub(1) else { return true };
    let deeper = |value: &Value| matches!(value, Value::Message(message) if is_deeper(message, left));
    message.fields().any(|(_, value)| match value {
        Value::List(list) => list.iter().any(deeper),
        Value::Map(map) => map.values().any(deeper),
        other => deeper(other),
    })
}

/// How deep objects and arrays lie in one another, as far as it is JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../tests/nodes/mod.rs"]
mod nodes;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    use super::*;

    /// Those of a service.
    pub(crate) fn descriptors() -> &'static [u8] {
        static DESCRIPTORS: OnceLock<&'static [u8]> = OnceLock::new();
        DESCRIPTORS.get_or_init(nodes::descriptors)
    }

    /// Reads bytes as JSON and as a message, and writes what it was in the other way.
    ///
    /// # Panics
    /// If what was written can't be read again, or is something else.
    pub(crate) fn and_back(bytes: &[u8]) {
        static TYPES: OnceLock<Types> = OnceLock::new();
        let types = TYPES.get_or_init(Types::default);
        let method = types.method(&[descriptors()], "a.A/Change").expect("it is there");
        let text = |message: &[u8]| {
            let mut json = Vec::new();
            method.reply(message, &mut json).map(|()| json)
        };
        if let Ok(message) = method.request(bytes) {
            let json = text(&message).expect("it was JSON before");
            let again = method.request(&json).expect("it is JSON");
            // Maps have no order.
            assert_eq!(again.len(), message.len());
        }
        if let Ok(json) = text(bytes) {
            serde_json::from_slice::<serde_json::Value>(&json).expect("it is JSON");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nodes::descriptors;
    use super::*;

    fn method(name: &str) -> Result<Method, Status> {
        Types::default().method(&[descriptors(), descriptors()], name)
    }

    /// JSON that is nested as deep as it may be, in each way that what reads it calls itself.
    fn deepest() -> Vec<String> {
        let nested =
            |begin: &str, inner: &str, end: &str, depth: usize| begin.repeat(depth) + inner + &end.repeat(depth);
        let any = r#"{"@type":"type.googleapis.com/a.Node","any":"#;
        vec![
            nested(r#"{"next":"#, "{}", "}", DEPTH_MOST - 1),
            nested(r#"{"all":["#, "", "]}", DEPTH_MOST / 2),
            nested("", &[r#"{"value":"#, &nested("[", "", "]", DEPTH_MOST - 1), "}"].concat(), "", 0),
            [r#"{"value":"#, &nested(r#"{"a":"#, "1", "}", DEPTH_MOST - 1), "}"].concat(),
            [r#"{"any":"#, &nested(any, "null", "}", DEPTH_MOST - 1), "}"].concat(),
        ]
    }

    #[test]
    fn the_smallest_stack_has_room_for_what_is_nested_deepest() {
        let read = || {
            let method = method("a.A/Read").unwrap();
            for json in deepest() {
                assert!(depth(json.as_bytes()) == DEPTH_MOST || json.contains("all"));
                let request = method.request(json.as_bytes()).unwrap();
                let mut reply = Vec::new();
                method.reply(&request, &mut reply).unwrap();
                let deeper = json.replacen(":", r#":{"next":"#, 1) + "}";
                assert_eq!(method.request(deeper.as_bytes()).unwrap_err().code, Code::InvalidArgument);
            }
        };
        // A part of a handler's stack is what called it.
        let thread = std::thread::Builder::new().stack_size(STACK_LEAST - (64 << 10)).spawn(read).unwrap();
        thread.join().unwrap();
        let small = Types::default().on_stacks(STACK_LEAST - 1);
        assert_eq!(
            small.method(&[descriptors()], "a.A/Read").err().map(|status| status.code),
            Some(Code::Unimplemented)
        );
    }

    #[test]
    fn a_reply_that_is_nested_too_deep_is_none() {
        let method = method("a.A/Read").unwrap();
        let node = |inner: Option<DynamicMessage>| {
            let mut node = DynamicMessage::new(method.0.output());
            if let Some(inner) = inner {
                node.set_field_by_name("next", Value::Message(inner));
            }
            node
        };
        let mut deep = node(None);
        for depth in 1..REPLY_DEPTH_MOST + 2 {
            let replied = method.reply(&deep.encode_to_vec(), &mut Vec::new());
            assert_eq!(replied.is_ok(), depth <= REPLY_DEPTH_MOST, "{depth}");
            deep = node(Some(deep));
        }
        assert!(method.reply(&[0xff], &mut Vec::new()).is_err());
    }

    #[test]
    fn json_becomes_the_message_and_the_message_json() {
        let method = method("a.A/Change").unwrap();
        let json = br#"{"bigNumber":"18446744073709551615","all":[{},{"bigNumber":2}],"unknown":[1,{}]}"#;
        let request = method.request(json).unwrap();
        let mut reply = b"before ".to_vec();
        method.reply(&request, &mut reply).unwrap();
        let expected = r#"before {"bigNumber":"18446744073709551615","all":[{},{"bigNumber":"2"}]}"#;
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
        for wrong in ["", "{", "{}x", "[]", "1", r#"{"bigNumber":-1}"#, r#"{"next":1}"#] {
            let status = method.request(wrong.as_bytes()).unwrap_err();
            assert_eq!(status.code, Code::InvalidArgument, "{wrong}");
            assert!(status.message.starts_with("the request is no a.Node in JSON: "), "{}", status.message);
        }
    }

    #[test]
    fn a_method_is_known_by_its_descriptors_and_whether_it_is_safe() {
        assert!(method("a.A/Read").unwrap().is_safe() && !method("a.A/Change").unwrap().is_safe());
        for unknown in ["a.A/Other", "a.B/Read", "Read", ""] {
            let status = method(unknown).err().unwrap();
            assert!(status.code == Code::Unimplemented && status.message.contains("Router::descriptors"));
        }
        let broken = Types::default().method(&[b"\xff"], "a.A/Read").err().unwrap();
        assert!(broken.code == Code::Internal && broken.message.contains("descriptors can't be read"));
    }

    #[test]
    fn the_depth_of_json_is_that_of_its_brackets() {
        for (json, expected) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[{}],"b":[[[1]]]}"#, 4),
            (r#"{"[[[":"[[{\"[["}"#, 1),
            (r#"{"a\\":["\\"]}"#, 2),
            ("]]][[", 2),
        ] {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
    }
}
