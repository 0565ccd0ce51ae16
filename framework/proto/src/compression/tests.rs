use super::*;
use proptest::prelude::*;

/// Those that there are.
fn all() -> impl Iterator<Item = Encoding> {
    Encoding::ALL.into_iter().filter(|encoding| encoding.is_built_in())
}

/// Bytes that compress well, and some that don't.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let even = (any::<u8>(), 0_usize..300_000).prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![even, prop::collection::vec(0..4_u8, 0..5000), prop::collection::vec(any::<u8>(), 0..500)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_compressed_is_read_if_it_is_not_too_long(message in message()) {
        for encoding in all() {
            let Some(compressed) = encoding.compress(&message) else { continue };
            prop_assert!(compressed.len() < message.len());
            let read = encoding.decompress(&compressed, message.len());
            prop_assert!(read.as_ref() == Ok(&message));
            let most = message.len() - 1;
            prop_assert_eq!(encoding.decompress(&compressed, most), Err(Undecodable::TooLong(most)));
        }
    }

    /// Whatever is done to it, it is read, or it is said to be no message; and if it is read, it is as long as it may be.
    #[test]
    fn what_is_corrupt_is_a_message_or_a_failure(
        message in message(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..4),
        cut in any::<prop::sample::Index>(),
        more in prop::collection::vec(any::<u8>(), 0..3),
        most in 0_usize..400_000,
    ) {
        for encoding in all() {
            let Some(mut bytes) = encoding.compress(&message) else { continue };
            for (at, flip) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            let len = bytes.len();
            fuzz(&bytes, most);
            bytes.extend_from_slice(&more);
            fuzz(&bytes, most);
            bytes.truncate(cut.index(len));
            // All of it is needed.
            prop_assert!(encoding.decompress(&bytes, usize::MAX >> 1).is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), most in 0_usize..100_000) {
        fuzz(&bytes, most);
        // As far as the first block of each.
        fuzz(&[&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0][..], &bytes].concat(), most);
        fuzz(&[&[0x28, 0xb5, 0x2f, 0xfd][..], &bytes].concat(), most);
    }
}

fn fuzz(bytes: &[u8], most: usize) {
    crate::fuzzing::compression(bytes, most);
}

#[test]
fn what_says_falsely_how_long_it_is_is_corrupt() {
    let message = [7; 5000];
    let Some(gzip) = Encoding::Gzip.compress(&message) else { return };
    let saying = |length: u32| {
        let mut bytes = gzip.clone();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&length.to_le_bytes());
        Encoding::Gzip.decompress(&bytes, 10_000)
    };
    assert_eq!(saying(5000), Ok(message.to_vec()));
    for length in [0, 1, 4999, 5001, 9_999, 1 << 20, u32::MAX] {
        assert!(matches!(saying(length), Err(Undecodable::Corrupt(..))), "{length}");
    }
    assert!(matches!(saying(10_001), Err(Undecodable::TooLong(10_000))));
}

/// A frame that says nothing of its length, and repeats a byte for ever.
#[cfg(feature = "zstd")]
#[test]
fn a_frame_without_a_length_ends_where_it_may_be_no_longer() {
    // A window of 128 KiB; blocks of 128 KiB, each of one byte.
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let block = |last: u32| [&(last | 1 << 1 | (128 << 10) << 3).to_le_bytes()[..3], &[7]].concat();
    (0..99).for_each(|_| bytes.extend(block(0)));
    bytes.extend(block(1));
    let len = 100 * (128 << 10);
    assert_eq!(Encoding::Zstd.decompress(&bytes, len), Ok(vec![7; len]));
    for most in [len - 1, 1 << 20, 100, 0] {
        assert_eq!(Encoding::Zstd.decompress(&bytes, most), Err(Undecodable::TooLong(most)));
    }
}

#[cfg(feature = "zstd")]
#[test]
fn a_window_that_is_too_long_is_refused_before_there_is_memory_for_it() {
    // 2^10 times two to the power of the upper five bits.
    let frame = |exponent: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3][..], &[(1 << 1) | 1 | 8, 0, 0, 7]].concat();
    assert_eq!(Encoding::Zstd.decompress(&frame(13), 1000), Ok(vec![7]));
    for exponent in [14, 20, 21] {
        let found = Encoding::Zstd.decompress(&frame(exponent), 1000);
        assert!(matches!(&found, Err(Undecodable::Corrupt(_, why)) if why.contains("memory")), "{found:?}");
    }
}

