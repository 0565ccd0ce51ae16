//! How an answer says that a call failed: in Connect's JSON, or in a way that is none of the protocol's.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use greenwave::{Code, Status};
use greenwave_web::client::{binary, code_named, code_of_http};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Characters that are shown of a body that is none of the protocol's, and of a detail.
const SHOWN_MOST: usize = 200;

/// Details that are shown.
const DETAILS_MOST: usize = 8;

/// A failure as Connect writes it ("Connect protocol", Error).
#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Vec<Detail>,
}

/// More about it, for programs: a message, and what a server may say of it for people.
#[derive(Debug, Deserialize)]
struct Detail {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    debug: Option<Value>,
}

/// What ends a stream of Connect's ("Connect protocol", EndStreamResponse).
#[derive(Debug, Deserialize)]
struct End {
    #[serde(default)]
    error: Option<Failure>,
    #[serde(default)]
    metadata: HashMap<String, Vec<String>>,
}

/// What an error's body says; `None`: it is no error of Connect's.
pub(super) fn of_json(http: u16, body: &[u8]) -> Option<Status> {
    let failure: Failure = serde_json::from_slice(body).ok()?;
    // Other JSON than Connect's is told from it by this.
    if failure.code.is_empty() && failure.message.is_empty() {
        return None;
    }
    Some(failure.status(code_of_http(http)))
}

/// What ends a stream: how the call ended, and what else was said.
pub(super) type Ended = (Result<(), Status>, Vec<(String, Vec<u8>)>);

/// Reads what ends a stream of Connect's.
pub(super) fn end_of_stream(bytes: &[u8]) -> Ended {
    let end: End = match serde_json::from_slice(bytes) {
        Ok(end) => end,
        Err(error) => return (Err(foreign(Code::Unknown, &format!("what ends it is no JSON: {error}"))), Vec::new()),
    };
    let one = |(name, values): (String, Vec<String>)| {
        let name = name.to_ascii_lowercase();
        values.into_iter().map(move |value| (name.clone(), value.into_bytes())).collect::<Vec<_>>()
    };
    let metadata = end.metadata.into_iter().flat_map(one).collect();
    (end.error.map_or(Ok(()), |failure| Err(failure.status(Code::Unknown))), metadata)
}

impl Failure {
    fn status(self, otherwise: Code) -> Status {
        let mut message = self.message;
        let code = code_named(&self.code).unwrap_or_else(|| {
            if !self.code.is_empty() {
                let space = if message.is_empty() { "" } else { " " };
                message = format!("{message}{space}(the code `{}`, which there isn't)", excerpt(self.code.as_bytes()));
            }
            otherwise
        });
        let details: Vec<String> = self.details.iter().take(DETAILS_MOST).map(Detail::shown).collect();
        let space = if message.is_empty() { "" } else { " " };
        if !details.is_empty() {
            // To write into memory doesn't fail.
            let _ = write!(message, "{space}(details: {})", details.join(", "));
        }
        if self.details.len() > DETAILS_MOST {
            message.push_str(" and more");
        }
        Status::new(code, message).by_handler()
    }
}

impl Detail {
    /// The type, and what is known of the value: what the server says of it, the text that it is, or its bytes.
    fn shown(&self) -> String {
        let value = match (&self.debug, binary(self.value.as_bytes())) {
            (Some(debug), _) => excerpt(debug.to_string().as_bytes()),
            (None, Some(bytes)) => excerpt(STANDARD_NO_PAD.encode(bytes).as_bytes()),
            (None, None) => excerpt(self.value.as_bytes()),
        };
        format!("{} {value}", excerpt(self.kind.as_bytes()))
    }
}

/// An answer that is none of the protocol's.
pub(super) fn foreign(code: Code, text: &str) -> Status {
    Status::new(code, format!("the answer can't be understood: {text}")).by_handler()
}

