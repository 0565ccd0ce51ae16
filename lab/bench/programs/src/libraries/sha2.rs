//! Digests of messages of all lengths (crate `sha2`; where the processor has instructions for it, by these).

use sha2::{Digest, Sha256};

use crate::{Job, Scale, checksum};

const MESSAGES: usize = 100_000;
const LONGEST: usize = 2000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(36);
    let messages: Vec<Vec<u8>> = (0..scale.of(MESSAGES))
        .map(|_| {
            let mut message = vec![0; random.usize(0..LONGEST)];
            random.fill(&mut message);
            message
        })
        .collect();
    Box::new(move || checksum(messages.iter().flat_map(|message| digest(message)).map(u64::from)))
}

fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_of_the_standard_are_met() {
        let hex = |message: &[u8]| digest(message).map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
