//! What a peer may not do, and what comes of it.

use crate::frame::{head, kind};
use crate::{Connection, Error, Event, Header, PREFACE, Reason, Role, Settings};
use proptest::prelude::*;

/// A request without a body.
const REQUEST: &[u8] = &[0x83, 0x86, 0x84];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&head(payload.len(), kind, flags, stream)[..], payload].concat()
}

fn server(settings: Settings) -> Connection {
    let mut server = Connection::new(Role::Server, settings);
    read(&mut server, &[&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[])].concat()).unwrap();
    output(&mut server);
    server
}

fn output(connection: &mut Connection) -> Vec<u8> {
    let output = connection.output(usize::MAX).to_vec();
    connection.sent(output.len());
    output
}

/// Reads all, and tells of each event in a word.
fn read(connection: &mut Connection, input: &[u8]) -> Result<Vec<String>, Error> {
    let mut events = Vec::new();
    read_into(connection, input, &mut events).map(|()| events)
}

fn read_into(connection: &mut Connection, mut input: &[u8], events: &mut Vec<String>) -> Result<(), Error> {
    while let Some(event) = connection.read(&mut input)? {
        events.push(match event {
            Event::Headers { stream, end, .. } => format!("headers {} {end}", stream.id()),
            Event::Data { stream, bytes, end } => format!("data {} {} {end}", stream.id(), bytes.len()),
            Event::Trailers { stream, .. } => format!("trailers {}", stream.id()),
            Event::Reset { stream, reason, by_peer } => format!("reset {} {reason} {by_peer}", stream.id()),
            Event::Refused { reason } => format!("refused {reason}"),
            other => format!("{other:?}"),
        });
    }
    Ok(())
}

fn is_calmed(result: &Result<Vec<String>, Error>) -> bool {
    result.as_ref().is_err_and(|error| error.reason == Reason::ENHANCE_YOUR_CALM)
}

/// Sends the same again and again: how often it is taken.
fn flood(server: &mut Connection, most: usize, mut next: impl FnMut(u32) -> Vec<u8>) -> usize {
    for round in 0..most {
        let result = read(server, &next(round as u32));
        output(server);
        if result.is_err() {
            assert!(is_calmed(&result), "{result:?}");
            return round;
        }
    }
    most
}

#[test]
fn streams_that_are_reset_are_as_many_as_was_set_until_they_are_refilled() {
    let mut server = server(Settings::new().resets(100));
    let mut id = 1;
    let mut open_and_reset = |_| {
        let both = [frame(kind::HEADERS, 5, id, REQUEST), frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])].concat();
        id += 2;
        both
    };
    assert_eq!(flood(&mut server, 100, &mut open_and_reset), 100);
    server.refill();
    assert_eq!(flood(&mut server, 1000, open_and_reset), 100);
}

