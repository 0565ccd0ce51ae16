//! How a call is answered, which follows from how it came.

use crate::connect;
use crate::cors::Cors;
use crate::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use greenwave_proto::Format;
use greenwave_proto::compression::Encoding;
use greenwave_proto::connection::{Extra, StreamMessage};
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::Meta;
use std::fmt::Write as _;

/// How a call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    pub(crate) protocol: Protocol,
    pub(crate) cors: Cors,
    /// Whether the caller wants to know where the time went.
    pub(crate) wants_receipt: bool,
    /// How messages of the answer may be compressed.
    pub(crate) encoding: Option<Encoding>,
}

/// What a call came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Connect {
        format: Format,
        /// By GET.
        get: bool,
    },
    GrpcWeb {
        format: Format,
        text: bool,
    },
    /// A probe, which goes by HTTP's status alone.
    Probe,
}

/// `HealthCheckResponse { status: SERVING }`.
const SERVING: [u8; 2] = [1 << 3, 1];

/// Where a caller that asks for it finds what its call cost.
const RECEIPT: &str = "greenwave-receipt-bin";

/// Bytes of the stages in a receipt.
const RECEIPTS_MOST: usize = 2048;

/// The flag of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

impl Style {
    /// The answer to a call.
    pub fn answer(&self, result: Result<Vec<u8>, Status>, receipt: &Receipt, extra: &Extra) -> Response {
        let leading = metadata(extra.leading.as_deref());
        let mut trailing = metadata(extra.trailing.as_deref());
        if self.wants_receipt {
            trailing.push((RECEIPT.to_owned(), encoded(receipt)));
        }
        let response = match (self.protocol, result) {
            (Protocol::Connect { format, .. }, Ok(body)) => {
                let response = with_trailers(Response::of(200, connect_type(format), body), trailing);
                match extra.compressed {
                    None => response,
                    Some(encoding) => {
                        response.with("content-encoding", encoding.name()).with("vary", "accept-encoding")
                    }
                }
            }
            (Protocol::Connect { get, .. }, Err(status)) => with_trailers(connect_failure(&status, get), trailing),
            (Protocol::GrpcWeb { format, text }, result) => {
                let result = result.and_then(|body| match u32::try_from(body.len()) {
                    Ok(_) => Ok(body),
                    Err(_) => Err(Status::refused(Reason::ReplyTooLarge, format!("it has {} bytes", body.len()))),
                });
                let trailers = trailers_frame(&trailers(result.as_ref().err(), &trailing));
                let body = match result {
                    Ok(body) => [prefix(extra.compressed.is_some().into(), body.len() as u32).to_vec(), body, trailers],
                    Err(_) => [trailers, Vec::new(), Vec::new()],
                };
                // One text, as all of it is there.
                let body =
                    if text { [STANDARD.encode(body.concat()).into_bytes(), Vec::new(), Vec::new()] } else { body };
                let response = Response::of(200, grpc_web_type(format, text), Vec::new());
                let response = match extra.compressed {
                    None => response,
                    Some(encoding) => response.with("grpc-encoding", encoding.name()),
                };
                Response { body, ..response }
            }
            (Protocol::Probe, Ok(body)) if body == SERVING => Response::of(200, TEXT, b"SERVING\n".to_vec()),
            (Protocol::Probe, Ok(_)) => Response::of(503, TEXT, b"NOT_SERVING\n".to_vec()),
            (Protocol::Probe, Err(status)) => Response::of(503, TEXT, format!("{status}\n").into_bytes()),
        };
        let response = leading.into_iter().fold(response, |response, (name, value)| response.with(name, value));
        self.cors.mark(response)
    }

    /// Whether its answer may be a stream of messages.
    pub fn streams(&self) -> bool {
        matches!(self.protocol, Protocol::GrpcWeb { format: Format::Proto, .. })
    }

    /// What precedes a stream of messages, with metadata as on the wire.
    pub fn begin(&self, leading: &[u8]) -> Response {
        let kind = match self.protocol {
            Protocol::GrpcWeb { format, text } => grpc_web_type(format, text),
            Protocol::Connect { .. } | Protocol::Probe => TEXT,
        };
        let mut response = Response::of(200, kind, Vec::new());
        if let Some(encoding) = self.encoding {
            response = response.with("grpc-encoding", encoding.name());
        }
        let leading = metadata(Some(leading)).into_iter();
        self.cors.mark(leading.fold(response, |response, (name, value)| response.with(name, value)))
    }

    /// Whether all is in Base64.
    pub fn is_text(&self) -> bool {
        matches!(self.protocol, Protocol::GrpcWeb { text: true, .. })
    }

    /// A message of a stream, in its frame: what precedes it, and itself.
    pub fn message(&self, StreamMessage { body, compressed, .. }: StreamMessage) -> [Vec<u8>; 2] {
        let prefix = prefix(compressed.is_some().into(), body.len() as u32);
        match self.protocol {
            Protocol::GrpcWeb { text: true, .. } => {
                [Vec::new(), STANDARD.encode([&prefix, &*body].concat()).into_bytes()]
            }
            _ => [prefix.to_vec(), body],
        }
    }

