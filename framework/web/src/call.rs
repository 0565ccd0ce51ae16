//! What a request's head asks for: which method, until when, how its message is written, and how it is answered.
//!
//! Nothing here knows which version of HTTP the head came by.

use crate::connect;
use crate::cors::Cors;
use crate::intake::Intake;
use crate::response::Response;
use crate::settings::WebSettings;
use crate::style::{JSON, Protocol, Style};
use crate::target::{Target, decoded};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use greenwave_policy::Budget;
use greenwave_policy::timeouts::{connect_timeout, envoy_timeout, grpc_timeout};
use greenwave_proto::compression::{Encoding, Encodings};
use greenwave_proto::limits::Limits;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{MethodId, push_meta};
use greenwave_proto::{Coding, Format};
use std::borrow::Cow;
use std::sync::Arc;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Values of names that end in `-bin`: clients pad them or don't.
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);

/// Messages within a URL.
const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Where probes ask, and the method that answers them.
const HEALTH_PATH: &str = "healthz";
const HEALTH: MethodId = MethodId::of("grpc.health.v1.Health/Check");

/// The ways of asking that there are.
pub(crate) const ALLOW: &str = "GET, HEAD, OPTIONS, POST";

/// What a POST may have as its body.
const ACCEPTED: &str = "application/json, application/proto, application/grpc-web+proto, application/grpc-web+json, \
                        application/grpc-web-text+proto, application/grpc-web-text+json";

/// What a request asks for.
#[derive(Debug)]
pub enum Asked {
    /// A call.
    Call(Box<Call>),
    /// Something that is answered at once.
    Told(Response),
    /// Something that is not to be had, which is answered at once.
    Refused(Response),
}

/// A call whose message may still be to come.
#[derive(Debug)]
pub struct Call {
    /// The method that is called.
    pub method: MethodId,
    /// What is left of the time.
    pub budget: Budget,
    /// Entries as they are on the wire.
    pub metadata: Option<Arc<[u8]>>,
    /// What has to be done to the messages.
    pub coding: Coding,
    /// Where the message comes from.
    pub message: Message,
    /// How it is answered.
    pub style: Style,
}

/// Where a call's message comes from.
#[derive(Debug)]
pub enum Message {
    /// It is in the body.
    Body(Intake),
    /// It came with the head.
    Head(Vec<u8>),
}

impl Message {
    /// The message itself, all of which is there. What `coding` says of it is made true.
    ///
    /// # Errors
    /// It is not all there, or compressed although nobody said how.
    pub fn finish(self, coding: &mut Coding) -> Result<Vec<u8>, Status> {
        let intake = match self {
            Self::Body(intake) => intake,
            Self::Head(message) => return Ok(message),
        };
        if !intake.may_be_compressed() {
            *coding = coding.with_request(None);
        } else if coding.request().is_none() && intake.is_said_compressed() {
            let text = "the request can't be read: its message is compressed, and grpc-encoding doesn't say how";
            return Err(Status::new(Code::Internal, text));
        }
        intake.finish()
    }
}

/// What the headers say, as far as anybody here wants to know.
#[derive(Default)]
struct Fields<'a> {
    content_type: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    accept_encoding: Option<&'a [u8]>,
    grpc_encoding: Option<&'a [u8]>,
    grpc_accept_encoding: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
    connect_timeout: Option<&'a [u8]>,
    grpc_timeout: Option<&'a [u8]>,
    envoy_timeout: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    preflight: Option<&'a [u8]>,
    preflight_headers: Option<&'a [u8]>,
    wants_receipt: bool,
    metadata: Vec<u8>,
    /// Why the metadata are not to be had.
    wrong: Option<Status>,
}

