//! HPACK as far as a load generator needs it: of what comes it wants the code alone, but has to keep the table that all
//! fields are in (RFC 7541).
//!
//! Almost all answers have the same block of bytes as the one before. While the table is as it was, so is what they say.

use std::collections::VecDeque;

use anyhow::{Context, ensure};

use super::huffman;

/// What the table may hold: the protocol's own value, which a client of gRPC leaves as it is.
const TABLE: usize = 4096;
/// What each entry counts beside its name and value.
const ENTRY: usize = 32;

/// Names of the static table that answers have.
const STATIC: [&str; 61] = [
    ":authority",
    ":method",
    ":method",
    ":path",
    ":path",
    ":scheme",
    ":scheme",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "accept",
    "access-control-allow-origin",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
];
/// Where the static table has the status 200, the first that it has.
const STATUS_200: usize = 8;

/// What a block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The code that a call ended with.
    pub(super) code: Option<u32>,
    /// Whether there is an HTTP status other than 200.
    pub(super) refused: bool,
}

/// The decoder of a connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first: names and values.
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    most: usize,
    /// A block that changed nothing, and what it says.
    last: Vec<u8>,
    said: Said,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { table: VecDeque::new(), size: 0, most: TABLE, last: Vec::new(), said: Said::default() }
    }

    /// Decodes a block.
    ///
    /// # Errors
    /// When it is none.
    #[inline]
    pub(super) fn decode(&mut self, block: &[u8]) -> anyhow::Result<Said> {
        if block == self.last && !block.is_empty() {
            return Ok(self.said);
        }
        self.decode_anew(block)
    }

    fn decode_anew(&mut self, block: &[u8]) -> anyhow::Result<Said> {
        let (mut rest, mut said, mut changes) = (block, Said::default(), false);
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    match index.checked_sub(STATIC.len() + 1) {
                        Some(at) => {
                            let (name, value) = self.table.get(at).context("an index beyond the table")?;
                            said.note(name, value)?;
                        }
                        None => said.refused |= index > STATUS_200 && STATIC[index - 1] == ":status",
                    }
                }
                0x20..0x40 => {
                    changes = true;
                    self.most = integer(&mut rest, 5)?.min(TABLE);
                    self.make_room(0);
                }
                _ => {
                    let is_kept = first >= 0x40;
                    let index = integer(&mut rest, if is_kept { 6 } else { 4 })?;
                    let name = match index.checked_sub(STATIC.len() + 1) {
                        _ if index == 0 => string(&mut rest)?,
                        Some(at) => self.table.get(at).context("an index beyond the table")?.0.clone(),
                        None => STATIC[index - 1].as_bytes().to_vec(),
                    };
                    let value = string(&mut rest)?;
                    said.note(&name, &value)?;
                    if is_kept {
                        changes = true;
                        self.keep(name, value);
                    }
                }
            }
        }
        self.last.clear();
        if !changes {
            self.last.extend_from_slice(block);
            self.said = said;
        }
        Ok(said)
    }

    fn keep(&mut self, name: Vec<u8>, value: Vec<u8>) {
        let size = name.len() + value.len() + ENTRY;
        self.make_room(size);
        if size <= self.most {
            self.size += size;
            self.table.push_front((name, value));
        }
    }

    fn make_room(&mut self, size: usize) {
        while self.size + size > self.most {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + ENTRY;
        }
    }
}

impl Said {
    fn note(&mut self, name: &[u8], value: &[u8]) -> anyhow::Result<()> {
        match name {
            b"grpc-status" => self.code = Some(std::str::from_utf8(value)?.parse()?),
            b":status" => self.refused = value != b"200",
            _ => {}
        }
        Ok(())
    }
}

/// An integer behind a prefix of so many bits.
fn integer(rest: &mut &[u8], bits: u32) -> anyhow::Result<usize> {
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(take(rest)?) & most;
    if value < most {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = take(rest)?;
        value += usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    anyhow::bail!("an integer of more than four bytes")
}

fn string(rest: &mut &[u8]) -> anyhow::Result<Vec<u8>> {
    let is_coded = rest.first().is_some_and(|first| *first >= 0x80);
    let length = integer(rest, 7)?;
    ensure!(length <= rest.len(), "a string is cut off");
    let (string, after) = rest.split_at(length);
    *rest = after;
    if is_coded {
        huffman::decode(string).context("a string is not coded as it should be")
    } else {
        Ok(string.to_vec())
    }
}

fn take(rest: &mut &[u8]) -> anyhow::Result<u8> {
    let (first, after) = rest.split_first().context("a block is cut off")?;
    *rest = after;
    Ok(*first)
}

/// What a connection sends: fields that were said once are an index from then on, as with every client.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    /// Which field was kept as the how many-th.
    kept: Vec<usize>,
    count: usize,
}

