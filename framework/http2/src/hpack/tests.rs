use super::*;
use crate::fields::{Header, List};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn read(list: &List) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    list.entries.iter().map(|entry| list.field(entry)).map(|field| (text(field.name), text(field.value))).collect()
}

fn check(decoder: &mut Decoder, hex: &str, expected: &[(&str, &str)], size: usize) {
    let mut list = List::default();
    decoder.decode(&bytes(hex), &mut list).unwrap().unwrap();
    let expected: Vec<_> = expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    assert_eq!(read(&list), expected);
    assert_eq!(decoder.table_size(), size);
    assert!(list.entries.iter().all(|entry| entry.is_valid));
}

/// RFC 7541, C.2.
#[test]
fn single_headers_of_the_rfc() {
    let all = [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ("custom-key", "custom-header"), 55),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path"), 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret"), 0),
        ("82", (":method", "GET"), 0),
    ];
    for (hex, expected, size) in all {
        check(&mut Decoder::new(4096, 4096), hex, &[expected], size);
    }
}

/// RFC 7541, C.3 and C.4.
#[test]
fn requests_of_the_rfc() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for [first, second, third] in [plain, coded] {
        let decoder = &mut Decoder::new(4096, 4096);
        let mut expected =
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        check(decoder, first, &expected, 57);
        expected.push(("cache-control", "no-cache"));
        check(decoder, second, &expected, 110);
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        check(decoder, third, &expected, 164);
    }
}

/// RFC 7541, C.5 and C.6: entries make way for others.
#[test]
fn responses_of_the_rfc() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f \
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b \
         2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
         8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for [first, second, third] in [plain, coded] {
        let decoder = &mut Decoder::new(4096, 4096);
        // The table is of 256 bytes.
        check(decoder, "3fe101", &[], 0);
        let mut expected = [
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ];
        check(decoder, first, &expected, 222);
        expected[0] = (":status", "307");
        check(decoder, second, &expected, 222);
        let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
        let expected = [
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", "https://www.example.com"),
            ("content-encoding", "gzip"),
            cookie,
        ];
        check(decoder, third, &expected, 215);
    }
}

#[test]
fn what_is_sent_often_takes_a_byte() {
    let mut encoder = Encoder::new(4096);
    let known = [(&b":status"[..], &b"200"[..]), (b"content-type", b"application/grpc"), (b"grpc-status", b"0")];
    let known = known.map(|(name, value)| Header::Known(encoder.know(name, value).unwrap()));
    let mut block = |headers: &[Header<'_>]| {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.encode(headers, &mut block);
        block
    };
    assert!(block(&known).len() > 20);
    assert_eq!(block(&known), [0x88, 0xbf, 0xbe]);
}

/// A peer may allow a smaller table, or none, and another later.
#[test]
fn a_smaller_table_is_said_before_it_is_used() {
    let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::new(4096, 4096));
    let known = encoder.know(b"x-known", b"value").unwrap();
    let mut list = List::default();
    let mut pass = |encoder: &mut Encoder| {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.encode(&[Header::Known(known)], &mut block);
        decoder.decode(&block, &mut list).unwrap().unwrap();
        assert_eq!(read(&list), [("x-known".to_owned(), "value".to_owned())]);
        block
    };
    assert!(pass(&mut encoder).len() > 1);
    assert_eq!(pass(&mut encoder), [0xbe]);
    encoder.allow(0);
    encoder.allow(100);
    let block = pass(&mut encoder);
    assert_eq!(block[..4], [0x20, 0x3f, 69, 0x40]);
    assert_eq!(pass(&mut encoder), [0xbe]);
    encoder.allow(0);
    assert_eq!(pass(&mut encoder)[..2], [0x20, 0]);
}

#[test]
fn tables_are_no_larger_than_was_agreed_and_change_in_front() {
    let mut decoder = Decoder::new(4096, 4096);
    let mut decode = |bytes: &[u8]| decoder.decode(bytes, &mut List::default());
    assert_eq!(decode(&[0x3f, 0xe1, 0x1f]), Ok(Ok(())), "4096");
    assert_eq!(decode(&[0x3f, 0xe2, 0x1f]), Err(Malformed), "4097");
    assert_eq!(decode(&[0x82, 0x20]), Err(Malformed));
    assert_eq!(decode(&[0x80]), Err(Malformed));
    assert_eq!(decode(&[0xbe]), Err(Malformed), "there is no such entry");
    assert_eq!(decode(&[0x40, 1]), Err(Malformed));
}