impl<'a> Fields<'a> {
    fn read(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Owned(name.to_ascii_lowercase())
            } else {
                Cow::Borrowed(name)
            };
            let field = match &*name {
                "content-type" => &mut fields.content_type,
                "content-encoding" => &mut fields.content_encoding,
                "accept-encoding" => &mut fields.accept_encoding,
                "grpc-encoding" => &mut fields.grpc_encoding,
                "grpc-accept-encoding" => &mut fields.grpc_accept_encoding,
                "connect-protocol-version" => &mut fields.version,
                "connect-timeout-ms" => &mut fields.connect_timeout,
                "grpc-timeout" => &mut fields.grpc_timeout,
                "x-envoy-expected-rq-timeout-ms" => &mut fields.envoy_timeout,
                "origin" => &mut fields.origin,
                "access-control-request-method" => &mut fields.preflight,
                "access-control-request-headers" => &mut fields.preflight_headers,
                "greenwave-receipt" => {
                    fields.wants_receipt = true;
                    continue;
                }
                // HTTP's own business, and what browsers add to everything.
                "accept" | "connection" | "content-length" | "expect" | "host" | "keep-alive" | "te" | "trailer"
                | "transfer-encoding" | "upgrade" | "x-grpc-web" => continue,
                other if ["grpc-", "connect-", "sec-"].iter().any(|own| other.starts_with(own)) => continue,
                other => {
                    if fields.wrong.is_none() {
                        fields.wrong = push(&mut fields.metadata, other, value).err();
                    }
                    continue;
                }
            };
            field.get_or_insert(value);
        }
        fields
    }

    /// What is left of the time, by the header of this value and by a proxy's word, if that counts.
    fn budget(
        &self,
        own: Option<&[u8]>,
        read: impl Fn(&[u8]) -> Option<Budget>,
        settings: &WebSettings,
    ) -> Result<Budget, Status> {
        let wrong = || Status::new(Code::InvalidArgument, "the timeout can't be read");
        let own = own.map_or(Ok(Budget::UNLIMITED), |value| read(value).ok_or_else(wrong))?;
        // What a proxy says wrongly is no reason to refuse its client.
        let proxys = self.envoy_timeout.filter(|_| settings.trusts_envoy);
        let proxys = proxys.and_then(|value| envoy_timeout(value).ok().flatten());
        Ok(proxys.map_or(own, |proxys| own.min(Budget::expected(proxys))))
    }
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

/// Reads a request's head: how it asks (`POST`), for what, and its headers, their names in whatever case.
pub fn read<'a>(
    verb: &str,
    target: &str,
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    settings: &WebSettings,
    limits: &Limits,
) -> Asked {
    let fields = Fields::read(headers);
    let cors = Cors::of(&settings.origins, fields.origin);
    let asked = read_fields(verb, target, fields, settings, limits, &cors);
    asked.unwrap_or_else(|response| Asked::Refused(cors.mark(response)))
}

fn read_fields(
    verb: &str,
    target: &str,
    fields: Fields<'_>,
    settings: &WebSettings,
    limits: &Limits,
    cors: &Cors,
) -> Result<Asked, Response> {
    let Some(target) = Target::read(target) else {
        return Err(failed(400, Code::InvalidArgument, "the target is neither a path nor a URI"));
    };
    if verb == "OPTIONS" {
        let asks = fields.origin.and(fields.preflight);
        return Ok(Asked::Told(match asks {
            Some(_) => cors.preflight(fields.preflight_headers.unwrap_or_default()),
            None => Response::empty(204).with("allow", ALLOW),
        }));
    }
    let path = target.path.ok_or_else(|| failed(400, Code::InvalidArgument, "the target is no path"))?;
    let (protocol, message) = match verb {
        "GET" | "HEAD" if path == HEALTH_PATH => (Protocol::Probe, Message::Head(Vec::new())),
        "GET" => {
            if path.split('/').filter(|part| !part.is_empty()).count() != 2 {
                return Err(failed(404, Code::Unimplemented, "nothing is to be had here"));
            }
            let (format, message) = in_url(&target).map_err(|text| failed(400, Code::InvalidArgument, text))?;
            (Protocol::Connect { format, get: true }, Message::Head(message))
        }
        "POST" => {
            let protocol = protocol(fields.content_type.unwrap_or_default()).ok_or_else(|| {
                let text = "the content-type is none of those that can be read here";
                failed(415, Code::InvalidArgument, text).with("accept-post", ACCEPTED)
            })?;
            (protocol, Message::Body(intake(protocol, settings, limits)))
        }
        _ => return Err(failed(405, Code::Unimplemented, "methods are called by POST").with("allow", ALLOW)),
    };
    let style = Style { protocol, cors: cors.clone(), wants_receipt: fields.wants_receipt, encoding: None };
    let method = if protocol == Protocol::Probe { HEALTH } else { MethodId::of(path) };
    match call(method, message, fields, &target, settings, &style) {
        Ok(call) => Ok(Asked::Call(Box::new(call))),
        Err(status) => Ok(Asked::Refused(style.refuse(status))),
    }
}