    /// What ends a stream of messages.
    pub fn end(&self, failed: Option<&Status>, receipt: &Receipt, extra: &Extra) -> Vec<u8> {
        let mut trailing = metadata(extra.trailing.as_deref());
        if self.wants_receipt {
            trailing.push((RECEIPT.to_owned(), encoded(receipt)));
        }
        let frame = trailers_frame(&trailers(failed, &trailing));
        match self.protocol {
            Protocol::GrpcWeb { text: true, .. } => STANDARD.encode(frame).into_bytes(),
            _ => frame,
        }
    }

    /// The answer to a call that is not taken in.
    pub fn refuse(&self, status: Status) -> Response {
        let protocol = match self.protocol {
            Protocol::Connect { format, .. } => Protocol::Connect { format, get: false },
            other => other,
        };
        let style = Self { protocol, cors: self.cors.clone(), wants_receipt: false, encoding: None };
        style.answer(Err(status), &Receipt::default(), &Extra::default())
    }
}

/// Plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// What an error of Connect's is written in, whatever the call was.
pub(crate) const JSON: &str = "application/json";

fn connect_type(format: Format) -> &'static str {
    match format {
        Format::Json => JSON,
        Format::Proto => "application/proto",
    }
}

fn grpc_web_type(format: Format, text: bool) -> &'static str {
    match (format, text) {
        (Format::Proto, false) => "application/grpc-web+proto",
        (Format::Proto, true) => "application/grpc-web-text+proto",
        (Format::Json, false) => "application/grpc-web+json",
        (Format::Json, true) => "application/grpc-web-text+json",
    }
}

fn connect_failure(status: &Status, get: bool) -> Response {
    let http = match status.reason {
        Reason::UnknownMethod => 404,
        _ if get && status.code == Code::Unimplemented => 405,
        _ => connect::http_status(if status.code == Code::Ok { Code::Internal } else { status.code }),
    };
    let response = Response::of(http, JSON, connect::failure(status.code, &connect::told(status)));
    match http {
        405 => response.with("allow", "POST"),
        _ => response,
    }
}

/// A unary answer of Connect's has its trailers among its headers.
fn with_trailers(response: Response, trailers: Vec<(String, String)>) -> Response {
    trailers.into_iter().fold(response, |response, (name, value)| response.with(format!("trailer-{name}"), value))
}

/// What a handler said beside its message, as headers. Names that are HTTP's or the protocols' own are left out, and what can't
/// be a header's value.
fn metadata(entries: Option<&[u8]>) -> Vec<(String, String)> {
    let entries = Meta::parse(entries.unwrap_or_default()).into_iter().flatten();
    let header = |(name, value): (&str, &[u8])| {
        let is_token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let name = name.to_ascii_lowercase();
        let is_own = matches!(&*name, "connection" | "date" | "set-cookie" | "te" | "trailer" | "upgrade" | "vary")
            || ["access-control-", "connect-", "content-", "grpc-", "trailer-", "transfer-"]
                .iter()
                .any(|own| name.starts_with(own));
        if is_own || !name.bytes().all(is_token) {
            return None;
        }
        if name.ends_with("-bin") {
            return Some((name, STANDARD_NO_PAD.encode(value)));
        }
        let is_text = value.iter().all(|byte| (b' '..=b'~').contains(byte));
        is_text.then(|| (name, String::from_utf8_lossy(value.trim_ascii()).into_owned()))
    };
    entries.filter_map(header).collect()
}

/// What a call cost, as the trailer `greenwave-receipt-bin` has it (docs/grpc.md).
fn encoded(receipt: &Receipt) -> String {
    let own = [receipt.queue, receipt.service, receipt.total]
        .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
    let mut bytes = own.concat();
    receipt.encode_stages(RECEIPTS_MOST, &mut bytes);
    STANDARD_NO_PAD.encode(bytes)
}

/// gRPC-Web's trailers: how the call ended.
fn trailers(failed: Option<&Status>, more: &[(String, String)]) -> String {
    let code = failed.map_or(Code::Ok, |status| if status.code == Code::Ok { Code::Internal } else { status.code });
    let mut trailers = format!("grpc-status: {}\r\n", code.as_u8());
    if let Some(status) = failed {
        let text = escaped(&connect::told(status));
        if !text.is_empty() {
            // To write into memory doesn't fail.
            let _ = write!(trailers, "grpc-message: {text}\r\n");
        }
        if matches!(status.reason, Reason::Expired(_) | Reason::Infeasible | Reason::QueueFull | Reason::TooManyCalls) {
            trailers.push_str("grpc-retry-pushback-ms: -1\r\n");
        }
    }
    for (name, value) in more {
        let _ = write!(trailers, "{name}: {value}\r\n");
    }
    trailers
}