#[test]
fn frames_that_bring_nothing_are_as_many_as_was_set() {
    let settings = Settings::new().idle_frames(500);
    let empty = |server: &mut Connection| {
        read(server, &frame(kind::HEADERS, 4, 1, REQUEST)).unwrap();
    };
    for (kind, stream, payload) in [
        (kind::PING, 0, &[0; 8][..]),
        (kind::SETTINGS, 0, &[]),
        (kind::PRIORITY, 3, &[0; 5]),
        (kind::WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        (kind::DATA, 1, &[]),
        (77, 0, &[]),
    ] {
        let mut server = server(settings);
        empty(&mut server);
        let taken = flood(&mut server, 1000, |_| frame(kind, 0, stream, payload));
        assert!((498..=500).contains(&taken), "{taken} of kind {kind}");
    }
}

#[test]
fn headers_in_many_pieces_or_without_an_end_are_not_taken() {
    let mut first = server(Settings::new().continuations(8));
    read(&mut first, &frame(kind::HEADERS, 0, 1, &[])).unwrap();
    assert!(first.is_mid_frame());
    assert_eq!(flood(&mut first, 100, |_| frame(kind::CONTINUATION, 0, 1, &[])), 8);
    let mut second = server(Settings::new().header_block_bytes(20_000));
    read(&mut second, &frame(kind::HEADERS, 0, 1, &[0x82; 16_000])).unwrap();
    assert!(is_calmed(&read(&mut second, &frame(kind::CONTINUATION, 0, 1, &[0x82; 16_000]))));
}

/// A large header, referred to again and again.
#[test]
fn a_list_that_grows_as_it_is_decoded_is_not_kept_and_the_connection_goes_on() {
    let mut server = server(Settings::new().header_list_bytes(10_000));
    let mut block = [REQUEST, &[0x40, 1, b'a', 0x7f, 0xa1, 0x1e]].concat();
    block.resize(block.len() + 4000, b'x');
    block.resize(block.len() + 5000, 0xbe);
    let events = read(&mut server, &frame(kind::HEADERS, 5, 1, &block)).unwrap();
    assert_eq!(events, ["refused ENHANCE_YOUR_CALM"]);
    assert_eq!(read(&mut server, &frame(kind::HEADERS, 5, 3, REQUEST)).unwrap(), ["headers 3 true"]);
}

#[test]
fn nothing_is_taken_in_from_a_peer_that_reads_nothing() {
    let mut server = server(Settings::new().output_bytes(1000).idle_frames(u32::MAX));
    let pings = frame(kind::PING, 0, 0, &[7; 8]).repeat(1000);
    let mut rest = &pings[..];
    while server.read(&mut rest).unwrap().is_some() {}
    assert!(!server.wants_input() && server.unsent() < 1100 && rest.len() > 15_000);
    output(&mut server);
    assert!(server.wants_input() && server.read(&mut rest).unwrap().is_some());
}

#[test]
fn more_streams_than_were_said_are_refused() {
    let mut server = server(Settings::new().streams(2));
    let all: Vec<u8> = [1, 3, 5].iter().flat_map(|id| frame(kind::HEADERS, 4, *id, REQUEST)).collect();
    assert_eq!(read(&mut server, &all).unwrap(), ["headers 1 false", "headers 3 false", "refused REFUSED_STREAM"]);
    // What comes for it yet is not heeded.
    assert_eq!(read(&mut server, &frame(kind::DATA, 1, 5, &[0; 10])).unwrap(), [""; 0]);
}

/// A server that has answered streams whose requests have yet to come, and has sent that.
fn answered_early(ids: impl Iterator<Item = u32>, fields: &[u8]) -> Connection {
    let mut server = server(Settings::new().frame_bytes(60_000).window(100_000).connection_window(200_000));
    for id in ids {
        assert_eq!(read(&mut server, &frame(kind::HEADERS, 4, id, fields)).unwrap(), [format!("headers {id} false")]);
        server.respond(server.stream(id).unwrap(), &[Header::Plain(b":status", b"415")], true);
        assert_eq!(server.streams(), 0);
    }
    assert_eq!(resets(&output(&mut server)), 0);
    server
}

/// How many streams are reset.
fn resets(said: &[u8]) -> usize {
    said.windows(4).filter(|bytes| bytes == &[0, 4, kind::RST_STREAM, 0]).count()
}

/// Clients that have their answer take a reset for a failure, if they have yet to send the rest.
#[test]
fn who_is_answered_early_is_reset_only_if_much_more_comes() {
    const FIVE: [u8; 3] = [0x0f, 0x0d, 1];
    let announced = [REQUEST, &FIVE, b"5"].concat();
    let reset = |reason: Reason| frame(kind::RST_STREAM, 0, 1, &reason.0.to_be_bytes());
    let data = |len: usize, end: bool| frame(kind::DATA, end.into(), 1, &vec![7; len]);
    let trailers = |flags: u8, block: &[u8]| frame(kind::HEADERS, flags, 1, block);
    let window = |more: u32| frame(kind::WINDOW_UPDATE, 0, 1, &more.to_be_bytes());
    let nothing = Vec::new;
    for (fields, rest, said) in [
        (REQUEST, data(5, true), nothing()),
        (REQUEST, data(0, true), nothing()),
        (REQUEST, [data(5, false), trailers(5, &[])].concat(), nothing()),
        (REQUEST, [data(20_000, false), data(29_999, false), data(50_000, true)].concat(), nothing()),
        (REQUEST, frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]), nothing()),
        (REQUEST, window(1), nothing()),
        (REQUEST, [data(20_000, false), data(30_000, false), data(9, false)].concat(), reset(Reason::NO_ERROR)),
        (REQUEST, window(0), reset(Reason::PROTOCOL_ERROR)),
        (REQUEST, [window(1 << 30), window(1 << 30)].concat(), reset(Reason::FLOW_CONTROL_ERROR)),
        (REQUEST, trailers(4, &[]), reset(Reason::PROTOCOL_ERROR)),
        (REQUEST, trailers(5, REQUEST), reset(Reason::PROTOCOL_ERROR)),
        (&announced, data(5, true), nothing()),
        (&announced, [data(2, false), data(3, false), trailers(5, &[])].concat(), nothing()),
        (&announced, data(6, true), reset(Reason::PROTOCOL_ERROR)),
        (&announced, data(4, true), reset(Reason::PROTOCOL_ERROR)),
        (&announced, [data(4, false), trailers(5, &[])].concat(), reset(Reason::PROTOCOL_ERROR)),
    ] {
        for cut in [1, 10, usize::MAX] {
            let mut server = answered_early([1].into_iter(), fields);
            let mut came = Vec::new();
            for piece in rest.chunks(cut.min(rest.len())) {
                read_into(&mut server, piece, &mut came).unwrap();
                server.check();
            }
            let is_over = !rest.starts_with(&[0, 0, 4, kind::WINDOW_UPDATE]) || !said.is_empty();
            assert_eq!((came, server.has_unread()), (Vec::new(), !is_over));
            server.give_up_unread();
            // The connection's window may open before it.
            let heard = output(&mut server);
            assert!(heard.ends_with(&said) && resets(&heard) == resets(&said), "{heard:?}");
        }
    }
}

