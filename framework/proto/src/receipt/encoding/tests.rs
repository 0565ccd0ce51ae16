use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

fn span() -> impl Strategy<Value = Duration> {
    // As many digits as not: short varints are as likely as long ones.
    (any::<u64>(), 0..64_u32).prop_map(|(nanos, shift)| Duration::from_nanos(nanos >> shift))
}

fn stage() -> impl Strategy<Value = StageReceipt> {
    let who = ("[a-z/é]{0,32}", any::<Option<u16>>(), select(&Code::ALL[..]));
    (who, span(), [span(), span(), span(), span()]).prop_map(
        |((name, branch, status), sent_after, [network, queue, service, total])| StageReceipt {
            stage: StageName::new(&name).expect("at most 64 bytes"),
            branch,
            depth: 0,
            sent_after,
            network,
            queue,
            service,
            total,
            status,
        },
    )
}

/// A tree of up to `most` stages.
pub(in crate::receipt) fn receipt(most: usize) -> impl Strategy<Value = Receipt> {
    let stages = vec((stage(), any::<Index>()), 0..=most);
    (stages, [span(), span(), span()], any::<u16>()).prop_map(|(stages, [queue, service, total], omitted)| {
        let mut children: Vec<StageReceipt> = Vec::new();
        for (stage, depth) in stages {
            let deepest = children.last().map_or(0, |before| usize::from(before.depth) + 1);
            children.push(StageReceipt { depth: depth.index(deepest + 1) as u8, ..stage });
        }
        Receipt { queue, service, total, children, omitted: omitted.into() }
    })
}

fn encoded(receipt: &Receipt, room: usize) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    let len = receipt.encode_stages(room, &mut bytes);
    let bytes = bytes.strip_prefix(b"before").expect("what was there stays").to_vec();
    assert_eq!(bytes.len(), len);
    bytes
}

proptest! {
    #[test]
    fn receipts_come_back_as_they_were_written(receipt in receipt(STAGES_MOST)) {
        let bytes = encoded(&receipt, usize::MAX);
        prop_assert_eq!(decode_stages(&bytes), Ok((receipt.children, receipt.omitted)));
    }

    #[test]
    fn bytes_that_decode_are_the_only_way_to_write_their_receipts(bytes in vec(prop_oneof![0_u8..4, any::<u8>()], 0..80)) {
        if let Ok((children, omitted)) = decode_stages(&bytes) {
            let receipt = Receipt { children, omitted, ..Receipt::default() };
            prop_assert_eq!(encoded(&receipt, usize::MAX), bytes);
        }
    }

    #[test]
    fn receipts_cut_within_an_entry_are_refused(receipt in receipt(8), at: Index) {
        let bytes = encoded(&receipt, usize::MAX);
        prop_assume!(!receipt.children.is_empty());
        let at = at.index(bytes.len());
        match decode_stages(&bytes[..at]) {
            Err(_) => {}
            Ok((children, _)) => prop_assert_eq!(&children[..], &receipt.children[..children.len()]),
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_counted(receipt in receipt(150), room in 0_usize..9000) {
        let bytes = encoded(&receipt, room);
        prop_assert!(bytes.len() <= room.min(RECEIPT_BYTES_MOST));
        let (children, omitted) = decode_stages(&bytes).unwrap();
        prop_assert!(children.len() <= STAGES_MOST);
        if !bytes.is_empty() {
            let stages = receipt.children.len() + receipt.omitted as usize;
            prop_assert_eq!(children.len() + omitted as usize, stages);
        }
    }
}

#[test]
fn the_longest_receipt_fits_in_a_reply() {
    let stage = StageReceipt {
        stage: StageName::new(&"x".repeat(64)).unwrap(),
        branch: Some(u16::MAX),
        depth: 0,
        sent_after: Duration::MAX,
        network: Duration::MAX,
        queue: Duration::MAX,
        service: Duration::MAX,
        total: Duration::MAX,
        status: Code::Ok,
    };
    let receipt = Receipt { children: vec![stage; STAGES_MOST], omitted: u32::MAX, ..Receipt::default() };
    let bytes = encoded(&receipt, usize::MAX);
    assert_eq!(bytes.len(), 5 + STAGES_MOST * (3 + 64 + 2 + 5 * 10));
    let (children, omitted) = decode_stages(&bytes).unwrap();
    assert_eq!((children.len(), omitted), (STAGES_MOST, u32::MAX));
    assert_eq!(children[0].total, Duration::from_nanos(u64::MAX));
}

#[test]
fn a_stage_without_a_caller_is_refused() {
    let entry = |depth| [depth, 0, 0, 0, 0, 0, 0, 0];
    let bytes = [&[0][..], &entry(0), &entry(2)].concat();
    let error = decode_stages(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "receipts, byte 9: the depth is 2, expected at most 1: one more than that of the stage before"
    );
    assert_eq!(decode_stages(&[0]).unwrap_err().problem, ReceiptProblem::Nothing);
}

#[test]
fn a_number_longer_than_it_need_be_is_refused() {
    let overlong = [0x80, 0x00];
    let beyond_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert_eq!(decode_stages(&overlong).unwrap_err().problem, ReceiptProblem::Varint);
    assert_eq!(decode_stages(&beyond_64_bits).unwrap_err().problem, ReceiptProblem::Varint);
    let beyond_32_bits = [0x80, 0x80, 0x80, 0x80, 0x10];
    assert_eq!(decode_stages(&beyond_32_bits).unwrap_err().problem, ReceiptProblem::Omitted { found: 1 << 32 });
}
