//! Huffman's code of header compression (RFC 7541, appendix B), to read.
//!
//! It is canonical: codes of a length follow one another in the order of their symbols, the shorter ones first. So the lengths
//! are all there is to say of it.

use std::sync::LazyLock;

/// The length of each byte's code in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const LONGEST: usize = 30;

/// The symbols by the length of their codes, and the first code of each length.
static CODE: LazyLock<([Vec<u8>; LONGEST + 1], [u32; LONGEST + 1])> = LazyLock::new(|| {
    let mut symbols: [Vec<u8>; LONGEST + 1] = Default::default();
    for (symbol, length) in (0..=255).zip(LENGTHS) {
        symbols[usize::from(length)].push(symbol);
    }
    let (mut first, mut code) = ([0; LONGEST + 1], 0_u32);
    for length in 1..=LONGEST {
        code <<= 1;
        first[length] = code;
        code += symbols[length].len() as u32;
    }
    (symbols, first)
});

/// The string; `None` if it is none.
pub(super) fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    let (symbols, first) = &*CODE;
    let (mut string, mut code, mut length) = (Vec::new(), 0_u32, 0);
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        if length > LONGEST {
            return None;
        }
        let found = code.checked_sub(first[length]).and_then(|at| symbols[length].get(at as usize));
        if let Some(symbol) = found {
            string.push(*symbol);
            (code, length) = (0, 0);
        }
    }
    // What is left are the first bits of a long code, all ones.
    (length < 8 && code == (1 << length) - 1).then_some(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_own_examples_are_read() {
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&coded).unwrap(), b"www.example.com");
        let coded = [0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        assert_eq!(decode(&coded).unwrap(), b"no-cache");
    }

    #[test]
    fn what_ends_in_other_bits_than_ones_is_none() {
        assert_eq!(decode(&[0x00]), None);
        assert_eq!(decode(&[0xff; 4]), None);
    }
}