#[test]
fn those_answered_early_are_waited_for_in_number_and_until_they_are_given_up() {
    let mut server = answered_early((0..128).map(|at| 2 * at + 1), REQUEST);
    server.give_up_unread();
    assert_eq!(output(&mut server), []);
    read(&mut server, &frame(kind::HEADERS, 4, 257, REQUEST)).unwrap();
    server.respond(server.stream(257).unwrap(), &[Header::Plain(b":status", b"415")], true);
    let reset = |id| frame(kind::RST_STREAM, 0, id, &[0; 4]);
    assert!(output(&mut server).ends_with(&reset(1)), "the oldest makes room");
    server.give_up_unread();
    assert_eq!(output(&mut server), (1..128).flat_map(|at| reset(2 * at + 1)).collect::<Vec<_>>());
    assert!(server.has_unread(), "the last was not there when others were given up");
    server.give_up_unread();
    assert_eq!((output(&mut server), server.has_unread()), (reset(257), false));
    // What was under way is not heeded.
    assert_eq!(read(&mut server, &frame(kind::DATA, 1, 257, &[7; 9])).unwrap(), [""; 0]);
    assert_eq!(output(&mut server), []);
}

/// The frame began before the answer, and ends the request.
#[test]
fn who_is_answered_amid_the_last_of_its_data_is_not_reset() {
    let mut server = server(Settings::new());
    let all = [frame(kind::HEADERS, 4, 1, REQUEST), frame(kind::DATA, 1, 1, &[7; 100])].concat();
    let (first, rest) = all.split_at(all.len() - 50);
    assert_eq!(read(&mut server, first).unwrap(), ["headers 1 false", "data 1 50 false"]);
    server.respond(server.stream(1).unwrap(), &[Header::Plain(b":status", b"200")], true);
    output(&mut server);
    assert_eq!(read(&mut server, rest).unwrap(), [""; 0]);
    assert!(!server.has_unread() && output(&mut server).is_empty());
}

