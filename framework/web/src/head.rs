//! A request's head over HTTP/1.1 (RFC 9112): where it ends, and what it says of the body and the connection.
//!
//! What two readers could take for different requests is refused: a length beside chunks, two lengths, a length with a sign, a
//! coding that isn't `chunked` alone, lines that are folded.

use crate::chunked::{Chunked, NoChunks};
use httparse::{EMPTY_HEADER, Error, Header, Request, Status};

/// Bytes of a head, and its headers.
pub(crate) const HEAD_MOST: usize = 16 << 10;
const HEADERS_MOST: usize = 100;

/// What a head says of what follows it.
#[derive(Debug)]
pub(crate) struct Framing {
    pub(crate) body: Body,
    /// Whether another request may follow.
    pub(crate) keep: bool,
    /// Whether the client waits to be told to go on (`Expect: 100-continue`).
    pub(crate) expects: bool,
    /// Whether an answer may come in chunks.
    pub(crate) chunks: bool,
}

/// How a body's end is found.
#[derive(Debug)]
pub(crate) enum Body {
    /// So many bytes are still to come.
    Sized(usize),
    Chunked(Chunked),
}

impl Body {
    /// Takes in what arrived of it, and hands on what it holds. How many bytes were of this body, and whether it is over.
    pub(crate) fn feed<E: From<NoChunks>>(
        &mut self,
        bytes: &[u8],
        deliver: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(usize, bool), E> {
        match self {
            Self::Chunked(chunked) => chunked.feed(bytes, deliver),
            Self::Sized(left) => {
                let taken = bytes.len().min(*left);
                deliver(&bytes[..taken])?;
                *left -= taken;
                Ok((taken, *left == 0))
            }
        }
    }
}

/// Why a head is none, with HTTP's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoHead(pub(crate) u16, pub(crate) &'static str);

/// Where the head ends that these bytes begin with, if it is there. Up to `seen` they were looked at before.
pub(crate) fn end_of_head(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    let mut at = from;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        at += found + 1;
        match bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Reads a head that is all there, and hands it on: how it asks, for what, and its headers.
pub(crate) fn read<R>(bytes: &[u8], take: impl FnOnce(&str, &str, &[Header<'_>]) -> R) -> Result<(Framing, R), NoHead> {
    let mut headers = [EMPTY_HEADER; HEADERS_MOST];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(len)) if len == bytes.len() => {}
        Ok(_) => return Err(NoHead(400, "the head can't be read")),
        Err(Error::TooManyHeaders) => return Err(NoHead(431, "there are more than 100 headers")),
        Err(Error::Version) => return Err(NoHead(505, "of HTTP there are the versions 1.1 and 2 here")),
        Err(_) => return Err(NoHead(400, "the head can't be read")),
    }
    let (Some(verb), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(NoHead(400, "the head can't be read"));
    };
    let framing = framing(request.headers, version)?;
    Ok((framing, take(verb, target, request.headers)))
}

fn framing(headers: &[Header<'_>], version: u8) -> Result<Framing, NoHead> {
    let (mut length, mut chunked, mut hosts) = (None, false, 0);
    let (mut keep, mut expects) = (version == 1, false);
    for Header { name, value } in headers {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            let digits = value.trim_ascii();
            let sound = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
            if !sound || length.is_some() {
                return Err(NoHead(400, "the content-length is no number"));
            }
            length = Some(digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')));
        } else if is("transfer-encoding") {
            if version == 0 || chunked {
                return Err(NoHead(400, "the transfer-encoding can't be meant"));
            }
            if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(NoHead(501, "of transfer-encodings there is chunked here"));
            }
            chunked = true;
        } else if is("connection") {
            let mut words = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            // Version 1.0 is closed on in any case.
            keep &= !words.any(|word| word.eq_ignore_ascii_case(b"close"));
        } else if is("expect") {
            if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                return Err(NoHead(417, "of expectations there is 100-continue here"));
            }
            expects = version == 1;
        } else if is("host") {
            hosts += 1;
        }
    }
    if version == 1 && hosts != 1 {
        return Err(NoHead(400, "there has to be one host"));
    }
    match (length, chunked) {
        (Some(_), true) => Err(NoHead(400, "there is a content-length beside a transfer-encoding")),
        (None, true) => Ok(Framing { body: Body::Chunked(Chunked::default()), keep, expects, chunks: version == 1 }),
        (length, false) => Ok(Framing { body: Body::Sized(length.unwrap_or(0)), keep, expects, chunks: version == 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(lines: &[&str]) -> u16 {
        let head = format!("{}\r\n\r\n", lines.join("\r\n"));
        read(head.as_bytes(), |_, _, _| ()).map_or_else(|NoHead(status, _)| status, |_| 200)
    }

    #[test]
    fn what_could_be_two_requests_is_none() {
        let post = |more: &[&str]| status(&[&["POST / HTTP/1.1", "Host: here"], more].concat());
        assert_eq!(post(&["Content-Length: 5"]), 200);
        assert_eq!(post(&["Transfer-Encoding: chunked"]), 200);
        for wrong in [
            &["Content-Length: 5", "Transfer-Encoding: chunked"][..],
            &["Content-Length: 5", "Content-Length: 5"],
            &["Content-Length: 5, 5"],
            &["Content-Length: +5"],
            &["Content-Length: 0x5"],
            &["Content-Length:"],
            &["Content-Length: 9999999999999999999"],
            &["Content-Length : 5"],
            &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            &["A: b", " folded"],
            &["A: b", "\tfolded"],
            &["A: b\0"],
            &["A: b\rc"],
            &["Host: there"],
            &["no header"],
        ] {
            assert_eq!(post(wrong), 400, "{wrong:?}");
        }
        for unknown in
            ["Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, x"]
        {
            assert_eq!(post(&[unknown]), 501, "{unknown}");
        }
        assert_eq!(post(&["Expect: a miracle"]), 417);
        assert_eq!(status(&["POST / HTTP/1.1"]), 400);
        assert_eq!(status(&["POST / HTTP/1.0", "Transfer-Encoding: chunked"]), 400);
        assert_eq!(status(&["POST / HTTP/2.0", "Host: here"]), 505);
        assert_eq!(status(&["POST / HTTP/1.0"]), 200);
        assert_eq!(post(&["A: b"; HEADERS_MOST]), 431);
    }

    #[test]
    fn the_connection_is_kept_unless_somebody_says_otherwise() {
        let keep = |lines: &[&str]| {
            let head = format!("{}\r\nHost: here\r\n\r\n", lines.join("\r\n"));
            read(head.as_bytes(), |_, _, _| ()).unwrap().0.keep
        };
        assert!(keep(&["GET / HTTP/1.1"]) && keep(&["GET / HTTP/1.1", "Connection: keep-alive"]));
        assert!(!keep(&["GET / HTTP/1.1", "Connection: te, Close"]));
        assert!(!keep(&["GET / HTTP/1.0", "Connection: keep-alive"]));
    }

    proptest! {
        /// However much of it was looked at before.
        #[test]
        fn the_end_of_a_head_is_found(lines in "[ab\r\n]{0,30}", seen in 0_usize..40) {
            let bytes = format!("x{lines}c");
            let expected = (0..bytes.len()).filter_map(|at| {
                let rest = &bytes[at..];
                (rest.starts_with("\n\n")).then_some(at + 2).or(rest.starts_with("\n\r\n").then_some(at + 3))
            }).min();
            prop_assert_eq!(end_of_head(bytes.as_bytes(), 0), expected);
            // What was looked at before had no end.
            let seen = seen.min(expected.map_or(bytes.len(), |end| end - 1));
            prop_assert_eq!(end_of_head(bytes.as_bytes(), seen), expected);
        }

        #[test]
        fn no_head_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let head = [b"POST / HTTP/1.1\r\n", &bytes[..], b"\r\n\r\n"].concat();
            let _ = read(&head, |_, _, _| ());
        }
    }
}
