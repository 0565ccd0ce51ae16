//! How a request that isn't served is answered: as gRPC if it came as gRPC, otherwise by a status of HTTP.

use crate::body::ResponseBody;
use greenwave_policy::Refusal;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use std::fmt;
use std::fmt::Write;

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The content type of a gRPC request, which its answer has too; `None` for other HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Protocol(Option<HeaderValue>);

impl Protocol {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        const FAMILY: &[u8] = b"application/grpc";
        let is_grpc = |value: &&HeaderValue| {
            value.as_bytes().get(..FAMILY.len()).is_some_and(|family| family.eq_ignore_ascii_case(FAMILY))
        };
        Self(headers.get(CONTENT_TYPE).filter(is_grpc).cloned())
    }
}

/// Why a request isn't served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Its `grpc-timeout` can't be read.
    MalformedTimeout,
    /// Admission says so.
    Refused(Refusal),
    /// Its deadline had passed before it was sent.
    NotSent,
    /// Its deadline passed while it was served, or while its answer was awaited.
    RanOut,
}

impl Why {
    /// gRPC's code and HTTP's.
    const fn codes(self) -> (&'static str, StatusCode) {
        match self {
            Self::MalformedTimeout => ("3", StatusCode::BAD_REQUEST),
            Self::Refused(Refusal::QueueFull { .. }) => ("8", StatusCode::SERVICE_UNAVAILABLE),
            Self::Refused(_) | Self::NotSent | Self::RanOut => ("4", StatusCode::GATEWAY_TIMEOUT),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MalformedTimeout => {
                f.write_str("grpc-timeout is malformed; allowed: one to eight digits and one of H M S m u n")
            }
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::NotSent => f.write_str("not sent: the deadline of the request that it is for has passed"),
            Self::RanOut => f.write_str("the deadline passed before there was an answer"),
        }
    }
}

/// The answer to a request that isn't served.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) protocol: Protocol,
    pub(crate) why: Why,
}

impl Answer {
    /// As gRPC a response of headers alone ("Trailers-Only"), otherwise one with a short text.
    pub(crate) fn response<B>(&self) -> Response<ResponseBody<B>> {
        let (code, status) = self.why.codes();
        let text = self.why.to_string();
        let Protocol(Some(content_type)) = &self.protocol else {
            let mut response = Response::new(ResponseBody::text(text));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            return response;
        };
        let mut response = Response::new(ResponseBody::text(String::new()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type.clone());
        headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
        if let Ok(text) = HeaderValue::try_from(percent_encoded(&text)) {
            headers.insert(GRPC_MESSAGE, text);
        }
        if let Why::Refused(_) = self.why {
            // Whoever sends it again adds to the load that it was refused for.
            headers.insert(GRPC_PUSHBACK, HeaderValue::from_static("-1"));
        }
        response
    }
}

/// As gRPC writes messages: all but printable ASCII, and the percent sign, as bytes in hexadecimal.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(byte.into());
        } else {
            // Writing to a string never fails.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body;
    use std::time::Duration;

    fn answer(content_type: &'static str, why: Why) -> Response<ResponseBody<String>> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Answer { protocol: Protocol::of(&headers), why }.response()
    }

    #[test]
    fn grpc_gets_headers_alone() {
        let needed = Duration::from_nanos(1500);
        let why = Why::Refused(Refusal::Infeasible { needed, left: Duration::ZERO });
        let response = answer("application/grpc+proto", why);
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!([header(CONTENT_TYPE), header(GRPC_STATUS)], ["application/grpc+proto", "4"]);
        assert_eq!(header(GRPC_MESSAGE), "refused: it needs about 1.5%C2%B5s and has 0ns left");
        assert_eq!(header(GRPC_PUSHBACK), "-1");
        assert_eq!(response.body().size_hint().exact(), Some(0));
    }

    #[test]
    fn others_get_a_status_and_a_text() {
        assert_eq!(answer("Application/gRPC", Why::NotSent).status(), StatusCode::OK);
        let full = answer("application/json", Why::Refused(Refusal::QueueFull { limit: 7 }));
        assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(full.body().size_hint().lower() > 0);
        let expired = Why::Refused(Refusal::Expired { late: Duration::ZERO });
        assert_eq!(answer("text/html", expired).status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(answer("text/html", Why::MalformedTimeout).status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn messages_are_encoded_as_grpc_has_it() {
        assert_eq!(percent_encoded("100 % µ\n~"), "100 %25 %C2%B5%0A~");
    }
}
