//! A call as the request that a service of tonic's expects.

use super::BoxError;
use crate::timeout;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use greenwave_rpc::{Code, Context, Incoming, Status};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context as Task, Poll};

/// The body of a hosted service's request: the call's messages, each behind the five bytes that gRPC has before one.
///
/// A message is neither compressed nor copied. What comes from the client is asked for as it is polled, so a handler that
/// doesn't read holds its client up.
pub struct RequestBody {
    messages: Messages,
    /// The message whose five bytes were given out.
    begun: Option<Bytes>,
}

enum Messages {
    One(Bytes),
    Stream(Incoming),
    Over,
}

impl RequestBody {
    pub(super) const fn one(message: Bytes) -> Self {
        Self { messages: Messages::One(message), begun: None }
    }

    pub(super) const fn stream(incoming: Incoming) -> Self {
        Self { messages: Messages::Stream(incoming), begun: None }
    }

    fn poll_next(&mut self, task: &Task<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        if let Messages::Stream(incoming) = &mut self.messages
            && let Some(message) = std::task::ready!(incoming.poll_next(task)).transpose()
        {
            if message.is_err() {
                self.messages = Messages::Over;
            }
            return Poll::Ready(Some(message.map(Bytes::from)));
        }
        match std::mem::replace(&mut self.messages, Messages::Over) {
            Messages::One(message) => Poll::Ready(Some(Ok(message))),
            Messages::Stream(_) | Messages::Over => Poll::Ready(None),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(message) = this.begun.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        Poll::Ready(std::task::ready!(this.poll_next(task)).map(|next| {
            let message = next?;
            let len = u32::try_from(message.len()).map_err(|_| "a message has 4 GiB or more")?;
            let [a, b, c, d] = len.to_be_bytes();
            this.begun = Some(message).filter(|message| !message.is_empty());
            Ok(Frame::data(Bytes::copy_from_slice(&[0, a, b, c, d])))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_none() && matches!(self.messages, Messages::Over)
    }

    fn size_hint(&self) -> SizeHint {
        let begun = self.begun.as_ref().map_or(0, Bytes::len) as u64;
        match &self.messages {
            Messages::One(message) => SizeHint::with_exact(5 + message.len() as u64),
            Messages::Over => SizeHint::with_exact(begun),
            Messages::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestBody")
    }
}

/// The request of a call, with what is left of its time and what was said of it.
pub(super) fn request(context: &Context, body: RequestBody) -> Result<Request<RequestBody>, Status> {
    let mut request = Request::new(body);
    let path = format!("/{}", context.called());
    let no_path = || Status::new(Code::Unimplemented, format!("{} is no name of a method", context.called()));
    *request.uri_mut() = path.try_into().map_err(|_| no_path())?;
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = Version::HTTP_2;
    // A service asks for who calls as it asks for any extension.
    request.extensions_mut().insert(context.peer().clone());
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    if let Some(left) = context.budget().remaining() {
        headers.insert(timeout::GRPC_TIMEOUT, timeout::written(left));
    }
    for (name, value) in context.metadata() {
        add(headers, name, value);
    }
    Ok(request)
}

/// Adds what was said of a request, unless a header can't say it, or it is the protocol's own to say.
fn add(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else { return };
    let value = if header.as_str().ends_with("-bin") {
        HeaderValue::try_from(STANDARD_NO_PAD.encode(value))
    } else {
        HeaderValue::from_bytes(value)
    };
    if let Ok(value) = value
        && !is_reserved(&header)
    {
        headers.append(header, value);
    }
}

/// Whether a name is gRPC's or HTTP's own, in a request or in an answer.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HOST, TRAILER, TRANSFER_ENCODING};
    let own = [CONTENT_TYPE, TE, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING, HOST, DATE, TRAILER];
    own.contains(name) || name.as_str().starts_with("grpc-")
}
