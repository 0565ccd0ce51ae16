//! What a request's headers say: which method, until when, and what else the handler may want to know.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use greenwave_policy::Budget;
use greenwave_policy::timeouts::{NotATimeout, envoy_timeout, grpc_timeout};
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{MethodId, push_meta};
use http::{HeaderMap, HeaderName, Method, StatusCode, header, request};
use std::sync::Arc;

/// Values of names that end in `-bin`: clients pad them or don't.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Names that are looked for, parsed once.
static TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
static ENVOYS_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// By whatever value a caller asks for a receipt.
static RECEIPT: HeaderName = HeaderName::from_static("greenwave-receipt");

/// What a call is.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: MethodId,
    pub(crate) budget: Budget,
    pub(crate) metadata: Option<Arc<[u8]>>,
    /// Whether the caller wants to know where the time went.
    pub(crate) wants_receipt: bool,
}

/// Why a request is no call.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It isn't gRPC at all.
    Http(StatusCode),
    Grpc(Status),
}

/// Metadata as they were encoded last: most calls of a connection have the same.
#[derive(Debug, Default)]
pub(crate) struct Last {
    encoded: Option<Arc<[u8]>>,
    scratch: Vec<u8>,
}

impl Call {
    /// `trusts_envoy`: whether a proxy's word on the time counts.
    pub(crate) fn read(head: &request::Parts, trusts_envoy: bool, last: &mut Last) -> Result<Self, Refused> {
        if head.method != Method::POST {
            return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
        }
        if !head.headers.get(header::CONTENT_TYPE).is_some_and(|value| is_grpc(value.as_bytes())) {
            return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let name = head.uri.path().strip_prefix('/').unwrap_or_default();
        let budget = budget(&head.headers, trusts_envoy).map_err(Refused::Grpc)?;
        let metadata = last.encode(&head.headers).map_err(Refused::Grpc)?;
        let wants_receipt = head.headers.contains_key(&RECEIPT);
        Ok(Self { method: MethodId::of(name), budget, metadata, wants_receipt })
    }
}

impl Call {
    /// Bytes of the metadata.
    pub(crate) fn metadata_len(&self) -> usize {
        self.metadata.as_ref().map_or(0, |metadata| metadata.len())
    }
}

/// `application/grpc`, with a format of messages or without.
fn is_grpc(value: &[u8]) -> bool {
    let Some((family, rest)) = value.split_at_checked(b"application/grpc".len()) else { return false };
    family.eq_ignore_ascii_case(b"application/grpc") && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// What the headers leave of the time; the least counts.
fn budget(headers: &HeaderMap, trusts_envoy: bool) -> Result<Budget, Status> {
    let wrong =
        |NotATimeout| Status::new(Code::InvalidArgument, "grpc-timeout is not up to eight digits and one of HMSmun");
    let mut least = Budget::UNLIMITED;
    for value in headers.get_all(&TIMEOUT) {
        least = least.min(grpc_timeout(value.as_bytes()).map(Budget::expected).map_err(wrong)?);
    }
    // What a proxy says wrongly is no reason to refuse its client.
    let proxys = headers.get(&ENVOYS_TIMEOUT).filter(|_| trusts_envoy);
    let proxys = proxys.and_then(|value| envoy_timeout(value.as_bytes()).ok().flatten());
    Ok(proxys.map_or(least, |proxys| least.min(Budget::expected(proxys))))
}

impl Last {
    /// The entries that a handler may want to know.
    fn encode(&mut self, headers: &HeaderMap) -> Result<Option<Arc<[u8]>>, Status> {
        self.scratch.clear();
        for (name, value) in headers {
            if is_reserved(name) {
                continue;
            }
            push(&mut self.scratch, name.as_str(), value.as_bytes())?;
        }
        if self.scratch.is_empty() {
            return Ok(None);
        }
        if self.encoded.as_deref() != Some(&self.scratch[..]) {
            self.encoded = Some(self.scratch.as_slice().into());
        }
        Ok(self.encoded.clone())
    }
}

/// Whether a name is gRPC's or HTTP's own business.
fn is_reserved(name: &HeaderName) -> bool {
    let own = [&header::CONTENT_TYPE, &header::TE, &header::CONTENT_LENGTH, &header::CONNECTION, &RECEIPT];
    own.contains(&name) || name.as_str().starts_with("grpc-")
}

fn push(into: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), Status> {
    let refused = |text: String| Status::refused(Reason::Metadata, text);
    if !name.ends_with("-bin") {
        return push_meta(into, name, value).map_err(|error| refused(error.to_string()));
    }
    // Several values of a name may come in one, as in any header.
    for one in value.split(|byte| *byte == b',') {
        let decoded = BASE64.decode(one.trim_ascii()).map_err(|_| refused(format!("{name} is not base64")))?;
        push_meta(into, name, &decoded).map_err(|error| refused(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::wire::Meta;
    use http::Request;
    use proptest::prelude::*;

    fn head(headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::post("http://here/a.A/One").header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn read(headers: &[(&str, &str)], trusts_envoy: bool) -> Result<Call, Refused> {
        Call::read(&head(headers), trusts_envoy, &mut Last::default())
    }

    fn entries(call: &Call) -> Vec<(&str, Vec<u8>)> {
        let all = call.metadata.as_deref().unwrap_or_default();
        Meta::parse(all).unwrap().into_iter().map(|(name, value)| (name, value.to_vec())).collect()
    }

    #[test]
    fn the_path_is_the_method_and_the_least_time_counts() {
        let call = read(&[], true).unwrap();
        assert!(!call.wants_receipt && read(&[("greenwave-receipt", "1")], true).unwrap().wants_receipt);
        assert_eq!((call.method, call.budget), (MethodId::of("a.A/One"), Budget::UNLIMITED));
        let both = [("grpc-timeout", "2S"), ("x-envoy-expected-rq-timeout-ms", "1500")];
        assert_eq!(read(&both, false).unwrap().budget, Budget::from_nanos(2_000_000_000));
        assert_eq!(read(&both, true).unwrap().budget, Budget::from_nanos(1_500_000_000));
        let nonsense = [("grpc-timeout", "2S"), ("x-envoy-expected-rq-timeout-ms", "soon")];
        assert_eq!(read(&nonsense, true).unwrap().budget, Budget::from_nanos(2_000_000_000));
        let Err(Refused::Grpc(status)) = read(&[("grpc-timeout", "soon")], false) else { panic!("it was taken") };
        assert_eq!(status.code, Code::InvalidArgument);
    }

    #[test]
    fn what_is_not_grpc_is_told_so_in_http() {
        let mut get = head(&[]);
        get.method = Method::GET;
        let refused = |head: &request::Parts| match Call::read(head, false, &mut Last::default()) {
            Err(Refused::Http(code)) => Some(code.as_u16()),
            _ => None,
        };
        assert_eq!(refused(&get), Some(405));
        for (value, code) in [
            ("application/grpc", None),
            ("application/grpc+proto", None),
            ("application/grpc;charset=utf-8", None),
            ("Application/gRPC", None),
            ("application/grpc-web", Some(415)),
            ("application/json", Some(415)),
            ("", Some(415)),
        ] {
            let mut head = head(&[]);
            head.headers.insert("content-type", value.parse().unwrap());
            assert_eq!(refused(&head), code, "{value}");
        }
    }

    #[test]
    fn metadata_are_what_the_client_added() {
        let call = read(
            &[
                ("te", "trailers"),
                ("grpc-timeout", "1S"),
                ("grpc-accept-encoding", "gzip"),
                ("traceparent", "00-1-2-3"),
                ("key-bin", "AAEC, AwQ="),
                ("other-bin", "BQ"),
            ],
            false,
        )
        .unwrap();
        let expected = [
            ("traceparent", b"00-1-2-3".to_vec()),
            ("key-bin", vec![0, 1, 2]),
            ("key-bin", vec![3, 4]),
            ("other-bin", vec![5]),
        ];
        assert_eq!(entries(&call), expected);
        let wrong = [[("a-bin", "*")], [("a", &*"x".repeat(9000))]];
        for headers in wrong {
            let Err(Refused::Grpc(status)) = read(&headers, false) else { panic!("it was taken") };
            assert_eq!(status.reason, Reason::Metadata);
        }
    }

    #[test]
    fn the_same_metadata_are_encoded_once() {
        let mut last = Last::default();
        let mut encode = |value: &str| Call::read(&head(&[("user-agent", value)]), false, &mut last).unwrap().metadata;
        let (first, again, other) = (encode("one").unwrap(), encode("one").unwrap(), encode("other").unwrap());
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(name in "[a-z]{1,5}(-bin)?", value in prop::collection::vec(32_u8..127, 0..60)) {
            let mut head = head(&[]);
            let name: HeaderName = name.parse().unwrap();
            head.headers.append(name, http::HeaderValue::from_bytes(&value).unwrap());
            let _ = Call::read(&head, true, &mut Last::default());
        }
    }
}
