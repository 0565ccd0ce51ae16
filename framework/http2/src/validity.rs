//! What names and values of headers may be, and lists of them (RFC 9113, 8.2 and 8.3).

use crate::fields::{List, Name};
use crate::hpack::names::{CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE};

/// What a list of headers is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Response,
    Trailers,
}

/// A list that no message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// Bytes of a name: those of a token in lower case, and what the two kinds of bytes that values can't have are.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

/// Whether this may be a name that is not a pseudo-header's.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| NAME_BYTES[usize::from(*byte)])
}

/// Whether this may be a value.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first())
        && !is_space(value.last())
        && value.iter().all(|byte| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t')
}

/// Checks a list, and notes what is in it. What it announces of a body, if it does.
pub(crate) fn check(list: &mut List, kind: Kind) -> Result<Option<u64>, Invalid> {
    let mut seen = 0_u16;
    let mut length = None;
    let mut pseudo = 0;
    for (at, entry) in list.entries.iter().enumerate() {
        if !entry.is_valid {
            return Err(Invalid);
        }
        match entry.id {
            name @ (Name::AUTHORITY | Name::METHOD | Name::PATH | Name::SCHEME | Name::STATUS) => {
                let fits = match kind {
                    Kind::Request => name != Name::STATUS,
                    Kind::Response => name == Name::STATUS,
                    Kind::Trailers => false,
                };
                // Before all others, and each once.
                if !fits || pseudo != at || seen & (1 << name.0) != 0 {
                    return Err(Invalid);
                }
                seen |= 1 << name.0;
                pseudo += 1;
            }
            CONNECTION | KEEP_ALIVE | PROXY_CONNECTION | UPGRADE | TRANSFER_ENCODING => return Err(Invalid),
            Name::TE if list.field(entry).value != b"trailers" => return Err(Invalid),
            Name::CONTENT_LENGTH if kind != Kind::Trailers => {
                let said = number(list.field(entry).value).ok_or(Invalid)?;
                if length.replace(said).is_some_and(|before| before != said) {
                    return Err(Invalid);
                }
            }
            _ => {}
        }
    }
    list.pseudo = pseudo;
    match kind {
        Kind::Request => check_request(list, seen)?,
        Kind::Response => list.status = status(list).ok_or(Invalid)?,
        Kind::Trailers => {}
    }
    Ok(length)
}

fn check_request(list: &List, seen: u16) -> Result<(), Invalid> {
    let has = |name: Name| seen & (1 << name.0) != 0;
    let value = |name| list.entries[..list.pseudo].iter().map(|entry| list.field(entry)).find(|it| it.id == name);
    let method = value(Name::METHOD).ok_or(Invalid)?.value;
    let is_right = if method == b"CONNECT" {
        has(Name::AUTHORITY) && !has(Name::SCHEME) && !has(Name::PATH)
    } else {
        !method.is_empty() && has(Name::SCHEME) && value(Name::PATH).is_some_and(|path| !path.value.is_empty())
    };
    if is_right { Ok(()) } else { Err(Invalid) }
}

fn status(list: &List) -> Option<u16> {
    let entry = list.entries.first().filter(|entry| entry.id == Name::STATUS)?;
    match list.field(entry).value {
        digits @ [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => number(digits).map(|status| status as u16),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}
