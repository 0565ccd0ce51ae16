//! How calls are written: a stream's headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use greenwave_http2::{Connection, Header, Known, OpenError, Stream};
use greenwave_proto::MethodNames;
use greenwave_proto::compression::Encodings;
use greenwave_proto::connection::Request;
use greenwave_proto::status::{Code, Reason, Status};
use greenwave_proto::wire::{Meta, MethodId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How many paths are kept in the compression's table.
const KNOWN_MOST: usize = 32;

/// What is the same for all calls of a connection, and the paths of those that were made.
pub(super) struct Writer {
    /// The pseudo-headers before the path, and after it, and the headers behind them.
    before: [Option<Known>; 2],
    after: [Option<Known>; 5],
    /// By which a receipt is asked for.
    asks: Option<Known>,
    names: Arc<MethodNames>,
    paths: HashMap<MethodId, Path>,
    timeout: Vec<u8>,
}

struct Path {
    text: String,
    known: Option<Known>,
}

impl Writer {
    pub(super) fn new(
        http2: &mut Connection,
        authority: &str,
        user_agent: &str,
        secure: bool,
        names: Arc<MethodNames>,
    ) -> Self {
        let scheme: &[u8] = if secure { b"https" } else { b"http" };
        let accepted = (!Encodings::BUILT_IN.is_empty()).then(|| Encodings::BUILT_IN.list());
        let mut know = |name: &[u8], value: &[u8]| http2.know(name, value);
        Self {
            before: [know(b":method", b"POST"), know(b":scheme", scheme)],
            after: [
                know(b":authority", authority.as_bytes()),
                know(b"te", b"trailers"),
                know(b"content-type", b"application/grpc"),
                know(b"user-agent", user_agent.as_bytes()),
                accepted.and_then(|list| know(b"grpc-accept-encoding", list.as_bytes())),
            ],
            asks: know(b"greenwave-receipt", b"1"),
            names,
            paths: HashMap::new(),
            timeout: Vec::new(),
        }
    }

    /// Whether a call of this method with these metadata can be made.
    pub(super) fn check(&mut self, method: MethodId, metadata: &[u8]) -> Result<(), Status> {
        if !self.paths.contains_key(&method) {
            let name = self.names.name(method).ok_or_else(|| {
                let text = format!(
                    "gRPC calls methods by their names, and that of the method {method} was not said: call \
                     Method::named(\"package.Service/Method\") rather than its number"
                );
                Status::new(Code::InvalidArgument, text)
            })?;
            let is_path = name.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_path {
                return Err(Status::new(Code::InvalidArgument, format!("`{name}` is no name of a method")));
            }
            self.paths.insert(method, Path { text: format!("/{name}"), known: None });
        }
        entries(metadata).try_for_each(|(name, value)| check_entry(name, value))
    }

    /// Opens a stream for a call that was [checked](Self::check); `left`: of its time.
    pub(super) fn open(
        &mut self,
        http2: &mut Connection,
        request: &Request,
        left: Option<Duration>,
        asks: bool,
    ) -> Result<Stream, OpenError> {
        let Self { before, after, asks: receipt, paths, timeout, .. } = self;
        let known = paths.values().filter(|path| path.known.is_some()).count();
        let path = paths.get_mut(&request.method);
        let path = path.map(|path| {
            if path.known.is_none() && known < KNOWN_MOST {
                path.known = http2.know(b":path", path.text.as_bytes());
            }
            path.known.map_or(Header::Plain(b":path", path.text.as_bytes()), Header::Known)
        });
        let metadata: Vec<Written<'_>> = entries(request.terms.metadata()).map(encoded).collect();
        let mut headers: Vec<Header<'_>> = Vec::with_capacity(11 + metadata.len());
        let all = |of: &[Option<Known>]| of.iter().flatten().copied().map(Header::Known).collect::<Vec<_>>();
        headers.extend(all(before));
        headers.extend(path);
        headers.extend(all(after));
        if let Some(encoding) = request.terms.compressed() {
            headers.push(Header::Plain(b"grpc-encoding", encoding.name().as_bytes()));
        }
        if let Some(left) = left {
            timeout.clear();
            write_timeout(left, timeout);
            headers.push(Header::Plain(b"grpc-timeout", timeout));
        }
        headers.extend(receipt.filter(|_| asks).map(Header::Known));
        headers.extend(metadata.iter().map(|(name, value)| Header::Plain(name, value)));
        http2.open(&headers, false)
    }
}

/// The entries that are a caller's to say.
fn entries(metadata: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    // Those of a context are sound.
    Meta::parse(metadata).into_iter().flatten().filter(|(name, _)| !is_reserved(name))
}

/// Whether a name is gRPC's or HTTP's own business, or asks for what is asked for anyway.
fn is_reserved(name: &str) -> bool {
    let own = ["content-type", "te", "content-length", "user-agent", "connection", "host", "greenwave-receipt"];
    let hops = ["transfer-encoding", "keep-alive", "proxy-connection", "upgrade"];
    let is = |reserved: &&str| name.eq_ignore_ascii_case(reserved);
    own.iter().any(is)
        || hops.iter().any(is)
        || name.starts_with(':')
        || name.get(..5).is_some_and(|first| first.eq_ignore_ascii_case("grpc-"))
}

fn check_entry(name: &str, value: &[u8]) -> Result<(), Status> {
    let refused = |text: String| Err(Status::refused(Reason::Metadata, text));
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return refused(format!("`{name}` holds something else than letters, digits, `_`, `-` and `.`"));
    }
    let is_text = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !is_binary(name) && !is_text {
        return refused(format!("the value of `{name}` is no printable ASCII; its name has to end in -bin"));
    }
    Ok(())
}

