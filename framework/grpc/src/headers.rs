//! What a request's headers say: which method, until when, and what else the handler may want to know.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use greenwave_http2::{Fields, Name};
use greenwave_policy::Budget;
use greenwave_policy::timeouts::{NotATimeout, envoy_timeout, grpc_timeout};
use greenwave_proto::compression::{Encoding, Encodings};
use greenwave_proto::context::CALLED;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{MethodId, push_meta};
use std::sync::Arc;

/// Values of names that end in `-bin`: clients pad them or don't.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Names that have no number.
const ENVOYS_TIMEOUT: &[u8] = b"x-envoy-expected-rq-timeout-ms";
/// By whatever value a caller asks for a receipt.
const RECEIPT: &[u8] = b"greenwave-receipt";

/// HTTP's codes for what is no gRPC.
pub(crate) const METHOD_NOT_ALLOWED: &[u8] = b"405";
pub(crate) const UNSUPPORTED_MEDIA_TYPE: &[u8] = b"415";

/// What a call is.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: MethodId,
    /// Whether its request is a stream.
    pub(crate) streams: bool,
    pub(crate) budget: Budget,
    pub(crate) metadata: Option<Arc<[u8]>>,
    /// Whether the caller wants to know where the time went.
    pub(crate) wants_receipt: bool,
    /// How messages of the request are compressed that are.
    pub(crate) encoding: Option<Encoding>,
    /// What the answer may be compressed with.
    pub(crate) answer: Encodings,
}

/// Why a request is no call.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// It isn't gRPC at all: HTTP's code.
    Http(&'static [u8]),
    Grpc(Status),
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The method's id.
    pub method: MethodId,
    /// Whether its request is a stream of messages.
    pub takes_stream: bool,
    /// Whether it stands for all methods of a service, so that who serves it is to be told the path: as metadata named
    /// [`CALLED`].
    pub stands_for_all: bool,
    /// Whether answers of the method are compressed, for callers that take that.
    pub compresses: bool,
}

/// What paths, without the slash that they begin with, name on a server; `None`: nothing, and calls of it are refused as soon
/// as their headers are there.
pub type Methods = Arc<dyn Fn(&str) -> Option<Named> + Send + Sync>;

/// What was read last: most calls of a connection have the same headers, or at least the same metadata.
#[derive(Default)]
pub(crate) struct Last {
    pub(crate) methods: Option<Methods>,
    /// The path that was last asked about, by its id, and what it names.
    named: Option<(MethodId, Named)>,
    call: Option<Call>,
    encoded: Option<Arc<[u8]>>,
    scratch: Vec<u8>,
}

/// As much of a name as is worth telling.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(100)]
}

impl Last {
    /// Reads a call's headers. `trusts_envoy`: whether a proxy's word on the time counts.
    #[inline]
    pub(crate) fn read(&mut self, fields: &Fields<'_>, trusts_envoy: bool) -> Result<Call, Refused> {
        if let Some(call) = &self.call
            && fields.are_as_before()
        {
            return Ok(call.clone());
        }
        self.call = None;
        let call = self.read_anew(fields, trusts_envoy)?;
        self.call = Some(call.clone());
        Ok(call)
    }

    fn read_anew(&mut self, fields: &Fields<'_>, trusts_envoy: bool) -> Result<Call, Refused> {
        if fields.value(Name::METHOD) != Some(b"POST") {
            return Err(Refused::Http(METHOD_NOT_ALLOWED));
        }
        if !fields.value(Name::CONTENT_TYPE).is_some_and(is_grpc) {
            return Err(Refused::Http(UNSUPPORTED_MEDIA_TYPE));
        }
        let path = fields.value(Name::PATH).unwrap_or_default();
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        // What isn't text names no method.
        let name = str::from_utf8(path.strip_prefix(b"/").unwrap_or_default()).unwrap_or_default();
        let named = self.named(name).ok_or_else(|| {
            let text = format!("there is no method {} here", shown(name));
            Refused::Grpc(Status::refused(Reason::UnknownMethod, text))
        })?;
        self.scratch.clear();
        if named.stands_for_all {
            push_meta(&mut self.scratch, CALLED, name.as_bytes())
                .map_err(|error| Refused::Grpc(Status::refused(Reason::Metadata, error.to_string())))?;
        }
        let (mut budget, mut proxys, mut wants_receipt) = (Budget::UNLIMITED, None, false);
        let (mut encoding, mut answer) = (None, Encodings::NONE);
        for field in fields.regular() {
            match field.id {
                Name::GRPC_TIMEOUT => budget = budget.min(timeout(field.value).map_err(Refused::Grpc)?),
                Name::CONTENT_TYPE | Name::TE | Name::CONTENT_LENGTH => {}
                _ if field.name == b"grpc-encoding" => encoding = named_encoding(field.value).map_err(Refused::Grpc)?,
                _ if field.name == b"grpc-accept-encoding" && named.compresses => {
                    answer = Encodings::listed(field.value);
                }
                _ if field.name.starts_with(b"grpc-") => {}
                _ if field.name == RECEIPT => wants_receipt = true,
                _ => {
                    if trusts_envoy && proxys.is_none() && field.name == ENVOYS_TIMEOUT {
                        proxys = Some(field.value);
                    }
                    push(&mut self.scratch, field.name, field.value).map_err(Refused::Grpc)?;
                }
            }
        }
        // What a proxy says wrongly is no reason to refuse its client.
        if let Some(proxys) = proxys.and_then(|value| envoy_timeout(value).ok().flatten()) {
            budget = budget.min(Budget::expected(proxys));
        }
        let Named { method, takes_stream: streams, .. } = named;
        Ok(Call { method, streams, budget, metadata: self.encoded(), wants_receipt, encoding, answer })
    }

