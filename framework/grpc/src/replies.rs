//! How answers are written: the response's headers, the message, the trailers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use greenwave_http2::{Connection, Header, Known, Stream};
use greenwave_proto::compression::{Encoding, Encodings};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::Meta;
use std::fmt::Write as _;

const STATUS: &[u8] = b"grpc-status";
const RECEIPT: &[u8] = b"greenwave-receipt-bin";

/// Those of gRPC's own names whose values are a handler's: the details of a failure, and whether to try again.
const HANDLERS: [&str; 2] = ["grpc-status-details-bin", "grpc-retry-pushback-ms"];

/// Bytes of the stages in a receipt: clients take 8 KiB of headers, as a rule.
const RECEIPTS_MOST: usize = 2048;

/// Bytes of a failure's text beyond which it is cut. With all of them escaped it fits into what clients take as headers.
const TEXT_MOST: usize = 1024;

/// The numbers of the codes, as they are written.
const NUMBERS: [&str; 17] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];

const _: () = assert!(NUMBERS.len() == Code::ALL.len());

/// What every answer has, known to its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    fine: Option<Known>,
    grpc: Option<Known>,
    succeeded: Option<Known>,
}

impl Usual {
    pub(crate) fn new(http: &mut Connection) -> Self {
        Self {
            fine: http.know(b":status", b"200"),
            grpc: http.know(b"content-type", b"application/grpc"),
            succeeded: http.know(STATUS, b"0"),
        }
    }

    /// The headers before an answer's message.
    #[inline]
    pub(crate) fn headers(&self) -> [Header<'static>; 2] {
        [header(self.fine, b":status", b"200"), header(self.grpc, b"content-type", b"application/grpc")]
    }

    /// The trailers of an answer that says nothing else.
    #[inline]
    pub(crate) fn trailers(&self) -> [Header<'static>; 1] {
        [header(self.succeeded, STATUS, b"0")]
    }

    /// A failure: all that is said, in headers alone.
    pub(crate) fn fail(&self, http: &mut Connection, stream: Stream, status: &Status, more: &Pairs) {
        let mut said = failure(status);
        said.append(more);
        let all: Vec<Header<'_>> = self.headers().into_iter().chain(said.headers()).collect();
        http.respond(stream, &all, true);
    }
}

#[inline]
fn header(known: Option<Known>, name: &'static [u8], value: &'static [u8]) -> Header<'static> {
    known.map_or(Header::Plain(name, value), Header::Known)
}

/// What is no gRPC is answered in HTTP alone.
pub(crate) fn http(http: &mut Connection, stream: Stream, code: &[u8]) {
    http.respond(stream, &[Header::Plain(b":status", code)], true);
}

/// Headers that differ from answer to answer, each with whether it is to be kept out of tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(Vec<u8>, Vec<u8>, bool)>);

impl Pairs {
    pub(crate) fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.0.iter().map(
            |(name, value, sensitive)| {
                if *sensitive { Header::Sensitive(name, value) } else { Header::Plain(name, value) }
            },
        )
    }

    fn push(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        self.0.push((name.to_vec(), value.to_vec(), sensitive));
    }

    /// Says what requests may be compressed with.
    pub(crate) fn push_accepted(&mut self) {
        self.push(b"grpc-accept-encoding", Encodings::BUILT_IN.list().as_bytes(), false);
    }

    /// Says what messages of the answer are compressed with, those that are.
    pub(crate) fn push_encoding(&mut self, encoding: Encoding) {
        self.push(b"grpc-encoding", encoding.name().as_bytes(), false);
    }

    fn append(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// Adds what a call cost: nanoseconds queued, served and in all, as three little-endian numbers of 8 bytes, and then the
    /// stages behind as a REPLY has them (docs/wire.md).
    pub(crate) fn add_receipt(&mut self, receipt: &Receipt) {
        let own = [receipt.queue, receipt.service, receipt.total]
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
        let mut bytes = own.concat();
        receipt.encode_stages(RECEIPTS_MOST, &mut bytes);
        // No two are the same, so it is not to take the place of others in the compression's table.
        self.push(RECEIPT, STANDARD_NO_PAD.encode(bytes).as_bytes(), true);
    }

    /// Adds metadata: entries as on the wire. Those that HTTP/2 or gRPC would take for its own are left out, and what can't be a
    /// header's value.
    pub(crate) fn add_metadata(&mut self, entries: &[u8]) {
        let Ok(entries) = Meta::parse(entries) else { return };
        for (name, value) in entries {
            let is_token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
            let name = name.to_ascii_lowercase();
            let is_own = matches!(&*name, "content-type" | "te" | "connection" | "content-length");
            let is_grpcs = name.starts_with("grpc-") && !HANDLERS.contains(&&*name);
            if is_own || is_grpcs || !name.bytes().all(is_token) {
                continue;
            }
            if name.ends_with("-bin") {
                self.push(name.as_bytes(), STANDARD_NO_PAD.encode(value).as_bytes(), false);
            } else if value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
                self.push(name.as_bytes(), value.trim_ascii(), false);
            }
        }
    }
}