/// Blocks that come to nothing are read a piece at a time, and no frames but those of this format.
#[cfg(feature = "zstd")]
#[test]
fn a_frame_of_empty_blocks_is_empty_and_one_of_another_kind_is_none() {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    bytes.resize(bytes.len() + 3 * 1_000_000, 0);
    assert!(
        matches!(Encoding::Zstd.decompress(&bytes, 100), Err(Undecodable::Corrupt(_, why)) if why.contains("short"))
    );
    bytes.extend([1, 0, 0]);
    assert_eq!(Encoding::Zstd.decompress(&bytes, 100), Ok(Vec::new()));
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7];
    let older = [0x27, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0];
    for other in [&skipped[..], &older] {
        assert!(matches!(Encoding::Zstd.decompress(other, 100), Err(Undecodable::Corrupt(..))));
    }
}

#[test]
fn failures_have_the_codes_that_they_stand_for() {
    let corrupt = || Undecodable::Corrupt(Encoding::Gzip, "it is cut short".to_owned());
    assert_eq!(Undecodable::TooLong(9).of_request().reason, Reason::MessageTooLarge);
    assert_eq!(Undecodable::TooLong(9).of_answer().code, Code::ResourceExhausted);
    assert_eq!((corrupt().of_request().code, corrupt().of_answer().code), (Code::Internal, Code::Internal));
    let text = corrupt().of_request().message;
    assert_eq!(text, "the request can't be read: it is not sound gzip: it is cut short");
    assert_eq!(Undecodable::NotBuiltIn(Encoding::Zstd).of_request().code, Code::Unimplemented);
}

#[cfg(feature = "compression")]
#[test]
fn an_answer_is_decompressed_when_it_is_asked_for_or_before() {
    use crate::outcome::{Answerer, Outcome};
    use crate::wire::StageName;
    let gzip = Encoding::Gzip.compress(&[7; 1000]).unwrap();
    let outcome = |body: &[u8], most: usize| Outcome {
        result: Ok(body.to_vec().into()),
        receipt: None,
        network: std::time::Duration::ZERO,
        total: std::time::Duration::ZERO,
        stage: Some(std::sync::Arc::new(Answerer {
            name: StageName::UNNAMED,
            metadata: None,
            compressed: Some((Encoding::Gzip, most)),
        })),
    };
    for before in [false, true] {
        let reply = |body: &[u8], most| {
            let mut outcome = outcome(body, most);
            if before {
                outcome.decompress();
                outcome.decompress();
            }
            outcome.into_reply().map(|reply| reply.body.into_vec()).map_err(|failure| failure.status.code)
        };
        assert_eq!(reply(&gzip, 1000), Ok(vec![7; 1000]));
        assert_eq!(reply(&gzip, 999), Err(Code::ResourceExhausted));
        assert_eq!(reply(&gzip[1..], 1000), Err(Code::Internal));
    }
}

#[test]
fn lists_name_what_is_wanted_and_known() {
    let listed = |list: &str| Encodings::listed(list.as_bytes());
    assert_eq!(Encodings::BUILT_IN, listed("gzip,zstd"));
    for list in ["", "identity", "snappy, deflate", "gzip;q=0, zstd;q=0.00", "gzi p", ",;,"] {
        assert_eq!(listed(list), Encodings::NONE, "{list}");
        assert_eq!(listed(list).preferred(), None);
    }
    for (list, encoding) in
        [("identity, GZip", Encoding::Gzip), ("zstd;q=0.5,identity", Encoding::Zstd), ("gzip;q=1.0,br", Encoding::Gzip)]
    {
        assert_eq!(listed(list).preferred(), Some(encoding).filter(|it| it.is_built_in()), "{list}");
        assert_eq!(Encoding::named(encoding.name().as_bytes()).is_some(), encoding.is_built_in());
    }
    if Encoding::Zstd.is_built_in() {
        assert_eq!(listed("gzip,zstd").preferred(), Some(Encoding::Zstd));
        assert_eq!(Encodings::BUILT_IN.list(), "identity,gzip,zstd");
    }
}