impl Encoder {
    /// Writes field `number` of some that are alike in all blocks, each with a name and a value.
    pub(super) fn field(&mut self, number: usize, name: &str, value: &str, out: &mut Vec<u8>) {
        if self.kept.len() <= number {
            self.kept.resize(number + 1, 0);
        }
        match self.kept[number] {
            0 => {
                self.count += 1;
                self.kept[number] = self.count;
                out.push(0x40);
                plain(name, out);
                plain(value, out);
            }
            // The newest has the lowest index.
            kept => push_integer(STATIC.len() + 1 + self.count - kept, 7, 0x80, out),
        }
    }

    /// Writes a field whose value is another each time. Its name is that of field `number`, which was kept.
    pub(super) fn changing(&mut self, number: usize, name: &str, value: &str, out: &mut Vec<u8>) {
        match self.kept.get(number) {
            None | Some(0) => self.field(number, name, value, out),
            Some(kept) => {
                push_integer(STATIC.len() + 1 + self.count - kept, 4, 0, out);
                plain(value, out);
            }
        }
    }
}

fn plain(text: &str, out: &mut Vec<u8>) {
    push_integer(text.len(), 7, 0, out);
    out.extend_from_slice(text.as_bytes());
}

fn push_integer(value: usize, bits: u32, mark: u8, out: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    if value < most {
        out.push(mark | value as u8);
        return;
    }
    out.push(mark | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_as_a_literal_and_by_its_index_from_then_on() {
        let mut decoder = Decoder::new();
        let mut block = vec![0x88, 0x40];
        plain("grpc-status", &mut block);
        plain("0", &mut block);
        let ok = Said { code: Some(0), refused: false };
        assert_eq!(decoder.decode(&block).unwrap(), ok);
        assert_eq!(decoder.decode(&[0xbe]).unwrap(), ok);
        assert_eq!(decoder.decode(&[0xbe]).unwrap(), ok, "from memory");
        // The same index is another field once there is a newer one.
        decoder.decode(&[0x40, 1, b'x', 1, b'y']).unwrap();
        assert_eq!(decoder.decode(&[0xbe]).unwrap(), Said::default());
        assert_eq!(decoder.decode(&[0xbf]).unwrap(), ok);
    }

    #[test]
    fn a_coded_string_is_read() {
        // `grpc-status: 13`, the value in Huffman's code: 00001 011001 and ones.
        let mut block = vec![0x00];
        plain("grpc-status", &mut block);
        block.extend([0x82, 0b0000_1011, 0b0011_1111]);
        assert_eq!(Decoder::new().decode(&block).unwrap().code, Some(13));
    }

    #[test]
    fn another_status_than_200_is_no_answer() {
        assert!(Decoder::new().decode(&[0x8d]).unwrap().refused);
        assert!(Decoder::new().decode(&[0x08, 3, b'4', b'1', b'5']).unwrap().refused);
    }

    #[test]
    fn the_table_has_a_size() {
        let mut decoder = Decoder::new();
        for _ in 0..200 {
            let mut block = vec![0x40];
            plain("name", &mut block);
            plain(&"v".repeat(64), &mut block);
            decoder.decode(&block).unwrap();
        }
        assert_eq!(decoder.table.len(), TABLE / 100);
        decoder.decode(&[0x20]).unwrap();
        assert!(decoder.table.is_empty());
        assert!(decoder.decode(&[0xbe]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new());
        for round in 0..3 {
            let mut block = Vec::new();
            encoder.field(0, "grpc-status", "7", &mut block);
            encoder.changing(1, "grpc-timeout", &format!("{round}m"), &mut block);
            encoder.field(2, "te", "trailers", &mut block);
            assert_eq!(decoder.decode(&block).unwrap().code, Some(7));
        }
        assert_eq!(decoder.table.iter().map(|(name, _)| name.len()).collect::<Vec<_>>(), [2, 12, 11]);
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for block in [&[0x40, 3, b'a'][..], &[0x40], &[0xff, 0xff], &[0x80 | 70], &[0xff; 12]] {
            assert!(Decoder::new().decode(block).is_err(), "{block:?}");
        }
    }
}
