//! What rows hold: the name of a write, and bytes that follow from it, so that damage shows.

/// Bytes of the longest, some blocks of a disk.
const LONGEST: usize = 6_000;

/// The bytes of a value.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    // Most are short, some are long.
    let draw = name.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    let length = if draw.is_multiple_of(4) { draw / 4 % LONGEST } else { draw % 60 };
    let fill = name.bytes().cycle().zip(0_u8..=u8::MAX).map(|(byte, at)| byte ^ at);
    let mut bytes = format!("{name}|").into_bytes();
    while bytes.len() < length {
        bytes.extend(fill.clone().take(length - bytes.len()));
    }
    bytes
}

/// The name of a value; of one that nobody has written, another name than any write has.
pub(crate) fn name(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == b'|').next().map(String::from_utf8_lossy).unwrap_or_default();
    if self::bytes(&name) == bytes { name.into_owned() } else { format!("damaged: {}", bytes.escape_ascii()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_bytes_and_a_damaged_one_is_none() {
        for number in 0..200 {
            let written = format!("3-{number}");
            let bytes = bytes(&written);
            assert_eq!(name(&bytes), written);
            for at in [0, bytes.len() / 2, bytes.len() - 1] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(name(&damaged) != written);
            }
            assert!(name(&bytes[..bytes.len() - 1]) != written);
        }
    }
}
