//! An answer as it comes: its messages, and how it ends.

use std::collections::VecDeque;

use bytes::Bytes;
use greenwave::{Code, Reason, Receipt, Status};
use greenwave_web::client::{self, Flags, Frame, Frames, Trailers};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::address::Protocol;
use super::connection::broken;
use super::failure;
use super::request::Call;

/// Bytes of a failure's body that are read.
const FAILURE_MOST: usize = 64 << 10;

/// The receipt of a Greenwave server.
const RECEIPT: &str = "greenwave-receipt-bin";

/// What Connect has before the names of trailers in the headers of an answer of one message.
const TRAILER: &str = "trailer-";

/// An answer that has begun.
pub(super) struct Answer {
    protocol: Protocol,
    http: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    kind: Kind,
    most: usize,
    found: VecDeque<Vec<u8>>,
    end: Option<(Result<(), Status>, Trailers)>,
    /// Whether the last byte of the body was read.
    over: bool,
    /// Whether nothing more of the body is to be read.
    given_up: bool,
}

enum Kind {
    /// The body is the message.
    Message,
    /// The body is messages in frames.
    Frames(Frames),
    /// The body says how the call failed, if it is Connect's JSON.
    Failure,
}

/// How a call ended, and what was said beside its messages.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) result: Result<(), Status>,
    /// Names in lower case, and values.
    pub(crate) leading: Vec<(String, Vec<u8>)>,
    pub(crate) trailing: Vec<(String, Vec<u8>)>,
    pub(crate) receipt: Option<Receipt>,
}

impl End {
    /// Of a call that got no answer.
    pub(super) fn failed(status: Status) -> Self {
        Self { result: Err(status), leading: Vec::new(), trailing: Vec::new(), receipt: None }
    }
}

