//! The same work twice, once without probes in any build, so that what they cost can be timed in a program that has them.
//!
//! The work is of the kinds that code spends its time on: a loop that counts to a limit, one that ends when its data say so, and
//! branches by what is found. It calls nobody, so that all of it is in the one function or in the other.

macro_rules! work {
    ($times:ident) => {{
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut table = [0_u8; 256];
        let mut found = 0_u64;
        for _ in 0..$times {
            for slot in &mut table {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *slot = (state >> 32) as u8;
            }
            let mut at = 0_usize;
            // As far as the data have it.
            while at < table.len() && table[at] != 0 {
                found = match table[at] {
                    byte @ 48..=57 => found.wrapping_mul(10).wrapping_add(u64::from(byte) - 48),
                    byte @ 97..=122 => found.rotate_left(5) ^ u64::from(byte),
                    92 => found.wrapping_add(u64::from(table[(at + 1) % 256])),
                    _ => found.wrapping_add(1),
                };
                at += 1;
            }
        }
        found ^ state
    }};
}

/// So many rounds of the work, with probes if `cargo quanta` has built the program.
#[inline(never)]
pub fn with_probes(times: u64) -> u64 {
    work!(times)
}

/// The same without probes.
#[unsafe(link_section = ".text.quanta.unprobed")]
#[inline(never)]
pub fn without_probes(times: u64) -> u64 {
    work!(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_do_the_same() {
        assert_eq!(with_probes(100), without_probes(100));
        assert_ne!(with_probes(100), with_probes(101));
    }
}
