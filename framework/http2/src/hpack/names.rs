//! The static table (RFC 7541, appendix A), and names by their numbers.

use crate::fields::Name;

/// Names and values by their index, which begins at 1.
#[rustfmt::skip]
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Names that have a number above those of the table.
const MORE: [&str; 11] = [
    "te",
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "grpc-status",
    "grpc-message",
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "grpc-previous-rpc-attempts",
];

/// Names that no message of HTTP/2 may have.
pub(crate) const CONNECTION: Name = Name(68);
pub(crate) const KEEP_ALIVE: Name = Name(69);
pub(crate) const PROXY_CONNECTION: Name = Name(70);
pub(crate) const UPGRADE: Name = Name(71);
pub(crate) const TRANSFER_ENCODING: Name = Name(57);

const COUNT: usize = STATIC.len() + MORE.len();
const LONGEST: usize = 27;

const fn name(id: usize) -> &'static str {
    if id <= STATIC.len() { STATIC[id - 1].0 } else { MORE[id - 1 - STATIC.len()] }
}

/// The numbers in the order of the names' lengths, and where each length begins.
static BY_LENGTH: ([u8; COUNT], [u8; LONGEST + 2]) = by_length();

const fn by_length() -> ([u8; COUNT], [u8; LONGEST + 2]) {
    let (mut ids, mut starts) = ([0; COUNT], [0; LONGEST + 2]);
    let (mut len, mut at) = (0, 0);
    while len <= LONGEST {
        starts[len] = at as u8;
        let mut id = 1;
        while id <= COUNT {
            if name(id).len() == len {
                ids[at] = id as u8;
                at += 1;
            }
            id += 1;
        }
        len += 1;
    }
    starts[LONGEST + 1] = at as u8;
    (ids, starts)
}

/// The number of a name: its first index in the table, or one above.
pub(crate) fn id_of(bytes: &[u8]) -> Name {
    let (ids, starts) = &BY_LENGTH;
    let Some([start, end, ..]) = starts.get(bytes.len()..) else { return Name::OTHER };
    let same = &ids[usize::from(*start)..usize::from(*end)];
    let found = same.iter().find(|id| name(usize::from(**id)).as_bytes() == bytes);
    found.map_or(Name::OTHER, |id| Name(*id))
}

/// The number of a name by its index in the static table.
pub(super) fn id_at(index: usize) -> Name {
    // The first of those with the same name.
    const FIRST: [u8; 15] = [0, 1, 2, 2, 4, 4, 6, 6, 8, 8, 8, 8, 8, 8, 8];
    Name(FIRST.get(index).copied().unwrap_or(index as u8))
}

/// The static index of a name, and of the name with this value, 0 if there is none.
pub(super) fn static_indices(bytes: &[u8], value: &[u8]) -> (u8, u8) {
    let Name(first) = id_of(bytes);
    if first == 0 || usize::from(first) > STATIC.len() {
        return (0, 0);
    }
    let is_name = |at: &usize| STATIC[*at - 1].0.as_bytes() == bytes;
    let whole = (usize::from(first)..=STATIC.len()).take_while(is_name).find(|at| {
        let known = STATIC[*at - 1].1.as_bytes();
        !known.is_empty() && known == value
    });
    (first, whole.unwrap_or(0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_numbers() {
        for (index, (name, value)) in (1..).zip(STATIC) {
            assert_eq!(id_at(index), id_of(name.as_bytes()));
            if !value.is_empty() {
                assert_eq!(usize::from(static_indices(name.as_bytes(), value.as_bytes()).1), index);
            }
        }
        for (id, name) in [
            (Name::TE, "te"),
            (Name::GRPC_TIMEOUT, "grpc-timeout"),
            (Name::GRPC_MESSAGE, "grpc-message"),
            (Name::CONTENT_TYPE, "content-type"),
            (Name::CONTENT_LENGTH, "content-length"),
            (Name::USER_AGENT, "user-agent"),
            (CONNECTION, "connection"),
            (UPGRADE, "upgrade"),
            (PROXY_CONNECTION, "proxy-connection"),
            (KEEP_ALIVE, "keep-alive"),
            (TRANSFER_ENCODING, "transfer-encoding"),
        ] {
            assert_eq!(id_of(name.as_bytes()), id);
        }
        assert_eq!(id_of(b"x-other"), Name::OTHER);
        assert_eq!(id_of(&[b'a'; 1000]), Name::OTHER);
    }
}