fn call(
    method: MethodId,
    message: Message,
    fields: Fields<'_>,
    target: &Target<'_>,
    settings: &WebSettings,
    style: &Style,
) -> Result<Call, Status> {
    let invalid = |text: &str| Status::new(Code::InvalidArgument, text);
    let (budget, coding) = match style.protocol {
        Protocol::Connect { format, get } => {
            let version = if get { target.parameter("connect") } else { None };
            match fields.version.map(|version| version == b"1").or(version.map(|version| version == "v1")) {
                Some(true) => {}
                Some(false) => return Err(invalid("of Connect's protocol there is version 1 here")),
                None if settings.requires_version => {
                    return Err(invalid("the header connect-protocol-version is missing; it has to be 1"));
                }
                None => {}
            }
            let said = if get { target.parameter("compression").map(str::as_bytes) } else { fields.content_encoding };
            let request = encoding(said)?;
            let answer = Encodings::listed(fields.accept_encoding.unwrap_or_default());
            let read = |value: &[u8]| connect_timeout(value).ok().map(Budget::expected);
            (
                fields.budget(fields.connect_timeout, read, settings)?,
                Coding::of(format, get).with_request(request).with_answer(answer),
            )
        }
        Protocol::GrpcWeb { format, .. } => {
            let request = encoding(fields.grpc_encoding)?;
            let answer = Encodings::listed(fields.grpc_accept_encoding.unwrap_or_default());
            let read = |value: &[u8]| grpc_timeout(value).ok().map(Budget::expected);
            (
                fields.budget(fields.grpc_timeout, read, settings)?,
                Coding::of(format, false).with_request(request).with_answer(answer),
            )
        }
        Protocol::Probe => return Ok(probe(method, message, style)),
    };
    let Fields { metadata, wrong, .. } = fields;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let metadata = (!metadata.is_empty()).then(|| metadata.into());
    let style = Style { encoding: coding.answer().preferred(), ..style.clone() };
    Ok(Call { method, budget, metadata, coding, message, style })
}

/// How a message is compressed of which this is said.
fn encoding(said: Option<&[u8]>) -> Result<Option<Encoding>, Status> {
    let Some(name) = said.filter(|name| !name.eq_ignore_ascii_case(b"identity")) else { return Ok(None) };
    let unknown = || {
        let text = format!("compressed messages are read here if they are {}", Encodings::BUILT_IN.list());
        Status::new(Code::Unimplemented, text)
    };
    Encoding::named(name).map(Some).ok_or_else(unknown)
}

/// Of a probe nothing is asked.
fn probe(method: MethodId, message: Message, style: &Style) -> Call {
    let (budget, coding) = (Budget::UNLIMITED, Coding::PLAIN);
    Call { method, budget, metadata: None, coding, message, style: style.clone() }
}

