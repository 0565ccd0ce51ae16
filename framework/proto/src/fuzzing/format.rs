//! What reads the format itself, fed with whatever.

use crate::receipt::{Receipt, STAGES_MOST, decode_stages};
use crate::wire::{Frame, Meta, checksum, push_meta};

/// Reads bytes as a chunk, with and without checksum: it is refused, or a frame that is written the same again.
///
/// # Panics
/// If it is not.
pub fn frame(chunk: &[u8]) {
    for crc in [false, true] {
        if let Ok(frame) = Frame::parse(chunk, crc) {
            assert_eq!(frame.encode(crc), chunk);
        }
    }
    // A checksum that is right by accident is not to be expected: give the chunk one.
    let with_checksum = [chunk, &checksum(&[chunk])].concat();
    assert_eq!(Frame::parse(&with_checksum, true), Frame::parse(chunk, false));

    if let Ok(Frame::Call(call)) = Frame::parse(chunk, false)
        && let Ok(meta) = Meta::parse(call.meta)
    {
        let mut again = Vec::new();
        meta.into_iter().for_each(|(name, value)| push_meta(&mut again, name, value).expect("they were read"));
        assert_eq!(again, call.meta);
    }
}

/// Reads bytes as the stages of a receipt: they are refused, or can be reckoned with, drawn, cut down and passed on.
///
/// # Panics
/// If they can't.
pub fn receipt(bytes: &[u8]) {
    let Ok((children, omitted)) = decode_stages(bytes) else { return };
    let mut receipt = Receipt { children, omitted, ..Receipt::default() };
    let mut again = Vec::new();
    receipt.encode_stages(usize::MAX, &mut again);
    assert_eq!(again, bytes);

    let path = receipt.critical_path();
    assert!(receipt.costliest().is_none_or(|stage| stage.network + stage.queue + stage.service <= path));
    let _ = receipt.waterfall("root", 80).to_string();

    let stages = receipt.children.len();
    receipt.trim(stages / 2, bytes.len());
    let left_out = (stages - receipt.children.len()) as u32;
    assert_eq!(receipt.omitted, omitted.saturating_add(left_out));
    let mut parent = Receipt::default();
    for stage in receipt.children.clone() {
        parent.add(stage, &receipt);
    }
    assert!(parent.children.len() <= 2 * STAGES_MOST);
}
