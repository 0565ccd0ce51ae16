//! Whatever a chunk holds, it is refused, or a frame that is written the same again.

#![no_main]

use greenwave_proto::wire::{Frame, Meta, checksum, push_meta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|chunk: &[u8]| {
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
});
