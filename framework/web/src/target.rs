//! What a request line asks for: a path, and parameters.

use std::borrow::Cow;

/// A request's target, in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Without the slash that it begins with; `None`: the whole server is meant (`*`).
    pub(crate) path: Option<&'a str>,
    query: &'a str,
}

impl<'a> Target<'a> {
    /// Of a path, or of a whole URI, as clients of proxies write it (RFC 9112, 3.2). `None`: it is neither.
    pub(crate) fn read(target: &'a str) -> Option<Self> {
        if target == "*" {
            return Some(Self { path: None, query: "" });
        }
        let rest = match target.strip_prefix('/') {
            Some(rest) => rest,
            None => {
                let (scheme, rest) = target.split_once("://")?;
                if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
                    return None;
                }
                let authority = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, rest) = rest.split_at(authority);
                if authority.is_empty() {
                    return None;
                }
                rest.strip_prefix('/').unwrap_or(rest)
            }
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        Some(Self { path: Some(path), query })
    }

    /// The parameter of this name, the first if there are several, as it is written.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Percent-encoded bytes as they are meant; `None`: they are not sound.
pub(crate) fn decoded(value: &str) -> Option<Cow<'_, [u8]>> {
    if !value.contains(['%', '+']) {
        return Some(value.as_bytes().into());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                rest = after;
                digit(digits[0])? << 4 | digit(digits[1])?
            }
            b'+' => b' ',
            other => *other,
        });
    }
    Some(bytes.into())
}

/// The value of a hexadecimal digit.
pub(crate) fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_a_uri_and_the_server_are_told_apart() {
        let parts = |target| Target::read(target).map(|it| (it.path, it.query));
        assert_eq!(parts("/a.A/One?b=c&d"), Some((Some("a.A/One"), "b=c&d")));
        assert_eq!(parts("http://here:80/a.A/One?b"), Some((Some("a.A/One"), "b")));
        assert_eq!(parts("HTTPS://here?b"), Some((Some(""), "b")));
        assert_eq!(parts("http://here"), Some((Some(""), "")));
        assert_eq!(parts("*"), Some((None, "")));
        for wrong in ["here:80", "http:///a", "ftp://here/a", ""] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
        let target = Target::read("/?a=1&b&a=2").unwrap();
        assert_eq!((target.parameter("a"), target.parameter("b"), target.parameter("c")), (Some("1"), Some(""), None));
    }

    #[test]
    fn what_is_escaped_is_meant() {
        let text = |value| decoded(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(text("%7B%22a%22%3a+1%7d").as_deref(), Some("{\"a\": 1}"));
        assert_eq!(text("plain").as_deref(), Some("plain"));
        for wrong in ["%", "%1", "%1g", "a%"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
