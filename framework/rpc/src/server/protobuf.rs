//! As much of protobuf's encoding as the methods need that every server has.
//!
//! Source: protobuf.dev/programming-guides/encoding.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed length; nothing here is that reads one.
    Fixed,
}

/// The fields of a message, in their order; the last one is `None` where the rest is no message.
pub(super) fn fields(mut message: &[u8]) -> impl Iterator<Item = Option<(u64, Value<'_>)>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = field(&mut message);
        if field.is_none() {
            message = &[];
        }
        Some(field)
    })
}

fn field<'a>(message: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = number(message)?;
    let len = match key & 7 {
        0 => return Some((key >> 3, Value::Number(number(message)?))),
        1 => 8,
        2 => usize::try_from(number(message)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (value, rest) = message.split_at_checked(len)?;
    *message = rest;
    Some((key >> 3, if key & 7 == 2 { Value::Bytes(value) } else { Value::Fixed }))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Adds a field that is a number.
pub(super) fn put_number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

/// Adds a field that is a double.
pub(super) fn put_double(message: &mut Vec<u8>, field: u64, value: f64) {
    varint(message, field << 3 | 1);
    message.extend_from_slice(&value.to_le_bytes());
}

/// Adds a field that is a text, bytes or a message.
pub(super) fn put_bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(message, field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// The last text of this field, empty if there is none; `None` if it is no message, or the text no text.
pub(super) fn text_of(message: &[u8], number: u64) -> Option<&str> {
    let mut text = "";
    for field in fields(message) {
        match field? {
            (found, Value::Bytes(value)) if found == number => text = std::str::from_utf8(value).ok()?,
            _ => {}
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_among_fields_of_any_kind_and_nonsense_is_none() {
        assert_eq!(text_of(&[], 1), Some(""));
        assert_eq!(text_of(b"\x0a\x03a.A", 1), Some("a.A"));
        assert_eq!(text_of(b"\x10\x96\x01\x0a\x01x\x0a\x03a.A\x1a\x00\x25abcd\x29abcdefgh", 1), Some("a.A"));
        let nonsense: [&[u8]; 6] = [b"\x0a", b"\x0a\x03a", b"\x0a\x01\xff", b"\x0b", b"\x80", &[0xff; 12]];
        assert!(nonsense.iter().all(|bytes| text_of(bytes, 1).is_none()));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut message = Vec::new();
        put_number(&mut message, 3, 300);
        put_bytes(&mut message, 16, &[7; 200]);
        let read: Vec<_> = fields(&message).collect();
        assert_eq!(read, [Some((3, Value::Number(300))), Some((16, Value::Bytes(&[7; 200])))]);
    }
}