impl Answer {
    /// The answer to a call, whose messages may have so many bytes each.
    pub(super) fn begin(response: Response<Incoming>, call: &Call, protocol: Protocol, most: usize) -> Self {
        let (head, body) = response.into_parts();
        let value = head.headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let expected = call.content_type(protocol);
        // A server of gRPC-Web may leave out that messages are protobuf.
        let is_expected = essence == expected.as_bytes()
            || (expected == "application/grpc-web+proto" && essence == b"application/grpc-web");
        let kind = match (head.status == StatusCode::OK && is_expected, protocol) {
            (true, Protocol::GrpcWeb) => Kind::Frames(Frames::new(Flags::GRPC_WEB, most)),
            (true, Protocol::Connect) if call.streams => Kind::Frames(Frames::new(Flags::CONNECT, most)),
            (true, Protocol::Connect) => Kind::Message,
            (false, _) => Kind::Failure,
        };
        let (headers, http) = (head.headers, head.status);
        let mut answer = Self {
            protocol,
            http,
            headers,
            body,
            kind,
            most,
            found: VecDeque::new(),
            end: None,
            over: false,
            given_up: false,
        };
        let coding = answer.header(CONTENT_ENCODING.as_str());
        if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
            let coding = String::from_utf8_lossy(coding);
            answer.fail(failure::foreign(
                Code::Internal,
                &format!("it is compressed with `{coding}`, which was not asked for"),
            ));
        }
        // An answer of gRPC-Web without messages may say all in its headers.
        if protocol == Protocol::GrpcWeb && answer.end.is_none() {
            let trailers = Trailers::of_headers(entries(&answer.headers));
            if let Some(result) = trailers.status() {
                answer.end = Some((result, Trailers::default()));
            }
        }
        answer
    }

    /// The next message; `None`: the call is over, and [`finish`](Self::finish) says how.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(message) = self.found.pop_front() {
                return Some(message);
            }
            // What ends the call stands before the end of the body, and the connection may be used again after that alone.
            if self.over || self.given_up {
                return None;
            }
            match &self.kind {
                Kind::Failure if self.end.is_some() => return None,
                Kind::Message => self.whole().await,
                Kind::Failure => self.failure().await,
                Kind::Frames(_) => self.piece().await,
            }
        }
    }

    /// How the call ended; whether its connection may carry another one.
    pub(super) fn finish(self) -> (End, bool) {
        let headers = Trailers::of_headers(entries(&self.headers));
        let (result, trailers) = self.end.unwrap_or_else(|| (Ok(()), Trailers::default()));
        let (mut leading, mut trailing) = (Vec::new(), Vec::new());
        let of_headers = headers.entries().map(|(name, value)| match (self.protocol, name.strip_prefix(TRAILER)) {
            (Protocol::Connect, Some(name)) => (true, name, value),
            _ => (false, name, value),
        });
        let all = of_headers.chain(trailers.entries().map(|(name, value)| (true, name, value)));
        let mut receipt = None;
        for (is_trailing, name, value) in all {
            if name == RECEIPT {
                receipt = client::receipt(value);
            } else if !is_own(name) {
                let said = if is_trailing { &mut trailing } else { &mut leading };
                let decoded = if name.ends_with("-bin") { client::binary(value) } else { None };
                said.push((name.to_owned(), decoded.unwrap_or_else(|| value.to_vec())));
            }
        }
        (End { result, leading, trailing, receipt }, self.over)
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes)
    }

    fn fail(&mut self, status: Status) {
        self.end = Some((Err(status), Trailers::default()));
        self.given_up = true;
    }

    /// Reads the body, which is one message.
    async fn whole(&mut self) {
        match self.read(self.most).await {
            Ok(body) => self.found.push_back(body),
            Err(status) => self.fail(status),
        }
    }

    /// Reads the body of a failure.
    async fn failure(&mut self) {
        let http = self.http.as_u16();
        let kind = String::from_utf8_lossy(self.header("content-type").unwrap_or_default()).into_owned();
        let is_json =
            kind.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"));
        let body = self.read(FAILURE_MOST).await.unwrap_or_default();
        let told = match self.protocol {
            Protocol::Connect if is_json && http != 200 => failure::of_json(http, &body),
            _ => None,
        };
        let spoken = match self.protocol {
            Protocol::Connect => "Connect",
            Protocol::GrpcWeb => "gRPC-Web",
        };
        self.fail(told.unwrap_or_else(|| failure::none_of(spoken, http, &kind, &body)));
    }

    /// Reads the rest of the body, if it has at most so many bytes.
    async fn read(&mut self, most: usize) -> Result<Vec<u8>, Status> {
        let refused = |len: u64| {
            Err(Status::refused(Reason::ReplyTooLarge, format!("it has {len} bytes or more; at most {most} are taken")))
        };
        let announced = self.body.size_hint().lower();
        if announced > most as u64 {
            return refused(announced);
        }
        let mut whole = Vec::new();
        while let Some(piece) = self.data().await? {
            if piece.len() > most - whole.len() {
                return refused((whole.len() + piece.len()) as u64);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// Reads some of the body, and takes the messages that are whole with it.
    async fn piece(&mut self) {
        let data = self.data().await;
        let Kind::Frames(frames) = &mut self.kind else { return };
        let (found, end) = (&mut self.found, &mut self.end);
        let protocol = self.protocol;
        let read = match data {
            Ok(Some(piece)) => frames.receive(&piece, &mut |frame| match frame {
                Frame::Message(message) => found.push_back(message),
                Frame::End(bytes) => *end = Some(end_of(protocol, &bytes)),
            }),
            // Headers may have said how it ended.
            Ok(None) if end.is_some() => Ok(()),
            Ok(None) => frames.finish(),
            Err(status) => return self.fail(status),
        };
        match read {
            Ok(()) => {}
            Err(client::FrameError::TooLong { len, most }) => {
                let told = format!("a message has {len} bytes; at most {most} are taken");
                self.fail(Status::refused(Reason::ReplyTooLarge, told));
            }
            Err(error) => self.fail(failure::foreign(Code::Internal, &error.to_string())),
        }
    }

    /// The next bytes of the body; `None`: it is over.
    async fn data(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            match self.body.frame().await {
                None => {
                    self.over = true;
                    return Ok(None);
                }
                Some(Err(error)) => return Err(broken(&error)),
                // Trailers of HTTP's own say nothing here.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_) => continue,
                },
            }
        }
    }
}

/// What a frame says that ends a body.
fn end_of(protocol: Protocol, bytes: &[u8]) -> (Result<(), Status>, Trailers) {
    match protocol {
        Protocol::Connect => {
            let (result, metadata) = failure::end_of_stream(bytes);
            (result, Trailers::of_headers(metadata.iter().map(|(name, value)| (&**name, &**value))))
        }
        Protocol::GrpcWeb => {
            let trailers = Trailers::parse(bytes);
            let none = || Err(failure::foreign(Code::Unknown, "it ends without a status of gRPC"));
            (trailers.status().unwrap_or_else(none), trailers)
        }
    }
}

fn entries(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// Whether a header is HTTP's own business, or that of the protocols.
fn is_own(name: &str) -> bool {
    let own = ["accept-encoding", "connection", "date", "keep-alive", "server", "trailer", "vary"];
    let families = [
        "access-control-",
        "connect-",
        "content-",
        "grpc-accept-",
        "grpc-encoding",
        "grpc-message",
        "grpc-status",
        "transfer-",
    ];
    own.contains(&name) || families.iter().any(|family| name.starts_with(family))
}