/// What is said of a failure.
pub(crate) fn failure(status: &Status) -> Pairs {
    let mut said = Pairs::default();
    // No handler can succeed by failing.
    let code = if status.code == Code::Ok { Code::Internal } else { status.code };
    said.push(STATUS, number(code), false);
    let text = status.to_string();
    // What a handler said is passed on as it is; the framework's refusals say what happened and what to do.
    let text = escaped(if status.reason.as_u8() == 0 { &status.message } else { &text });
    if !text.is_empty() {
        said.push(b"grpc-message", text.as_bytes(), true);
    }
    if matches!(status.reason, Reason::Expired(_) | Reason::Infeasible | Reason::QueueFull | Reason::TooManyCalls) {
        // It is not to be sent again: that would be more of what there is too much of (gRFC A6).
        said.push(b"grpc-retry-pushback-ms", b"-1", false);
    }
    if code == Code::Unimplemented {
        said.push_accepted();
    }
    said
}

fn number(code: Code) -> &'static [u8] {
    NUMBERS[usize::from(code.as_u8())].as_bytes()
}

/// Percent-encoded: spaces and printable ASCII stay, but for the percent sign ("gRPC over HTTP/2", Responses), and for spaces at
/// either end, where HTTP has none.
fn escaped(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(TEXT_MOST)];
    let inner = text.len() - text.trim_start_matches(' ').len()..text.trim_end_matches(' ').len();
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'%' => escaped.push_str("%25"),
            b' ' if !inner.contains(&at) => escaped.push_str("%20"),
            b' '..=b'~' => escaped.push(byte.into()),
            // To write into memory doesn't fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::wire::push_meta;

    fn said(pairs: &Pairs, wanted: &str) -> Option<String> {
        let found = pairs.0.iter().find(|(name, _, _)| name == wanted.as_bytes())?;
        Some(String::from_utf8(found.1.clone()).unwrap())
    }

    #[test]
    fn a_failure_is_its_number_and_its_text() {
        let both = |status: &Status| {
            let pairs = failure(status);
            ["grpc-status", "grpc-message"].map(|name| said(&pairs, name).unwrap_or_default())
        };
        let failed = Status::new(Code::NotFound, "no user \"7\": 100 %\nünknown");
        assert_eq!(both(&failed), ["5", "no user \"7\": 100 %25%0A%C3%BCnknown"]);
        assert_eq!(both(&Status::new(Code::NotFound, " a b  "))[1], "%20a b%20%20");
        let refused = Status::refused(Reason::QueueFull, "of 100");
        assert_eq!(said(&failure(&refused), "grpc-retry-pushback-ms").unwrap(), "-1");
        assert_eq!(said(&failure(&failed), "grpc-retry-pushback-ms"), None);
        let [number, text] = both(&refused);
        assert!(number == "8" && text.contains("queue is full (of 100)") && text.contains("send less"), "{text}");
        assert_eq!(both(&Status::new(Code::Ok, "")), ["13", ""]);
        assert_eq!(both(&Status::new(Code::Unknown, "ä".repeat(5000)))[1].len(), 3 * TEXT_MOST);
    }

    #[test]
    fn metadata_are_headers_unless_they_are_somebody_elses() {
        let mut entries = Vec::new();
        for (name, value) in
            [("X-Cost", &b" 7"[..]), ("k-bin", &[0, 1]), ("grpc-status", b"0"), ("x", b"\n"), ("te", b"")]
        {
            push_meta(&mut entries, name, value).unwrap();
        }
        let mut pairs = Pairs::default();
        pairs.add_metadata(&entries);
        assert_eq!(pairs.0.len(), 2);
        assert_eq!(
            (said(&pairs, "x-cost").unwrap(), said(&pairs, "k-bin").unwrap()),
            ("7".to_owned(), "AAE".to_owned())
        );
    }
}
