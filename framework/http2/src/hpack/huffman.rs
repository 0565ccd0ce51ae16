//! Huffman's code of header compression (RFC 7541, appendix B).
//!
//! The code is canonical: codes of a length are consecutive in the order of their symbols, and shorter ones come first. So the
//! lengths say it all. Codes of up to 8 bits, which are all letters and digits, are found by a table of bytes, longer ones by
//! their length.

use super::Malformed;

/// Bits of the code of each byte, and of the end of the string, which may not be written.
#[rustfmt::skip]
pub(super) const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const LONGEST: usize = 30;
const EOS: u16 = 256;

/// Of each length: the first code, how many there are, and where their symbols are in `symbols`.
struct Lengths {
    first: [u32; LONGEST + 1],
    count: [u32; LONGEST + 1],
    start: [u16; LONGEST + 1],
    symbols: [u16; 257],
}

const fn by_length() -> Lengths {
    let mut it =
        Lengths { first: [0; LONGEST + 1], count: [0; LONGEST + 1], start: [0; LONGEST + 1], symbols: [0; 257] };
    let (mut len, mut code, mut at) = (1, 0, 0);
    while len <= LONGEST {
        code <<= 1;
        it.first[len] = code;
        it.start[len] = at as u16;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == len {
                it.symbols[at] = symbol as u16;
                it.count[len] += 1;
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    it
}

static BY_LENGTH: Lengths = by_length();

/// By the next 8 bits: the symbol, and above it how many of the bits it takes; 0: more than these.
static SHORT: [u16; 256] = short();

const fn short() -> [u16; 256] {
    let lengths = by_length();
    let mut table = [0; 256];
    let mut len = 1;
    while len <= 8 {
        let mut at = 0;
        while at < lengths.count[len] {
            let symbol = lengths.symbols[lengths.start[len] as usize + at as usize];
            let first = (lengths.first[len] + at) << (8 - len);
            let mut fill = 0;
            while fill < 1 << (8 - len) {
                table[(first + fill) as usize] = symbol | (len as u16) << 8;
                fill += 1;
            }
            at += 1;
        }
        len += 1;
    }
    table
}

/// Decodes a string to the end of `into`: at most 8/5 of its length.
pub(super) fn decode(mut bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    // The next `bits` bits, from the top; zeros below.
    let (mut next, mut bits) = (0_u64, 0_u32);
    loop {
        if let Some((four, rest)) = bytes.split_first_chunk::<4>()
            && bits <= 32
        {
            next |= u64::from(u32::from_be_bytes(*four)) << (32 - bits);
            bits += 32;
            bytes = rest;
        } else {
            while let Some((byte, rest)) = bytes.split_first()
                && bits <= 56
            {
                next |= u64::from(*byte) << (56 - bits);
                bits += 8;
                bytes = rest;
            }
        }
        // As many as are there for sure.
        while bits >= LONGEST as u32 || bytes.is_empty() {
            let entry = SHORT[(next >> 56) as usize];
            let (symbol, len) = if entry != 0 { (entry & 0xff, u32::from(entry >> 8)) } else { long(next) };
            if len > bits {
                // What is left is padding: less than a byte, of ones.
                let padding = next | u64::MAX.checked_shr(bits).unwrap_or(0);
                return if bits < 8 && padding == u64::MAX { Ok(()) } else { Err(Malformed) };
            }
            if symbol == EOS {
                return Err(Malformed);
            }
            into.push(symbol as u8);
            next <<= len;
            bits -= len;
        }
    }
}

/// A symbol of more than 8 bits, and how many.
#[cold]
fn long(next: u64) -> (u16, u32) {
    for len in 10..=LONGEST {
        let code = (next >> (64 - len)) as u32;
        let at = code.wrapping_sub(BY_LENGTH.first[len]);
        if at < BY_LENGTH.count[len] {
            return (BY_LENGTH.symbols[usize::from(BY_LENGTH.start[len]) + at as usize], len as u32);
        }
    }
    // The code is complete, so one of them fits.
    (EOS, LONGEST as u32)
}

#[cfg(test)]
pub(super) fn encode(bytes: &[u8], into: &mut Vec<u8>) {
    let (mut next, mut bits) = (0_u64, 0);
    for byte in bytes {
        let len = usize::from(LENGTHS[usize::from(*byte)]);
        let start = usize::from(BY_LENGTH.start[len]);
        let symbols = &BY_LENGTH.symbols[start..start + BY_LENGTH.count[len] as usize];
        let at = symbols.iter().position(|symbol| *symbol == u16::from(*byte)).unwrap();
        next = next << len | u64::from(BY_LENGTH.first[len] + at as u32);
        bits += len;
        while bits >= 8 {
            bits -= 8;
            into.push((next >> bits) as u8);
        }
    }
    if bits > 0 {
        into.push(((next << (8 - bits)) as u8) | (0xff >> bits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(&bytes, &mut encoded);
            prop_assert_eq!(decode(&encoded, &mut decoded), Ok(()));
            prop_assert_eq!(decoded, bytes);
        }

        /// What is decoded at all is what encodes to the same: there is one code of a string.
        #[test]
        fn a_string_has_one_code(encoded in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut decoded = Vec::new();
            if decode(&encoded, &mut decoded).is_ok() {
                let mut again = Vec::new();
                encode(&decoded, &mut again);
                prop_assert_eq!(again, encoded);
            }
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones_and_the_end_is_not_written() {
        let decoded = |bytes: &[u8]| decode(bytes, &mut Vec::new());
        assert_eq!(decoded(&[]), Ok(()));
        // `0` is five zeros.
        assert_eq!(decoded(&[0b0000_0111]), Ok(()));
        assert_eq!(decoded(&[0b0000_0110]), Err(Malformed));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(Malformed));
        assert_eq!(decoded(&[0xff]), Err(Malformed));
        assert_eq!(decoded(&[0xff; 4]), Err(Malformed));
        assert_eq!(decoded(&[0xff; 8]), Err(Malformed));
    }
}
