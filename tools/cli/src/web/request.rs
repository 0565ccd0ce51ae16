//! A call as a request of HTTP.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use greenwave::{Code, Status};
use greenwave_web::client::framed;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Version as Http};
use http_body_util::Full;

use super::address::{Address, Format, Protocol, Version};

/// A request with its body, which is there as a whole.
pub(super) type Sent = Request<Full<Bytes>>;

/// What is called and what with.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `package.Service/Method`.
    pub(crate) method: String,
    pub(crate) format: Format,
    /// Whether its answer is a stream of messages.
    pub(crate) streams: bool,
    /// What is said beside the message, [checked](metadata).
    pub(crate) metadata: HeaderMap,
}

impl Call {
    /// Of a method whose answer is one message.
    pub(crate) fn new(method: &str, format: Format) -> Self {
        Self { method: method.to_owned(), format, streams: false, metadata: HeaderMap::new() }
    }

    /// What its answer has to be.
    pub(super) fn content_type(&self, protocol: Protocol) -> &'static str {
        match (protocol, self.streams, self.format) {
            (Protocol::Connect, false, Format::Json) => "application/json",
            (Protocol::Connect, false, Format::Proto) => "application/proto",
            (Protocol::Connect, true, Format::Json) => "application/connect+json",
            (Protocol::Connect, true, Format::Proto) => "application/connect+proto",
            (Protocol::GrpcWeb, _, Format::Json) => "application/grpc-web+json",
            (Protocol::GrpcWeb, _, Format::Proto) => "application/grpc-web+proto",
        }
    }

    /// The request, if `left` is how much time there is; `None`: nothing is said of it. `version` is what the connection speaks.
    ///
    /// # Errors
    /// A name of a method that can't stand in a path, or a message of 4 GiB.
    pub(super) fn request(
        &self,
        address: &Address,
        version: Version,
        message: &Bytes,
        left: Option<Duration>,
    ) -> Result<Sent, Status> {
        let refused = |what: String| Status::new(Code::InvalidArgument, what);
        let path = format!("{}/{}", address.prefix, self.method);
        let scheme = if address.secured { "https" } else { "http" };
        // HTTP/1.1 asks for a path, and names the host in a header.
        let (uri, http) = match version {
            Version::Http1 => (path, Http::HTTP_11),
            Version::Http2 => (format!("{scheme}://{}{path}", address.authority), Http::HTTP_2),
        };
        let request = Request::builder().method(Method::POST).uri(uri).version(http);
        let is_framed = self.streams || address.protocol == Protocol::GrpcWeb;
        let body = match is_framed {
            false => message.clone(),
            true => framed(message).ok_or_else(|| refused("a message of 4 GiB or more".to_owned()))?.into(),
        };
        let mut request = request
            .body(Full::new(body))
            .map_err(|error| refused(format!("`{}` can't be called: {error}", self.method)))?;
        let headers = request.headers_mut();
        *headers = self.metadata.clone();
        if version == Version::Http1 {
            let host = HeaderValue::from_str(&address.authority).map_err(|error| refused(error.to_string()))?;
            headers.insert(http::header::HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type(address.protocol)));
        headers.entry(http::header::USER_AGENT).or_insert(AGENT);
        headers.insert(ASKS_RECEIPT, HeaderValue::from_static("1"));
        let timeout = match address.protocol {
            Protocol::Connect => {
                headers.insert(CONNECT_VERSION, HeaderValue::from_static("1"));
                left.map(|left| (CONNECT_TIMEOUT, connect_timeout(left)))
            }
            Protocol::GrpcWeb => {
                headers.insert(GRPC_WEB, HeaderValue::from_static("1"));
                left.map(|left| (GRPC_TIMEOUT, grpc_timeout(left)))
            }
        };
        if let Some((name, value)) = timeout {
            headers.insert(name, HeaderValue::from_str(&value).map_err(|error| refused(error.to_string()))?);
        }
        Ok(request)
    }
}

const AGENT: HeaderValue = HeaderValue::from_static(concat!("greenwave/", env!("CARGO_PKG_VERSION")));
const ASKS_RECEIPT: HeaderName = HeaderName::from_static("greenwave-receipt");
const CONNECT_VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const CONNECT_TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const GRPC_WEB: HeaderName = HeaderName::from_static("x-grpc-web");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Milliseconds, rounded up: what may still be in time isn't refused for that. Up to ten digits.
fn connect_timeout(left: Duration) -> String {
    left.as_micros().div_ceil(1000).min(9_999_999_999).to_string()
}