/// What a POST of this content type is.
fn protocol(content_type: &[u8]) -> Option<Protocol> {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let kind = std::str::from_utf8(kind).ok()?.to_ascii_lowercase();
    let web = |format, text| Some(Protocol::GrpcWeb { format, text });
    match &*kind {
        "application/json" => Some(Protocol::Connect { format: Format::Json, get: false }),
        "application/proto" => Some(Protocol::Connect { format: Format::Proto, get: false }),
        "application/grpc-web" | "application/grpc-web+proto" => web(Format::Proto, false),
        "application/grpc-web+json" => web(Format::Json, false),
        "application/grpc-web-text" | "application/grpc-web-text+proto" => web(Format::Proto, true),
        "application/grpc-web-text+json" => web(Format::Json, true),
        _ => None,
    }
}

fn intake(protocol: Protocol, settings: &WebSettings, limits: &Limits) -> Intake {
    let most = |format| match format {
        Format::Json => settings.json_bytes.min(limits.most_message_bytes()),
        Format::Proto => limits.most_message_bytes(),
    };
    match protocol {
        Protocol::Connect { format, .. } => Intake::bare(most(format)),
        Protocol::GrpcWeb { format, text } => Intake::framed(text, most(format)),
        Protocol::Probe => Intake::bare(0),
    }
}

