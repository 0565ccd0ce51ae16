//! What is looked at, and spoiled, in a packet of IPv4.

/// The last number of the address that a packet is for; `None` if that is no packet of IPv4.
pub(super) fn destination(packet: &[u8]) -> Option<u8> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    packet.get(19).copied().filter(|_| is_v4)
}

/// Flips a bit of what TCP carries, or of its head; its checksum stays as it is, so that TCP drops the packet.
pub(super) fn corrupt(packet: &mut [u8], draw: u64) {
    let head = head_bytes(packet);
    if packet.len() > head {
        let at = head + (draw >> 3) as usize % (packet.len() - head);
        packet[at] ^= 1 << (draw & 7);
    }
}

/// Changes bytes that TCP carries so that its checksum stays right: one of 16 bits gains what another one loses. Says whether
/// there was anything to change.
pub(super) fn forge(packet: &mut [u8], draw: u64) -> bool {
    let Some(body) = body(packet) else { return false };
    // Words of the checksum, which begin where the head does; those are even.
    let words = (packet.len() - body) / 2;
    if words < 2 {
        return false;
    }
    let (one, other) = (draw as usize % words, (draw >> 20) as usize % words);
    let (one, other) = (body + 2 * one, body + 2 * other);
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (first, second) = (word(packet, one), word(packet, other));
    let by = ((draw >> 40) as u16 % 255 + 1).min(0xfffe - first.min(0xfffe)).min(second.saturating_sub(1));
    if one == other || by == 0 {
        return false;
    }
    packet[one..one + 2].copy_from_slice(&(first + by).to_be_bytes());
    packet[other..other + 2].copy_from_slice(&(second - by).to_be_bytes());
    true
}

fn head_bytes(packet: &[u8]) -> usize {
    packet.first().map_or(0, |first| usize::from(first & 0xf) * 4)
}

/// Where TCP's bytes begin; `None` if it isn't TCP or has none.
fn body(packet: &[u8]) -> Option<usize> {
    const TCP: u8 = 6;
    let head = head_bytes(packet);
    let offset = packet.get(head + 12).filter(|_| packet.get(9) == Some(&TCP))?;
    let body = head + usize::from(offset >> 4) * 4;
    (body < packet.len()).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of TCP to 10.0.0.7 with these bytes.
    fn packet(bytes: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[9], packet[19], packet[32]) = (0x45, 6, 7, 0x50);
        packet.extend(bytes);
        packet
    }

    fn sum(packet: &[u8]) -> u64 {
        let words = packet[20..].chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
        words.sum::<u64>() % 0xffff
    }

    #[test]
    fn the_destination_is_read_of_packets_of_version_4_alone() {
        assert_eq!(destination(&packet(b"")), Some(7));
        assert_eq!(destination(&[0x60; 40]), None);
        assert_eq!(destination(b""), None);
    }

    #[test]
    fn what_is_forged_differs_and_has_the_same_sum() {
        let whole = packet(b"what one replica says to another");
        let mut forged = 0;
        for draw in (0..1_000_u64).map(|draw| draw.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let mut spoiled = whole.clone();
            if forge(&mut spoiled, draw) {
                forged += 1;
                assert_ne!(spoiled, whole);
                assert_eq!((&spoiled[..40], sum(&spoiled)), (&whole[..40], sum(&whole)));
            }
        }
        assert!(forged > 500, "{forged}");
        assert!(!forge(&mut packet(b""), 1));
    }

    #[test]
    fn what_is_corrupted_has_another_sum() {
        let whole = packet(b"bytes");
        for draw in 0..500 {
            let mut spoiled = whole.clone();
            corrupt(&mut spoiled, draw);
            assert_ne!(sum(&spoiled), sum(&whole));
        }
        corrupt(&mut [], 1);
        forge(&mut [0x4f], 1);
    }
}