    /// What a path names.
    fn named(&mut self, path: &str) -> Option<Named> {
        let id = MethodId::of(path);
        match (&self.methods, self.named) {
            (None, _) => Some(Named { method: id, takes_stream: false, stands_for_all: false, compresses: true }),
            (Some(_), Some((asked, named))) if asked == id => Some(named),
            (Some(methods), _) => {
                let named = methods(path)?;
                self.named = Some((id, named));
                Some(named)
            }
        }
    }

    /// The entries in `scratch`, which a handler may want to know.
    fn encoded(&mut self) -> Option<Arc<[u8]>> {
        if self.scratch.is_empty() {
            return None;
        }
        if self.encoded.as_deref() != Some(&self.scratch[..]) {
            self.encoded = Some(self.scratch.as_slice().into());
        }
        self.encoded.clone()
    }
}

impl Call {
    /// Bytes of the metadata.
    #[inline]
    pub(crate) fn metadata_len(&self) -> usize {
        self.metadata.as_ref().map_or(0, |metadata| metadata.len())
    }
}

/// `application/grpc`, with a format of messages or without.
fn is_grpc(value: &[u8]) -> bool {
    let Some((family, rest)) = value.split_at_checked(b"application/grpc".len()) else { return false };
    family.eq_ignore_ascii_case(b"application/grpc") && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// How a request's messages are compressed.
fn named_encoding(value: &[u8]) -> Result<Option<Encoding>, Status> {
    let encoding = Encoding::named(value);
    if encoding.is_some() || value.eq_ignore_ascii_case(b"identity") {
        return Ok(encoding);
    }
    let (value, list) = (String::from_utf8_lossy(value), Encodings::BUILT_IN.list());
    let text = format!("messages can't be read here that are compressed with {}, but with {list}", shown(&value));
    Err(Status::new(Code::Unimplemented, text))
}

/// What a caller leaves of the time; the least counts.
fn timeout(value: &[u8]) -> Result<Budget, Status> {
    let wrong =
        |NotATimeout| Status::new(Code::InvalidArgument, "grpc-timeout is not up to eight digits and one of HMSmun");
    grpc_timeout(value).map(Budget::expected).map_err(wrong)
}

fn push(into: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), Status> {
    let refused = |text: String| Status::refused(Reason::Metadata, text);
    // HTTP/2 has names of ASCII alone.
    let name = str::from_utf8(name).unwrap_or_default();
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
    use greenwave_http2::{Connection, Event, Header, Role, Settings};
    use greenwave_proto::wire::Meta;
    use proptest::prelude::*;

    const METHOD: (&str, &str) = (":method", "POST");
    const TYPE: (&str, &str) = ("content-type", "application/grpc");

    /// A connection over which requests come in whose headers are read.
    struct Reader {
        client: Connection,
        server: Connection,
        last: Last,
    }

    impl Reader {
        fn new() -> Self {
            let [client, server] = [Role::Client, Role::Server].map(|role| Connection::new(role, Settings::new()));
            Self { client, server, last: Last::default() }
        }

        fn read(&mut self, headers: &[(&str, &str)], trusts_envoy: bool) -> Option<Result<Call, Refused>> {
            let is_path = |header: &(&str, &str)| header.0 == ":path";
            let path = headers.iter().copied().find(is_path).unwrap_or((":path", "/a.A/One"));
            let head = [(":scheme", "http"), path, (":authority", "here")];
            let headers = headers.iter().filter(|header| !is_path(header));
            let (pseudo, regular): (Vec<_>, Vec<_>) = headers.partition(|(name, _)| name.starts_with(':'));
            let all = pseudo.into_iter().chain(&head).chain(regular);
            let all: Vec<Header<'_>> =
                all.map(|(name, value)| Header::Plain(name.as_bytes(), value.as_bytes())).collect();
            self.client.open(&all, true).unwrap();
            let output = self.client.output(usize::MAX).to_vec();
            self.client.sent(output.len());
            let mut rest = &output[..];
            let mut call = None;
            while let Some(event) = self.server.read(&mut rest).unwrap() {
                if let Event::Headers { fields, .. } = event {
                    call = Some(self.last.read(&fields, trusts_envoy));
                }
            }
            call
        }
    }

    fn read(headers: &[(&str, &str)], trusts_envoy: bool) -> Result<Call, Refused> {
        let all = [&[METHOD, TYPE], headers].concat();
        Reader::new().read(&all, trusts_envoy).unwrap()
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
        let refused = |method: &str, value: &str| match Reader::new()
            .read(&[(":method", method), ("content-type", value)], false)
            .unwrap()
        {
            Err(Refused::Http(code)) => Some(code),
            _ => None,
        };
        assert_eq!(refused("GET", "application/grpc"), Some(METHOD_NOT_ALLOWED));
        for (value, code) in [
            ("application/grpc", None),
            ("application/grpc+proto", None),
            ("application/grpc;charset=utf-8", None),
            ("Application/gRPC", None),
            ("application/grpc-web", Some(UNSUPPORTED_MEDIA_TYPE)),
            ("application/json", Some(UNSUPPORTED_MEDIA_TYPE)),
            ("", Some(UNSUPPORTED_MEDIA_TYPE)),
        ] {
            assert_eq!(refused("POST", value), code, "{value}");
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
    fn what_messages_are_compressed_with_is_known_or_refused() {
        let both = |headers: &[(&str, &str)]| {
            let call = read(headers, false).map_err(|refused| match refused {
                Refused::Grpc(status) => status.code,
                Refused::Http(_) => Code::Ok,
            })?;
            Ok((call.encoding, call.answer))
        };
        let accepts = ("grpc-accept-encoding", "identity,deflate,gzip,zstd");
        assert_eq!(both(&[]), Ok((None, Encodings::NONE)));
        assert_eq!(both(&[("grpc-encoding", "identity"), accepts]), Ok((None, Encodings::BUILT_IN)));
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let expected =
                if encoding.is_built_in() { Ok((Some(encoding), Encodings::NONE)) } else { Err(Code::Unimplemented) };
            assert_eq!(both(&[("grpc-encoding", encoding.name())]), expected);
        }
        for other in ["snappy", "deflate", ""] {
            assert_eq!(both(&[("grpc-encoding", other)]), Err(Code::Unimplemented));
        }
    }

    #[test]
    fn the_same_metadata_are_encoded_once() {
        let mut reader = Reader::new();
        let mut encode = |value: &str, timeout: &str| {
            let headers = [METHOD, TYPE, ("user-agent", value), ("grpc-timeout", timeout)];
            let call = reader.read(&headers, false).unwrap().unwrap();
            (call.metadata.unwrap(), call.budget)
        };
        let (first, budget) = encode("one", "1S");
        let (again, same) = encode("one", "1S");
        let (later, less) = encode("one", "2S");
        let (other, _) = encode("other", "2S");
        assert!(Arc::ptr_eq(&first, &again) && Arc::ptr_eq(&first, &later) && !Arc::ptr_eq(&first, &other));
        assert!(budget == same && budget != less);
    }

    #[test]
    fn a_path_names_what_the_server_says_and_is_passed_on_where_it_stands_for_others() {
        let mut reader = Reader::new();
        reader.last.methods = Some(Arc::new(|path| {
            let stands_for_all = path.starts_with("a.A/");
            let method = MethodId::of(if stands_for_all { "a.A/*" } else { path });
            Some(Named { method, takes_stream: stands_for_all, stands_for_all, compresses: false })
        }));
        let mut read = |path: &str| {
            let path = format!("/{path}");
            reader.read(&[METHOD, TYPE, (":path", &path)], false).unwrap().unwrap()
        };
        for path in ["a.A/One", "a.A/Two", "b.B/One", "a.A/One"] {
            let call = read(path);
            let is_hosted = path.starts_with('a');
            assert_eq!((call.method == MethodId::of("a.A/*"), call.streams), (is_hosted, is_hosted));
            let said = [(CALLED, path.as_bytes().to_vec())];
            assert_eq!(entries(&call), if is_hosted { &said[..] } else { &[] });
        }
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(name in "[a-z]{1,5}(-bin)?", value in "[!-~]{0,60}") {
            let _ = Reader::new().read(&[METHOD, TYPE, (&name, &value)], true);
        }
    }
}