/// The message that a URL has ("Connect protocol", Unary-Get-Request).
fn in_url(target: &Target<'_>) -> Result<(Format, Vec<u8>), &'static str> {
    let format = match target.parameter("encoding") {
        Some("json") => Format::Json,
        Some("proto") => Format::Proto,
        _ => {
            return Err(
                "by GET it takes ?connect=v1&encoding=json&message=, with the message behind; or call it by POST",
            );
        }
    };
    let message = target.parameter("message").ok_or("the parameter message is missing")?;
    let message = decoded(message).ok_or("the parameter message is not percent-encoded")?;
    if target.parameter("base64") == Some("1") {
        let message = URL.decode(message).map_err(|_| "the parameter message is not base64")?;
        return Ok((format, message));
    }
    Ok((format, message.into_owned()))
}

/// A request that is no call, told so as Connect tells failures.
pub(crate) fn failed(http: u16, code: Code, text: &str) -> Response {
    Response::of(http, JSON, connect::failure(code, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::wire::Meta;
    use proptest::prelude::*;
    use std::time::Duration;

    fn asked(verb: &str, target: &str, headers: &[(&str, &str)], settings: &WebSettings) -> Asked {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        read(verb, target, headers, settings, &Limits::new())
    }

    fn call(verb: &str, target: &str, headers: &[(&str, &str)]) -> Box<Call> {
        match asked(verb, target, headers, &WebSettings::new()) {
            Asked::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    fn refused(verb: &str, target: &str, headers: &[(&str, &str)], settings: &WebSettings) -> (u16, String) {
        match asked(verb, target, headers, settings) {
            Asked::Refused(response) => (response.status, String::from_utf8(response.body.concat()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    const POST: (&str, &str) = ("Content-Type", "application/json; charset=utf-8");

    #[test]
    fn a_post_of_json_is_a_call_with_its_time_and_metadata() {
        let headers = [
            POST,
            ("Host", "here"),
            ("Connect-Protocol-Version", "1"),
            ("Connect-Timeout-Ms", "1500"),
            ("User-Agent", "curl"),
            ("key-bin", "AAEC, AwQ="),
            ("X-Envoy-Expected-Rq-Timeout-Ms", "1"),
        ];
        let call = call("POST", "http://here/a.A/One", &headers);
        assert_eq!(
            (call.method, call.budget),
            (MethodId::of("a.A/One"), Budget::expected(Duration::from_millis(1500)))
        );
        assert_eq!(call.coding, Coding::of(Format::Json, false));
        let all = call.metadata.as_deref().unwrap();
        let entries: Vec<(&str, &[u8])> = Meta::parse(all).unwrap().into_iter().collect();
        assert_eq!(entries, [("user-agent", &b"curl"[..]), ("key-bin", &[0, 1, 2]), ("key-bin", &[3, 4])]);
        let trusting = WebSettings::new().trust_envoy(true);
        let Asked::Call(call) = asked("POST", "/a.A/One", &headers, &trusting) else { panic!("it is a call") };
        assert_eq!(call.budget, Budget::expected(Duration::from_millis(1)));
    }

    #[test]
    fn what_a_post_is_follows_from_its_type() {
        for (kind, expected) in [
            ("application/proto", Some(Protocol::Connect { format: Format::Proto, get: false })),
            ("Application/JSON", Some(Protocol::Connect { format: Format::Json, get: false })),
            ("application/grpc-web", Some(Protocol::GrpcWeb { format: Format::Proto, text: false })),
            ("application/grpc-web-text+json", Some(Protocol::GrpcWeb { format: Format::Json, text: true })),
            ("application/grpc", None),
            ("application/connect+json", None),
            ("application/x-www-form-urlencoded", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(protocol(kind.as_bytes()), expected, "{kind}");
        }
        let (status, body) = refused("POST", "/a.A/One", &[("content-type", "text/plain")], &WebSettings::new());
        assert!(status == 415 && body.contains("content-type"), "{status} {body}");
        let call = call("POST", "/a.A/One", &[("content-type", "application/grpc-web+proto"), ("grpc-timeout", "2S")]);
        assert_eq!(call.budget, Budget::expected(Duration::from_secs(2)));
    }

    #[test]
    fn a_get_has_its_message_in_the_url() {
        for query in [
            "connect=v1&encoding=json&message=%7B%22a%22%3A1%7D",
            "message=eyJhIjoxfQ&base64=1&encoding=json",
            "message=eyJhIjoxfQ%3D%3D&base64=1&encoding=json&compression=identity",
        ] {
            let call = call("GET", &format!("/a.A/One?{query}"), &[]);
            let Message::Head(message) = &call.message else { panic!("it came with the head") };
            assert_eq!(String::from_utf8_lossy(message), r#"{"a":1}"#);
            assert_eq!(call.coding, Coding::of(Format::Json, true));
        }
        let status = |target| refused("GET", target, &[], &WebSettings::new()).0;
        assert_eq!(status("/"), 404);
        assert_eq!(status("/a.A/One"), 400);
        assert_eq!(status("/a.A/One?encoding=json"), 400);
        assert_eq!(status("/a.A/One?encoding=json&message=%"), 400);
        assert_eq!(status("/a.A/One?encoding=json&message=*&base64=1"), 400);
        assert_eq!(status("/a.A/One?encoding=json&message=&connect=v2"), 400);
        assert_eq!(status("/a.A/One?encoding=json&message=&compression=br"), 501);
    }

    #[test]
    fn a_call_says_how_its_message_is_compressed_and_its_answer_may_be() {
        let gzip = Encoding::named(b"gzip");
        let coding = |kind: &str, headers: &[(&str, &str)], body: &[u8]| {
            let headers = [&[("content-type", kind)], headers].concat();
            let Asked::Call(mut call) = asked("POST", "/a.A/One", &headers, &WebSettings::new()) else { return None };
            let Message::Body(intake) = &mut call.message else { return None };
            intake.add(body, &mut Vec::with_capacity).unwrap();
            call.message.finish(&mut call.coding).ok()?;
            Some((call.coding.request(), call.coding.answer()))
        };
        let (packed, plain) = ([1, 0, 0, 0, 1, 7], [0, 0, 0, 0, 1, 7]);
        let web = "application/grpc-web";
        assert_eq!(coding(web, &[], &packed), None);
        assert_eq!(coding(web, &[("grpc-encoding", "identity")], &plain), Some((None, Encodings::NONE)));
        let connect = "application/proto";
        let accepts = [("accept-encoding", "gzip, br"), ("grpc-accept-encoding", "gzip")];
        assert_eq!(coding(connect, &accepts, &[7]), Some((None, Encodings::listed(b"gzip"))));
        assert_eq!(coding(web, &accepts, &plain), Some((None, Encodings::listed(b"gzip"))));
        let said = gzip.map(|_| (gzip, Encodings::NONE));
        assert_eq!(coding(web, &[("grpc-encoding", "gzip")], &packed), said);
        assert_eq!(coding(web, &[("grpc-encoding", "gzip")], &plain), gzip.map(|_| (None, Encodings::NONE)));
        assert_eq!(coding(connect, &[("content-encoding", "gzip")], &[7]), said);
        assert_eq!(coding(connect, &[("content-encoding", "gzip")], &[]), gzip.map(|_| (None, Encodings::NONE)));
    }

    #[test]
    fn what_is_wrong_with_a_call_is_said_as_its_protocol_says_it() {
        let wrong = |header, settings: &WebSettings| refused("POST", "/a.A/One", &[POST, header], settings);
        let (settings, long) = (WebSettings::new(), "x".repeat(9000));
        for header in [
            ("connect-timeout-ms", "soon"),
            ("connect-timeout-ms", "12345678901"),
            ("connect-protocol-version", "2"),
            ("key-bin", "*"),
            ("key", &*long),
        ] {
            let (status, body) = wrong(header, &settings);
            assert!(status == 400 && body.contains("invalid_argument"), "{header:?} {body}");
        }
        assert_eq!(wrong(("content-encoding", "br"), &settings).0, 501);
        assert_eq!(wrong(("x", "y"), &settings.require_version(true)).0, 400);
        let grpc = [("content-type", "application/grpc-web"), ("grpc-timeout", "soon")];
        let (status, body) = {
            let Asked::Refused(response) = asked("POST", "/a.A/One", &grpc, &WebSettings::new()) else {
                panic!("it was taken")
            };
            (response.status, response.body.concat())
        };
        assert!(status == 200 && body[0] == 0x80 && String::from_utf8_lossy(&body).contains("grpc-status: 3"));
        for (verb, expected) in [("PUT", 405), ("DELETE", 405), ("TRACE", 405), ("HEAD", 405)] {
            assert_eq!(refused(verb, "/a.A/One", &[], &WebSettings::new()).0, expected, "{verb}");
        }
        assert_eq!(refused("POST", "*", &[POST], &WebSettings::new()).0, 400);
        assert_eq!(refused("CONNECT", "here:80", &[], &WebSettings::new()).0, 400);
    }

    #[test]
    fn probes_and_preflights_are_answered() {
        for verb in ["GET", "HEAD"] {
            let call = call(verb, "/healthz", &[("x-bin", "*")]);
            assert_eq!((call.method, call.budget, call.style.protocol), (HEALTH, Budget::UNLIMITED, Protocol::Probe));
        }
        let ask = [("Origin", "https://a"), ("Access-Control-Request-Method", "POST")];
        let Asked::Told(told) = asked("OPTIONS", "/a.A/One", &ask, &WebSettings::new().origins(["*"])) else {
            panic!("it is answered")
        };
        assert!(told.headers.contains(&("access-control-allow-origin".into(), "*".to_owned())));
        let Asked::Told(told) = asked("OPTIONS", "*", &[], &WebSettings::new()) else { panic!("it is answered") };
        assert_eq!((told.status, told.headers), (204, vec![("allow".into(), ALLOW.to_owned())]));
    }

    proptest! {
        #[test]
        fn no_head_makes_it_panic(
            verb in "(GET|POST|OPTIONS|HEAD)",
            target in "/?(a.A/One|healthz)?[?&=%+a-z0-9*:/]{0,30}",
            name in "(origin|content-type|connect-timeout-ms|grpc-timeout|a-bin|access-control-request-headers)",
            value in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let headers = [("content-type", &b"application/json"[..]), (name.as_str(), &value[..])];
            let settings = WebSettings::new().origins(["*"]).trust_envoy(true);
            let _ = read(&verb, &target, headers.into_iter(), &settings, &Limits::new());
        }
    }
}