fn is_binary(name: &str) -> bool {
    name.len() > 4 && name.as_bytes()[name.len() - 4..].eq_ignore_ascii_case(b"-bin")
}

/// A name and a value as they are written.
type Written<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

fn encoded<'a>((name, value): (&'a str, &'a [u8])) -> Written<'a> {
    let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    let written: Cow<'_, [u8]> =
        if is_lower { name.as_bytes().into() } else { name.to_ascii_lowercase().into_bytes().into() };
    let value =
        if is_binary(name) { STANDARD_NO_PAD.encode(value).into_bytes().into() } else { value.trim_ascii().into() };
    (written, value)
}

/// Writes what is left in up to eight digits of the finest unit that they suffice for, rounded down; at least a nanosecond.
fn write_timeout(left: Duration, into: &mut Vec<u8>) {
    const MOST: u128 = 100_000_000;
    let nanos = left.as_nanos().max(1);
    let units = [(1, 'n'), (1_000, 'u'), (1_000_000, 'm'), (1_000_000_000, 'S'), (60_000_000_000, 'M')];
    let fit = units.into_iter().map(|(unit, letter)| (nanos / unit, letter)).find(|(number, _)| *number < MOST);
    let (number, letter) = fit.unwrap_or(((nanos / 3_600_000_000_000).min(MOST - 1), 'H'));
    // To write into memory doesn't fail.
    let _ = write!(into, "{number}{letter}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_policy::timeouts::grpc_timeout;
    use greenwave_proto::wire::push_meta;
    use proptest::prelude::*;

    fn written(left: Duration) -> String {
        let mut text = Vec::new();
        write_timeout(left, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_finest_unit_that_eight_digits_suffice_for_is_taken() {
        for (left, text) in [
            (Duration::ZERO, "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::from_secs(200_000_000), "3333333M"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(written(left), text, "{left:?}");
        }
    }

    proptest! {
        #[test]
        fn a_server_is_never_told_of_more_time_than_there_is(nanos in 1_u64..u64::MAX) {
            let left = Duration::from_nanos(nanos);
            let told = grpc_timeout(written(left).as_bytes()).unwrap();
            prop_assert!(told <= left && told.as_nanos() * 1000 >= left.as_nanos() * 999, "{told:?}");
        }
    }

    #[test]
    fn metadata_are_checked_and_those_that_are_not_the_caller_s_to_say_left_out() {
        let mut metadata = Vec::new();
        for name in ["te", "grpc-timeout", "Grpc-Encoding", "Key", "key-bin", "Content-Type", ":path"] {
            push_meta(&mut metadata, name, b"value").unwrap();
        }
        let said: Vec<_> = entries(&metadata).map(encoded).collect();
        type Bytes<'a> = Cow<'a, [u8]>;
        let expected: [(Bytes<'_>, Bytes<'_>); 2] =
            [(b"key"[..].into(), b"value"[..].into()), (b"key-bin"[..].into(), b"dmFsdWU"[..].into())];
        assert_eq!(said, expected);
        for (name, value) in [("a b", &b"1"[..]), ("a", b"\n"), ("a", b"\xff")] {
            assert_eq!(check_entry(name, value).unwrap_err().reason, Reason::Metadata);
        }
        assert!(check_entry("a-bin", b"\xff\0").is_ok());
    }
}
