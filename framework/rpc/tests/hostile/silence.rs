//! Peers that keep to the rules, and say nothing, or read slowly.

use crate::raw::{self, Raw, call, call_id, eventually, part_of_call};
use crate::siege::{COUNT, ECHO, LARGE, LARGE_BYTES, Siege};
use greenwave_proto::wire::{self, Credit, Frame, Hello, Ping, Probe};
use greenwave_rpc::*;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Its kernel answers for it, so that keepalive finds it alive; and nothing is owed to it.
#[test]
fn a_peer_that_stays_silent_and_is_owed_nothing_stays() {
    let short = Duration::from_millis(100);
    let siege = Siege::limited(Limits::default().handshake(short).stall(short));
    let mut silent = siege.attacker();
    silent.send(&call(call_id(0, 1), ECHO, b"before"));
    assert_eq!(silent.reply_to(call_id(0, 1)).2, b"before");
    // Others come later, and are closed on for having kept the server waiting.
    for violations in 1..=3 {
        let mut staller = siege.attacker();
        staller.send(&part_of_call(call_id(0, 1), COUNT, b"half", 8));
        assert!(staller.farewell().told.expect("a GOAWAY").1.contains("no progress for 100ms"));
        assert_eq!(siege.server.counters().violations, violations);
    }
    assert_eq!(siege.server.counters().connections, 2);
    silent.send(&call(call_id(0, 2), ECHO, b"after"));
    assert_eq!(silent.reply_to(call_id(0, 2)).2, b"after");
    drop(silent);
    siege.ends_with_violations(3);
}

const CREDITS: u32 = 16;

/// Calls as it has credits to, reads all that is sent to it, and gives no credit back for more than the first chunks.
struct SlowReader {
    raw: Raw,
    credits: u32,
    made: u16,
    /// What it is to read the answers with.
    owed: u16,
}

impl SlowReader {
    fn of(siege: &Siege) -> Self {
        let mut raw = Raw::connect(siege.address());
        let limits = wire::HelloLimits { credits: 4, ..raw::hello().limits };
        raw.send(&Frame::Hello(Hello { limits, ..raw::hello() }));
        raw.read().expect("a HELLO");
        Self { raw, credits: CREDITS, made: 0, owed: 0 }
    }

    /// Makes all the calls that it may. How many those were.
    fn call(&mut self) -> u32 {
        let made = self.credits;
        for _ in 0..std::mem::take(&mut self.credits) {
            self.raw.send(&call(call_id(self.made, 1), LARGE, b""));
            self.made += 1;
        }
        made
    }

    /// Reads up to what was sent before the answer to a PING.
    fn look(&mut self) {
        self.raw.send(&Frame::Ping(Ping(Probe { credits: 0, opaque: 1, sent: None })));
        loop {
            let chunk = self.raw.read().expect("it keeps to the rules");
            let frame = Frame::parse(&chunk, false).unwrap();
            self.credits += u32::from(frame.credits());
            match frame {
                Frame::Reply(_) | Frame::Data(_) => self.owed += 1,
                Frame::Pong(_) => return,
                _ => {}
            }
        }
    }

    /// Gives back the credits that it owes.
    fn pay(&mut self) {
        if self.owed > 0 {
            self.raw.send(&Frame::Credit(Credit { credits: std::mem::take(&mut self.owed) }));
        }
    }
}

/// However many calls a peer may have open, those whose answers it doesn't take up stop its next ones.
#[test]
fn slow_readers_of_large_replies_hold_bounded_memory_and_nobody_up() {
    const READERS: usize = 4;
    const HELD: usize = 4 * LARGE_BYTES;
    let limits = Limits::default().credits(CREDITS).message_bytes(LARGE_BYTES).assembly_bytes(HELD);
    let siege = Siege::limited(limits);
    let mut readers: Vec<SlowReader> = (0..READERS).map(|_| SlowReader::of(&siege)).collect();
    let mut made = 0;
    // Until none of them may call any more, though all that they have called was served.
    loop {
        let before = made;
        made += readers.iter_mut().map(SlowReader::call).sum::<u32>();
        eventually("the calls are served", || siege.begun.load(Ordering::Relaxed) == u64::from(made));
        siege.others_are_served();
        readers.iter_mut().for_each(SlowReader::look);
        if made == before {
            break;
        }
    }
    let most = READERS * (HELD / LARGE_BYTES + 2 * CREDITS as usize);
    assert!(made as usize <= most, "{made} answers of a MiB wait, at most {most} may");
    // They may go on where they stopped: it was no crime.
    for reader in &mut readers {
        for _ in 0..10 {
            reader.pay();
            reader.look();
        }
    }
    siege.others_are_served();
    assert_eq!(siege.server.counters().violations, 0);
    drop(readers);
    siege.ends_with_violations(0);
}
