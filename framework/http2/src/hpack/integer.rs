//! Integers (RFC 7541, 5.1).

use super::Malformed;

/// The largest that is read: more than any length or index that is accepted.
const MOST: u32 = 1 << 24;

/// Takes an integer of so many bits of the first byte off the front.
#[inline]
pub(super) fn decode(bytes: &mut &[u8], bits: u32) -> Result<usize, Malformed> {
    let (first, rest) = bytes.split_first().ok_or(Malformed)?;
    *bytes = rest;
    let most = (1_u8 << (bits - 1)) | ((1_u8 << (bits - 1)) - 1);
    let value = first & most;
    if value < most { Ok(value.into()) } else { decode_more(bytes, u32::from(most)) }
}

fn decode_more(bytes: &mut &[u8], mut value: u32) -> Result<usize, Malformed> {
    for shift in [0, 7, 14, 21] {
        let (next, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        value += u32::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return if value <= MOST { Ok(value as usize) } else { Err(Malformed) };
        }
    }
    Err(Malformed)
}

/// Adds an integer, with these bits above it in the first byte.
#[inline]
pub(super) fn encode(into: &mut Vec<u8>, above: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        into.push(above | value as u8);
        return;
    }
    into.push(above | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        into.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (bits, value, bytes) in [(5, 10, &[10][..]), (5, 1337, &[31, 154, 10]), (8, 42, &[42])] {
            let mut encoded = Vec::new();
            encode(&mut encoded, 0, bits, value);
            assert_eq!(encoded, bytes);
            assert_eq!(decode(&mut &encoded[..], bits), Ok(value));
        }
        assert_eq!(decode(&mut &[0xff; 20][..], 7), Err(Malformed));
        assert_eq!(decode(&mut &[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00][..], 7), Err(Malformed));
        assert_eq!(decode(&mut &[0x7f][..], 7), Err(Malformed));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(value in 0_usize..1 << 24, bits in 4_u32..8) {
            let mut encoded = Vec::new();
            encode(&mut encoded, 0, bits, value);
            let rest = &mut &encoded[..];
            prop_assert_eq!(decode(rest, bits), Ok(value));
            prop_assert!(rest.is_empty());
        }
    }
}
