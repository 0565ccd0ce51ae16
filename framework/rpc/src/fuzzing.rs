//! What fuzz targets and tests do to what reads bytes from outside in this crate: of calls, of files, and of people.
//!
//! Not part of the API.

use crate::authorize::allow_list_of;
use crate::client::target::Target;
use crate::server::asked_of_every_server;
use crate::transcoding::json_and_back;
use greenwave_verbs::Address;

/// Reads a text as where a channel leads: it is refused, or leads there when it is written and read again.
///
/// # Panics
/// If it doesn't.
pub fn target(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(target) = text.parse::<Target>() {
        let again: Target = target.to_string().parse().expect("it was a target");
        assert_eq!(again.to_string(), target.to_string());
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}

/// Reads bytes as the metadata of a call, of as many bytes as the first of them says, and as a file that says who may call what.
///
/// # Panics
/// If somebody may call what the file doesn't name.
pub fn allow_list(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first() else { return };
    let (metadata, text) = rest.split_at(usize::from(*len).min(rest.len()));
    if let Ok(text) = std::str::from_utf8(text) {
        allow_list_of(text, metadata);
    }
}

/// Reads bytes as a message in JSON, and as one in protobuf's encoding: each is refused, or can be read when it is written in the
/// other way.
///
/// # Panics
/// If it can't.
pub fn json(bytes: &[u8]) {
    json_and_back(bytes);
}

/// Reads bytes as what is asked of any server: of its descriptors, its health and its load. What the first bytes hold are the
/// descriptors, in as many bytes as the first two say; none: those of a service that there is.
///
/// # Panics
/// If an answer has more than the descriptors and the question.
pub fn meta(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (descriptors, question) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    asked_of_every_server(descriptors, question);
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_does_no_harm() {
        replay("target", target);
        replay("allow_list", allow_list);
        replay("json", json);
        replay("meta", meta);
    }

    proptest! {
        #[test]
        fn whatever_is_read_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), text: String) {
            for driver in [target, allow_list, json, meta] {
                driver(&bytes);
                driver(text.as_bytes());
                driver(&[&[0, 0], text.as_bytes()].concat());
            }
        }
    }
}