#[test]
fn more_than_a_window_is_not_taken() {
    let settings = Settings::new().window(65_535).connection_window(100_000);
    let data = |stream, len| frame(kind::DATA, 0, stream, &vec![0; len]);
    let mut first = server(settings);
    read(&mut first, &frame(kind::HEADERS, 4, 1, REQUEST)).unwrap();
    for _ in 0..4 {
        read(&mut first, &data(1, 16_000)).unwrap();
    }
    assert_eq!(read(&mut first, &data(1, 16_000)).unwrap(), ["reset 1 FLOW_CONTROL_ERROR false"]);
    let mut second = server(settings);
    let mut result = Ok(Vec::new());
    for id in [1, 3] {
        read(&mut second, &frame(kind::HEADERS, 4, id, REQUEST)).unwrap();
        for _ in 0..4 {
            result = read(&mut second, &data(id, 16_000));
        }
    }
    assert_eq!(result.unwrap_err().reason, Reason::FLOW_CONTROL_ERROR);
}

/// What is padding, and what comes for streams that are over, is given back by itself.
#[test]
fn a_window_does_not_leak() {
    let mut server = server(Settings::new().window(65_535).connection_window(65_535));
    read(&mut server, &frame(kind::HEADERS, 4, 1, REQUEST)).unwrap();
    let padded = frame(kind::DATA, 8, 1, &[vec![255], vec![0; 256]].concat());
    for _ in 0..1000 {
        let events = read(&mut server, &padded).unwrap();
        assert_eq!(events, ["data 1 1 false"]);
        let stream = server.stream(1).unwrap();
        server.consumed(stream, 1);
        server.release(1);
    }
    let stream = server.stream(1).unwrap();
    server.reset(stream, Reason::CANCEL);
    for _ in 0..1000 {
        assert!(read(&mut server, &frame(kind::DATA, 0, 1, &[0; 5000])).unwrap().is_empty());
    }
}

#[test]
fn data_is_as_long_as_was_said() {
    // `content-length: 3`
    let announced = [REQUEST, &[0x0f, 0x0d, 1, b'3']].concat();
    let cases = [
        (vec![frame(kind::DATA, 1, 1, b"abc")], "data 1 3 true"),
        (vec![frame(kind::DATA, 0, 1, b"ab"), frame(kind::DATA, 1, 1, b"c")], "data 1 1 true"),
        (vec![frame(kind::DATA, 1, 1, b"ab")], "reset 1 PROTOCOL_ERROR false"),
        (vec![frame(kind::DATA, 0, 1, b"abcd")], "reset 1 PROTOCOL_ERROR false"),
        (vec![frame(kind::HEADERS, 5, 1, &[])], "reset 1 PROTOCOL_ERROR false"),
    ];
    for (frames, last) in cases {
        let mut server = server(Settings::new());
        read(&mut server, &frame(kind::HEADERS, 4, 1, &announced)).unwrap();
        let events = read(&mut server, &frames.concat()).unwrap();
        assert_eq!(events.last().unwrap(), last);
    }
}