/// What precedes a message, or trailers, of so many bytes.
fn prefix(flags: u8, len: u32) -> [u8; 5] {
    let [a, b, c, d] = len.to_be_bytes();
    [flags, a, b, c, d]
}

fn trailers_frame(trailers: &str) -> Vec<u8> {
    [&prefix(TRAILERS, trailers.len() as u32), trailers.as_bytes()].concat()
}

/// Bytes of a failure's text beyond which it is cut.
const TEXT_MOST: usize = 1024;

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
    use greenwave_proto::status::Check;
    use greenwave_proto::wire::push_meta;

    fn answer(protocol: Protocol, result: Result<&[u8], Status>, wants_receipt: bool) -> (u16, String, Response) {
        let style = Style { protocol, cors: Cors::default(), wants_receipt, encoding: None };
        let response = style.answer(result.map(<[u8]>::to_vec), &Receipt::default(), &extra());
        (response.status, String::from_utf8_lossy(&response.body.concat()).into_owned(), response)
    }

    /// A handler's own words, and some that it may not say.
    fn extra() -> Extra {
        let mut entries = Vec::new();
        for (name, value) in [("X-Cost", &b" 7"[..]), ("k-bin", &[0, 1]), ("grpc-status", b"0"), ("x", b"a\r\nb")] {
            push_meta(&mut entries, name, value).unwrap();
        }
        Extra { leading: Some(entries.clone().into()), trailing: Some(entries.into()), ..Extra::default() }
    }

    const WEB: Protocol = Protocol::GrpcWeb { format: Format::Proto, text: false };
    const CONNECT: Protocol = Protocol::Connect { format: Format::Json, get: false };

    #[test]
    fn connect_says_by_http_how_it_went() {
        let (status, body, response) = answer(CONNECT, Ok(b"{}"), true);
        assert_eq!((status, &*body), (200, "{}"));
        let said: Vec<_> = response.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("content-type", "application/json"),
            ("trailer-x-cost", "7"),
            ("trailer-k-bin", "AAE"),
            ("trailer-greenwave-receipt-bin", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            ("x-cost", "7"),
            ("k-bin", "AAE"),
        ];
        assert_eq!(said, expected);
        let (status, body, _) = answer(CONNECT, Err(Status::new(Code::NotFound, "nobody")), false);
        assert_eq!((status, &*body), (404, r#"{"code":"not_found","message":"nobody"}"#));
        let refused = Status::refused(Reason::Expired(Check::Dequeue), "late by 3 ms");
        let (status, body, _) = answer(CONNECT, Err(refused), false);
        assert!(status == 504 && body.contains("deadline_exceeded") && body.contains("late by 3 ms"), "{body}");
        let unknown = Err(Status::refused(Reason::UnknownMethod, ""));
        assert_eq!(answer(CONNECT, unknown, false).0, 404);
        let get = Protocol::Connect { format: Format::Json, get: true };
        let (status, _, response) = answer(get, Err(Status::new(Code::Unimplemented, "")), false);
        assert!(status == 405 && response.headers.contains(&("allow".into(), "POST".to_owned())));
        assert_eq!(answer(CONNECT, Err(Status::new(Code::Ok, "")), false).0, 500);
    }

    #[test]
    fn grpc_web_says_it_in_a_frame_of_trailers() {
        let (status, body, _) = answer(WEB, Ok(b"abc"), false);
        let said = "grpc-status: 0\r\nx-cost: 7\r\nk-bin: AAE\r\n";
        assert_eq!(
            (status, body),
            (200, format!("\0\0\0\0\u{3}abc\u{fffd}\0\0\0{}{said}", char::from(said.len() as u8)))
        );
        let (status, body, _) = answer(WEB, Err(Status::new(Code::NotFound, "no \n%")), true);
        assert!(
            status == 200
                && body.contains(
                    "grpc-status: 5\r\ngrpc-message: no %0A%25\r\nx-cost: 7\r\nk-bin: AAE\r\ngreenwave-receipt-bin: "
                )
        );
        let full = answer(WEB, Err(Status::refused(Reason::QueueFull, "")), false).1;
        assert!(full.contains("grpc-retry-pushback-ms: -1\r\n"));
        let text = Protocol::GrpcWeb { format: Format::Proto, text: true };
        let (_, body, response) = answer(text, Ok(b"abc"), false);
        assert!(STANDARD.decode(&body).unwrap().starts_with(b"\0\0\0\0\x03abc\x80"));
        assert_eq!(response.headers[0].1, "application/grpc-web-text+proto");
    }

    #[test]
    fn a_probe_goes_by_the_status() {
        assert_eq!(answer(Protocol::Probe, Ok(&SERVING), false).0, 200);
        assert_eq!(answer(Protocol::Probe, Ok(&[8, 2]), false).0, 503);
        assert_eq!(answer(Protocol::Probe, Err(Status::refused(Reason::QueueFull, "")), false).0, 503);
    }
}