/// An answer of something else than a server of this protocol: a proxy, a page.
pub(super) fn none_of(protocol: &str, http: u16, kind: &str, body: &[u8]) -> Status {
    let kind = if kind.is_empty() {
        "no content-type".to_owned()
    } else {
        format!("content-type `{}`", excerpt(kind.as_bytes()))
    };
    let mut text = format!("it is none of {protocol}'s: HTTP's status {http}, {kind}");
    let begins = excerpt(body);
    if !begins.trim().is_empty() {
        // To write into memory doesn't fail.
        let _ = write!(text, ", and it begins with `{}`", begins.trim());
    }
    if http == 415 {
        text.push_str("; a method that takes or returns a stream is called as such if --proto names its .proto");
    }
    let code = if http == 200 { Code::Unknown } else { code_of_http(http) };
    foreign(code, &text)
}

/// The beginning of some bytes, as one line of text.
fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_MOST)]);
    let mut words = String::new();
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if !word.is_empty() {
            words.push_str(if words.is_empty() { "" } else { " " });
            words.push_str(word);
        }
    }
    match words.char_indices().nth(SHOWN_MOST) {
        None => words,
        Some((at, _)) => format!("{}…", &words[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_connect_has_a_code_a_message_and_details() {
        let status = of_json(404, br#"{"code":"not_found","message":"no row"}"#).unwrap();
        assert_eq!((status.code, &*status.message), (Code::NotFound, "no row"));
        let detailed = br#"{"code":"resource_exhausted","message":"full","details":[
            {"type":"google.rpc.RetryInfo","value":"CgIIPA","debug":{"retryDelay":"30s"}},{"type":"a.B","value":"AAE="}]}"#;
        let status = of_json(429, detailed).unwrap();
        let expected = r#"full (details: google.rpc.RetryInfo {"retryDelay":"30s"}, a.B AAE)"#;
        assert_eq!((status.code, &*status.message), (Code::ResourceExhausted, expected));
        let unknown = of_json(503, br#"{"code":"tired"}"#).unwrap();
        assert_eq!((unknown.code, &*unknown.message), (Code::Unavailable, "(the code `tired`, which there isn't)"));
        let many = format!(r#"{{"code":"aborted","details":[{}]}}"#, [r#"{"type":"a"}"#; 9].join(","));
        assert!(of_json(409, many.as_bytes()).unwrap().message.ends_with(" and more"));
    }

    #[test]
    fn other_json_is_no_error_of_connect() {
        for body in ["", "{", "[]", "{}", r#"{"error":"x"}"#, r#"{"code":7}"#, "\"not_found\""] {
            assert_eq!(of_json(502, body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_stream_ends_with_an_error_or_without() {
        assert_eq!(end_of_stream(b"{}"), (Ok(()), Vec::new()));
        let (result, metadata) = end_of_stream(br#"{"error":{"code":"aborted"},"metadata":{"X-Cost":["7","8"]}}"#);
        assert_eq!(result.unwrap_err().code, Code::Aborted);
        assert_eq!(metadata, [("x-cost".to_owned(), b"7".to_vec()), ("x-cost".to_owned(), b"8".to_vec())]);
        assert!(end_of_stream(b"").0.unwrap_err().message.contains("no JSON"));
    }

    #[test]
    fn a_page_is_told_by_its_status_and_its_first_words() {
        let page = format!("<html>\r\n  <b>Bad\tGateway\u{1b}[1m{}", "x".repeat(1000));
        let status = none_of("Connect", 502, "text/html", page.as_bytes());
        assert_eq!(status.code, Code::Unavailable);
        assert!(
            status.message.contains(
                "HTTP's status 502, content-type `text/html`, and it begins with `<html> <b>Bad Gateway [1mxxx"
            )
        );
        assert!(status.message.len() < 1000 && status.message.ends_with("x…`"), "{status}");
        assert!(none_of("gRPC-Web", 200, "", b"").message.ends_with("HTTP's status 200, no content-type"));
    }
}