#[test]
fn headers_that_no_message_may_have_are_refused() {
    let literal = |name: &[u8], value: &[u8]| [&[0, name.len() as u8], name, &[value.len() as u8], value].concat();
    let with = |more: &[u8]| [REQUEST, more].concat();
    let wrong = [
        vec![0x83, 0x86],
        vec![0x83, 0x84],
        vec![0x86, 0x84],
        with(&[0x83]),
        with(&[0x88]),
        with(&literal(b"Upper", b"1")),
        with(&literal(b":other", b"1")),
        with(&literal(b"", b"1")),
        with(&literal(b"a b", b"1")),
        with(&literal(b"connection", b"close")),
        with(&literal(b"transfer-encoding", b"chunked")),
        with(&literal(b"te", b"gzip")),
        with(&literal(b"x", b" 1")),
        with(&literal(b"x", b"1\n")),
        with(&literal(b"x", b"\0")),
        with(&literal(b"content-length", b"-1")),
        with(&[literal(b"x", b"1"), vec![0x83]].concat()),
        [&[0x83, 0x86][..], &literal(b":path", b"")].concat(),
    ];
    let mut server = server(Settings::new());
    let mut id = 1;
    for block in wrong {
        let events = read(&mut server, &frame(kind::HEADERS, 5, id, &block)).unwrap();
        assert_eq!(events, ["refused PROTOCOL_ERROR"], "{block:?}");
        id += 2;
    }
    let fine = with(&[literal(b"te", b"trailers"), literal(b"x-y_z", b"\x80 \t1")].concat());
    assert_eq!(read(&mut server, &frame(kind::HEADERS, 5, id, &fine)).unwrap().len(), 1);
}

/// A list that is the same as one that was not taken is not said to be known.
#[test]
fn lists_are_as_before_only_if_they_were_told() {
    let mut server = server(Settings::new().streams(1));
    let before = |server: &mut Connection, id: u32| {
        let block = frame(kind::HEADERS, 5, id, REQUEST);
        match server.read(&mut &block[..]).unwrap() {
            Some(Event::Headers { stream, fields, .. }) => Some((stream, fields.are_as_before())),
            _ => None,
        }
    };
    let (stream, known) = before(&mut server, 1).unwrap();
    assert!(!known && before(&mut server, 3).is_none());
    server.respond(stream, &[Header::Plain(b":status", b"200")], true);
    let (stream, known) = before(&mut server, 5).unwrap();
    assert!(!known, "the last was refused");
    server.respond(stream, &[Header::Plain(b":status", b"200")], true);
    assert!(before(&mut server, 7).unwrap().1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever a peer sends and whatever is done meanwhile, a connection keeps its promises.
    #[test]
    fn promises_are_kept(steps in prop::collection::vec(any::<u8>(), 0..600)) {
        crate::fuzzing::connection(&steps);
    }

    /// However what a peer sends is cut, it says the same.
    #[test]
    fn cuts_are_not_seen(
        frames in prop::collection::vec((0_u8..11, any::<u8>(), 0_u32..6, prop::collection::vec(any::<u8>(), 0..12)), 0..20),
        cuts in prop::collection::vec(1_usize..30, 1..10),
    ) {
        let mut bytes = Vec::new();
        for (kind, flags, stream, payload) in frames {
            let payload = match kind {
                kind::HEADERS => &[REQUEST, &payload].concat()[..],
                kind::PING => &[7; 8],
                kind::RST_STREAM => &[0; 4],
                _ => &payload,
            };
            bytes.extend(frame(kind, flags, stream, payload));
        }
        let told = |steps: &mut dyn Iterator<Item = usize>| {
            let mut server = server(Settings::new());
            let (mut events, mut rest) = (Vec::new(), &bytes[..]);
            while !rest.is_empty() {
                let (first, behind) = rest.split_at(steps.next().unwrap_or(usize::MAX).min(rest.len()));
                rest = behind;
                if let Err(error) = read_into(&mut server, first, &mut events) {
                    events.push(error.to_string());
                    break;
                }
            }
            // A part of a body may come in parts itself.
            let mut parts = std::collections::BTreeMap::new();
            events.retain(|event| {
                let words: Vec<&str> = event.split(' ').collect();
                if let ["data", id, len, end] = words[..] {
                    let (sum, has_ended) = parts.entry(id.to_owned()).or_insert((0, false));
                    *sum += len.parse::<usize>().unwrap();
                    *has_ended |= end == "true";
                    return false;
                }
                true
            });
            (events, parts, output(&mut server))
        };
        prop_assert_eq!(told(&mut std::iter::empty()), told(&mut cuts.iter().copied().cycle()));
    }
}
