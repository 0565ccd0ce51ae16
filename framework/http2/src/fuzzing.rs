//! What a fuzz target and a test do to a connection: whatever a peer sends, and whatever is done here meanwhile.

use crate::fields::List;
use crate::hpack::{Decoder, Encoder, OVERHEAD};
use crate::{Connection, Event, Header, Reason, Role, Settings, Stream, frame};

/// What the steps are read from.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

const WINDOW: u32 = 65_535;

/// Drives a connection, of which the first step says the role.
///
/// # Panics
/// If it breaks a promise: that is what is looked for.
pub fn connection(steps: &[u8]) {
    let steps = &mut Steps(steps);
    let settings = Settings::new()
        .streams(3)
        .window(WINDOW)
        .connection_window(WINDOW)
        .header_list_bytes(300)
        .header_block_bytes(400)
        .continuations(2)
        .output_bytes(2000)
        .resets(20)
        .idle_frames(50);
    let role = if steps.byte().is_multiple_of(2) { Role::Server } else { Role::Client };
    let mut connection = Connection::new(role, settings);
    let known = connection.know(b"x-known", b"value").map(Header::Known);
    let known = known.unwrap_or(Header::Plain(b"x", b""));
    let mut streams: Vec<Stream> = Vec::new();
    let mut input = if role == Role::Server { crate::PREFACE.to_vec() } else { Vec::new() };
    input.extend(frame::head(0, frame::kind::SETTINGS, 0, 0));
    while !steps.0.is_empty() {
        let id = u32::from(steps.byte() % 12);
        let stream = streams.get(id as usize % streams.len().max(1)).copied();
        let mut put = |kind: u8, flags: u8, payload: &[u8]| {
            input.extend(frame::head(payload.len(), kind, flags, id));
            input.extend_from_slice(payload);
        };
        match (steps.byte() % 14, stream) {
            (0, _) => input.extend_from_slice(steps.take(20)),
            (1, _) => put(steps.byte() % 12, steps.byte(), steps.take(12)),
            (2 | 3, _) => {
                let end = steps.byte() & 1;
                let block = match (role, steps.byte() % 4) {
                    (_, 0) => steps.take(9),
                    (Role::Server, _) => &[0x83, 0x86, 0x84, 0x0f, 0x0d, 1, b'3'][..],
                    (Role::Client, _) => &[0x88],
                };
                put(frame::kind::HEADERS, 4 | end, block);
            }
            (4 | 5, _) => {
                let len = usize::from(steps.byte());
                put(frame::kind::DATA, steps.byte() & 9, &vec![3; len * 20]);
            }
            (6, _) => put(frame::kind::WINDOW_UPDATE, 0, &[0, 0, steps.byte(), steps.byte()]),
            (7, _) => put(frame::kind::RST_STREAM, 0, &[0, 0, 0, 8]),
            (8, Some(stream)) => {
                connection.respond(stream, &[Header::Plain(b":status", b"200"), known], steps.byte() & 1 == 1);
            }
            (9, Some(stream)) => {
                let len = usize::from(steps.byte()) * 100;
                drop(connection.send(stream, b"12345", vec![7; len], steps.byte() & 1 == 1));
            }
            (10, Some(stream)) => match steps.byte() % 3 {
                0 => connection.end(stream, &[known]),
                1 => connection.reset(stream, Reason::CANCEL),
                _ => connection.report_sent(stream, steps.byte() & 1 == 1),
            },
            (11, _) if role == Role::Client => {
                let headers = [
                    Header::Plain(b":method", b"POST"),
                    Header::Plain(b":scheme", b"http"),
                    Header::Plain(b":path", b"/"),
                    known,
                ];
                if let Ok(stream) = connection.open(&headers, steps.byte() & 1 == 1) {
                    streams.push(stream);
                }
            }
            (12, _) => match steps.byte() {
                0 => connection.drain(),
                1 => connection.abort(Reason::INTERNAL_ERROR, b"why"),
                2 => drop(connection.ping([7; 8])),
                3 => connection.give_up_unread(),
                _ => connection.refill(),
            },
            _ => {}
        }
        let cut = usize::from(steps.byte()) * 30;
        let mut rest = &input[..cut.min(input.len())];
        let mut given = 0;
        loop {
            let len = match connection.read(&mut rest) {
                Ok(Some(Event::Headers { stream, fields, .. })) => {
                    assert!(fields.iter().map(|it| it.name.len() + it.value.len() + 32).sum::<usize>() <= 300);
                    if role == Role::Server {
                        streams.push(stream);
                    }
                    0
                }
                Ok(Some(Event::Data { stream, bytes, .. })) => {
                    assert!(streams.contains(&stream));
                    bytes.len()
                }
                Ok(Some(Event::Reset { stream, .. })) => {
                    let at = streams.iter().position(|it| *it == stream);
                    streams.swap_remove(at.expect("it was opened, and is not over"));
                    0
                }
                Ok(Some(_)) => 0,
                Ok(None) => break,
                Err(_) => {
                    rest = &[];
                    break;
                }
            };
            given += len;
            connection.release(len);
        }
        let read = cut.min(input.len()) - rest.len();
        input.drain(..read);
        if let Some(stream) = streams.last() {
            connection.consumed(*stream, given);
        }
        let room = usize::from(steps.byte()) * 20;
        let len = connection.output(room).len().min(room);
        connection.sent(len);
        while connection.next_sent().is_some() {}
        connection.check();
        streams.retain(|stream| connection.is_open(*stream));
    }
}

/// Reads blocks of headers, one after the other: each is refused, and then nothing follows, or a list that is as long as it may be at
/// the most and that comes out of the other coder as it went in. Each block has its length before it.
///
/// # Panics
/// If it does not.
pub fn hpack(blocks: &[u8]) {
    const TABLE: usize = 200;
    const LIST: usize = 600;
    let (mut decoder, mut again) = (Decoder::new(TABLE, LIST), Decoder::new(TABLE, LIST));
    let mut encoder = Encoder::new(TABLE);
    let (mut list, mut list_again) = (List::default(), List::default());
    let steps = &mut Steps(blocks);
    while !steps.0.is_empty() {
        let len = usize::from(steps.byte());
        match decoder.decode(steps.take(len), &mut list) {
            Err(_) => return,
            Ok(Err(_)) => assert!(list.entries.is_empty(), "a part of a list that is too long"),
            Ok(Ok(())) => {
                let fields: Vec<_> = list.entries.iter().map(|entry| list.field(entry)).collect();
                let size: usize = fields.iter().map(|field| field.name.len() + field.value.len() + OVERHEAD).sum();
                assert!(size <= LIST, "a list of {size} bytes");
                let headers: Vec<_> = fields.iter().map(|field| Header::Plain(field.name, field.value)).collect();
                let mut block = Vec::new();
                encoder.begin(&mut block);
                encoder.encode(&headers, &mut block);
                assert_eq!(again.decode(&block, &mut list_again), Ok(Ok(())));
                let as_before = list_again.entries.iter().map(|entry| list_again.field(entry));
                assert!(as_before.map(|it| (it.name, it.value)).eq(fields.iter().map(|it| (it.name, it.value))));
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::seeds::replay;
    use super::{connection, hpack};
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_breaks_no_promise() {
        replay("http2", connection);
        replay("hpack", hpack);
    }

    proptest! {
        #[test]
        fn whatever_blocks_say_a_list_is_bounded_and_comes_out_as_it_went_in(
            blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8),
        ) {
            hpack(&blocks.iter().flat_map(|block| [&[block.len() as u8], &block[..]].concat()).collect::<Vec<_>>());
        }
    }
}