/// A large entry that is referred to again and again: what is kept of it is bounded, and the tables still agree.
#[test]
fn a_list_that_is_too_long_is_not_kept() {
    let mut decoder = Decoder::new(4096, 10_000);
    let mut list = List::default();
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
    block.resize(block.len() + 4000, b'x');
    block.resize(block.len() + 5000, 0xbe);
    assert_eq!(decoder.decode(&block, &mut list), Ok(Err(decoder::TooLong)));
    assert!(list.bytes.capacity() < 40_000, "{}", list.bytes.capacity());
    assert_eq!(decoder.decode(&[0xbe], &mut list), Ok(Ok(())));
    assert_eq!(list.entries.len(), 1);
}

#[test]
fn the_same_block_is_decoded_once_and_not_if_it_says_something_else_now() {
    let mut decoder = Decoder::new(4096, 4096);
    let mut list = List::default();
    let mut decode = |block: &[u8]| {
        decoder.decode(block, &mut list).unwrap().unwrap();
        (list.as_before, list.field(&list.entries[0]).value.to_vec())
    };
    let insert = |value| [0x40, 1, b'a', 1, value];
    assert_eq!(decode(&insert(b'1')), (false, b"1".to_vec()));
    assert_eq!(decode(&insert(b'1')), (false, b"1".to_vec()), "it is inserted again");
    assert_eq!(decode(&[0xbe]), (false, b"1".to_vec()));
    assert_eq!(decode(&[0xbe]), (true, b"1".to_vec()));
    assert_eq!(decode(&insert(b'2')), (false, b"2".to_vec()));
    assert_eq!(decode(&[0xbe]), (false, b"2".to_vec()));
}

fn headers() -> impl Strategy<Value = Vec<(String, String, u8)>> {
    let name = prop_oneof!["[a-z]{1,9}(-[a-z]{1,9})?", Just("content-type".to_owned()), Just(":path".to_owned())];
    prop::collection::vec((name, "[ -~]{0,60}", 0_u8..3), 0..8)
}

proptest! {
    /// What one side encodes the other decodes, whatever sizes of the table are agreed on meanwhile.
    #[test]
    fn blocks_come_in_as_they_went_out(
        blocks in prop::collection::vec((headers(), prop::option::of(0_usize..300), any::<bool>()), 0..30),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(200), Decoder::new(4096, 1 << 20));
        let mut list = List::default();
        let mut known = std::collections::HashMap::new();
        for (headers, allow, later) in blocks {
            if let Some(most) = allow {
                encoder.allow(most);
            }
            let all: Vec<Header<'_>> = headers.iter().map(|(name, value, how)| match how {
                0 => Header::Plain(name.as_bytes(), value.as_bytes()),
                1 => Header::Sensitive(name.as_bytes(), value.as_bytes()),
                _ => Header::Known(*known.entry((name.clone(), value.clone())).or_insert_with(|| {
                    encoder.know(name.as_bytes(), value.as_bytes()).unwrap()
                })),
            }).collect();
            let mut block = Vec::new();
            let mut other = Vec::new();
            encoder.encode_for_later(&all, &mut other);
            encoder.begin(&mut block);
            if later {
                block.extend_from_slice(&other);
            } else {
                encoder.encode(&all, &mut block);
            }
            prop_assert_eq!(decoder.decode(&block, &mut list), Ok(Ok(())));
            let expected: Vec<_> = headers.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect();
            prop_assert_eq!(read(&list), expected);
        }
    }

    #[test]
    fn whatever_arrives_does_not_panic(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
    ) {
        let (mut decoder, mut list) = (Decoder::new(4096, 500), List::default());
        for block in blocks {
            let _ = decoder.decode(&block, &mut list);
            prop_assert!(list.bytes.len() <= 4096 + 500);
            decoder.table_size();
        }
    }
}
