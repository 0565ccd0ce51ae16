//! Whatever bytes a reply brings as receipts, they are refused, or receipts that are written the same again; and
//! what is done with receipts ends, however odd they are.

#![no_main]

use greenwave_proto::receipt::{Receipt, STAGES_MOST, decode_stages};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