/// In the finest unit in which it has up to eight digits, rounded down.
fn grpc_timeout(left: Duration) -> String {
    let nanos = left.as_nanos();
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000)];
    let fits = units.into_iter().find(|(_, unit)| nanos / unit < 100_000_000);
    fits.map_or_else(|| "99999999S".to_owned(), |(name, unit)| format!("{}{name}", nanos / unit))
}

/// Metadata as headers: a value whose name ends in `-bin` as Base64.
///
/// # Errors
/// What is wrong with a name or a value, or that a name is not the caller's to say.
pub(crate) fn metadata(entries: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in entries {
        let lower = name.to_ascii_lowercase();
        if is_own(&lower) {
            return Err(format!("metadata `{name}` is HTTP's own business, or the protocol's"));
        }
        let header = HeaderName::from_bytes(lower.as_bytes());
        let header = header.map_err(|_| format!("metadata `{name}` can't be the name of a header"))?;
        let encoded = if lower.ends_with("-bin") { STANDARD_NO_PAD.encode(value) } else { value.clone() };
        let unprintable =
            || format!("the value of metadata `{name}` is no printable ASCII; its name has to end in -bin");
        if !encoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(unprintable());
        }
        headers.append(header, HeaderValue::from_str(&encoded).map_err(|_| unprintable())?);
    }
    Ok(headers)
}

/// Whether a name is HTTP's own business, or that of the protocols.
fn is_own(name: &str) -> bool {
    let own = ["connection", "host", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "x-grpc-web"];
    let families = ["accept-encoding", "connect-", "content-", "greenwave-receipt", "grpc-", "transfer-", ":"];
    own.contains(&name) || families.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(address: &str, version: Version, left: Duration) -> Sent {
        let address = Address::parse(address).unwrap().unwrap();
        let call = Call {
            metadata: metadata(&[("User".into(), "ada".into())]).unwrap(),
            ..Call::new("a.A/One", address.format)
        };
        call.request(&address, version, &Bytes::from_static(b"{}"), Some(left)).unwrap()
    }

    #[test]
    fn connect_says_the_time_in_milliseconds() {
        let sent = headers("http://a:1/api", Version::Http1, Duration::from_micros(1500));
        assert_eq!((sent.uri().to_string().as_str(), sent.method()), ("/api/a.A/One", &Method::POST));
        let header = |name: &str| sent.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!((header("host"), header("connect-timeout-ms")), (Some("a:1"), Some("2")));
        assert_eq!((header("content-type"), header("user")), (Some("application/json"), Some("ada")));
        assert_eq!(header("connect-protocol-version"), Some("1"));
        assert_eq!(connect_timeout(Duration::MAX).len(), 10);
    }

    #[test]
    fn grpc_web_says_it_in_the_finest_unit() {
        let sent = headers("grpc-web+h2+https://a", Version::Http2, Duration::from_millis(50));
        assert_eq!(sent.uri().to_string(), "https://a/a.A/One");
        let header = |name: &str| sent.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!((header("host"), header("grpc-timeout")), (None, Some("50000000n")));
        assert_eq!(header("content-type"), Some("application/grpc-web+proto"));
        for (left, said) in [(100, "100000u"), (1_000_000, "1000000m"), (u64::MAX, "99999999S")] {
            assert_eq!(grpc_timeout(Duration::from_millis(left)), said);
        }
    }

    #[test]
    fn metadata_that_can_not_be_headers_are_refused() {
        let refused = |name: &str, value: &str| metadata(&[(name.to_owned(), value.to_owned())]).unwrap_err();
        for own in ["Content-Type", "grpc-timeout", "connect-timeout-ms", "host", "te", "transfer-encoding"] {
            assert!(refused(own, "1").contains("own business"), "{own}");
        }
        assert!(refused("a b", "1").contains("name of a header"));
        assert!(refused("a", "ü").contains("-bin"));
        let binary = metadata(&[("k-bin".to_owned(), "ü".to_owned())]).unwrap();
        assert_eq!(binary.get("k-bin").unwrap(), "w7w");
    }
}
