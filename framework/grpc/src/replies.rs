//! How answers are written: the response's headers, the message, the trailers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Reason, Status};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use std::fmt::Write as _;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const ACCEPTED: HeaderName = HeaderName::from_static("grpc-accept-encoding");

const RECEIPT: HeaderName = HeaderName::from_static("greenwave-receipt-bin");

/// Bytes of the stages in a receipt: clients take 8 KiB of headers, as a rule.
const RECEIPTS_MOST: usize = 2048;

/// Bytes of a failure's text beyond which it is cut. With all of them escaped it fits into what clients take as headers.
const TEXT_MOST: usize = 1024;

/// The numbers of the codes, as they are written.
const NUMBERS: [&str; 17] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];

const _: () = assert!(NUMBERS.len() == Code::ALL.len());

/// The headers before an answer's message.
pub(crate) fn headers() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    response
}

/// The trailers behind an answer's message.
pub(crate) fn trailers(receipt: Option<&Receipt>) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, number(Code::Ok));
    add(receipt, &mut trailers);
    trailers
}

/// Adds what a call cost, for whom asked: nanoseconds queued, served and in all, as three little-endian numbers of 8 bytes,
/// and then the stages behind as a REPLY has them (docs/wire.md).
fn add(receipt: Option<&Receipt>, headers: &mut HeaderMap) {
    let Some(receipt) = receipt else { return };
    let own = [receipt.queue, receipt.service, receipt.total]
        .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
    let mut bytes = own.concat();
    receipt.encode_stages(RECEIPTS_MOST, &mut bytes);
    // Base64 is a header's value, whatever it is of.
    if let Ok(mut value) = HeaderValue::from_str(&STANDARD_NO_PAD.encode(bytes)) {
        // No two are the same, so it is not to take the place of others in the compression's table.
        value.set_sensitive(true);
        headers.insert(RECEIPT, value);
    }
}

/// A failure: all that is said, in headers alone.
pub(crate) fn failure(status: &Status, receipt: Option<&Receipt>) -> Response<()> {
    let mut response = headers();
    // No handler can succeed by failing.
    let code = if status.code == Code::Ok { Code::Internal } else { status.code };
    let into = response.headers_mut();
    into.insert(STATUS, number(code));
    let text = status.to_string();
    // What a handler said is passed on as it is; the framework's refusals say what happened and what to do.
    let said = if status.reason.as_u8() == 0 { &status.message } else { &text };
    if let Ok(mut value) = HeaderValue::from_str(&escaped(said))
        && !value.is_empty()
    {
        value.set_sensitive(true);
        into.insert(MESSAGE, value);
    }
    add(receipt, into);
    if matches!(status.reason, Reason::Expired(_) | Reason::Infeasible | Reason::QueueFull | Reason::TooManyCalls) {
        // It is not to be sent again: that would be more of what there is too much of (gRFC A6).
        into.insert(PUSHBACK, HeaderValue::from_static("-1"));
    }
    if code == Code::Unimplemented {
        into.insert(ACCEPTED, HeaderValue::from_static("identity"));
    }
    response
}

/// What is no gRPC is answered in HTTP alone.
pub(crate) fn http(code: StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = code;
    response
}

fn number(code: Code) -> HeaderValue {
    HeaderValue::from_static(NUMBERS[usize::from(code.as_u8())])
}

/// Percent-encoded: spaces and printable ASCII stay, but for the percent sign ("gRPC over HTTP/2", Responses).
fn escaped(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(TEXT_MOST)];
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => escaped.push_str("%25"),
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
    fn said(status: &Status) -> (String, String) {
        let response = failure(status, None);
        let text = |name| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        (text(STATUS), text(MESSAGE))
    }

    #[test]
    fn a_failure_is_its_number_and_its_text() {
        let failed = Status::new(Code::NotFound, "no user \"7\": 100 %\nünknown");
        assert_eq!(said(&failed), ("5".to_owned(), "no user \"7\": 100 %25%0A%C3%BCnknown".to_owned()));
        let refused = Status::refused(Reason::QueueFull, "of 100");
        assert_eq!(failure(&refused, None).headers().get(PUSHBACK).unwrap(), "-1");
        assert_eq!(failure(&failed, None).headers().get(PUSHBACK), None);
        let (number, text) = said(&refused);
        assert!(number == "8" && text.contains("queue is full (of 100)") && text.contains("send less"), "{text}");
        assert_eq!(said(&Status::new(Code::Ok, "")), ("13".to_owned(), String::new()));
        assert_eq!(said(&Status::new(Code::Unknown, "ä".repeat(5000))).1.len(), 3 * TEXT_MOST);
    }
}
