//! What arrives of an answer: messages out of bytes, and how many bytes more may come.

use super::PREFIX;
use greenwave_proto::compression::Encoding;
use greenwave_proto::status::{Code, Reason, Status};

/// Room is made for so many bytes on the peer's word, and beyond that as they arrive.
const TRUSTED: usize = 1 << 20;

/// A stream's messages as they arrive, and its window.
///
/// Bytes of a message that is not whole may have to be given back before it is, or the rest of it could not come; these are
/// not given back again when whoever takes the message has done so.
#[derive(Debug)]
pub(super) struct Inflow {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix are there.
    begun: usize,
    body: Vec<u8>,
    /// How messages are compressed that are.
    encoding: Option<Encoding>,
    window: usize,
    /// Bytes that came and were not given back.
    owed: usize,
    /// Bytes that were given back early.
    early: usize,
    /// Bytes of whole messages that nobody has said to have taken.
    held: usize,
    /// Bytes between messages, which nobody takes.
    between: usize,
}

impl Inflow {
    pub(super) fn new(window: usize) -> Self {
        Self {
            prefix: [0; PREFIX],
            begun: 0,
            body: Vec::new(),
            encoding: None,
            window: window.max(65_535),
            owed: 0,
            early: 0,
            held: 0,
            between: 0,
        }
    }

    /// Messages that are compressed will be so.
    pub(super) fn begin(&mut self, encoding: Option<Encoding>) {
        self.encoding = encoding;
    }

    /// How the message that came last is compressed, if it is.
    pub(super) fn compressed(&self) -> Option<Encoding> {
        if self.prefix[0] == 0 { None } else { self.encoding }
    }

    /// Whether a message is half received.
    pub(super) fn is_within_message(&self) -> bool {
        self.begun > 0
    }

    /// So many bytes of the stream came; to be told before they are [added](Self::add).
    pub(super) fn came(&mut self, bytes: usize) {
        self.owed += bytes;
    }

    /// Takes bytes off the front, up to the end of a message: that one, if it is whole.
    pub(super) fn add(
        &mut self,
        bytes: &mut &[u8],
        most: usize,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Status> {
        if self.begun < PREFIX {
            let (taken, rest) = bytes.split_at(bytes.len().min(PREFIX - self.begun));
            self.prefix[self.begun..self.begun + taken.len()].copy_from_slice(taken);
            self.begun += taken.len();
            *bytes = rest;
            if self.begun < PREFIX {
                return Ok(None);
            }
            self.between += PREFIX;
            match self.prefix[0] {
                0 => {}
                1 if self.encoding.is_some() => {}
                1 => return Err(malformed("it is compressed, and it was not said that this may be")),
                other => return Err(malformed(&format!("it begins with {other}, which is neither 0 nor 1"))),
            }
            let len = self.announced();
            if len > most {
                let text = format!("the answer has a message of {len} bytes, accepted are {most}");
                return Err(Status::refused(Reason::ReplyTooLarge, text));
            }
            self.body = buffer(len.min(TRUSTED));
        }
        let left = self.announced() - self.body.len();
        let (taken, rest) = bytes.split_at(bytes.len().min(left));
        self.body.extend_from_slice(taken);
        *bytes = rest;
        if taken.len() < left {
            return Ok(None);
        }
        self.begun = 0;
        self.held += self.body.len();
        Ok(Some(std::mem::take(&mut self.body)))
    }

    fn announced(&self) -> usize {
        let [_, len @ ..] = self.prefix;
        u32::from_be_bytes(len) as usize
    }

    /// How many bytes are to be given back although nobody has taken them, so that the rest of a message can come.
    pub(super) fn due(&mut self) -> usize {
        let between = std::mem::take(&mut self.between).min(self.owed);
        self.owed -= between;
        // Not while messages are held: these are taken some time, and more comes then. So what is held is a message, and one and
        // a half windows. Some of them may be taken already: that is told when it is worth it.
        if !self.is_within_message() || self.held > self.window / 2 {
            return between;
        }
        let left = if self.begun < PREFIX { PREFIX - self.begun } else { self.announced() - self.body.len() };
        let here = self.window.saturating_sub(self.owed);
        // The connection tells the server of half windows, so of half a window it may not know yet.
        let missing = (self.window / 2 + left.min(self.window / 2)).saturating_sub(here);
        let due = missing.min(self.owed);
        self.owed -= due;
        self.early += due;
        between + due
    }

    /// So many bytes of messages were taken: how many are to be given back now.
    pub(super) fn consumed(&mut self, bytes: usize) -> usize {
        let early = bytes.min(self.early);
        self.early -= early;
        let back = (bytes - early).min(self.owed);
        self.owed -= back;
        self.held = self.held.saturating_sub(bytes);
        back + self.due()
    }

    /// All that is owed, where nobody else has to take anything.
    pub(super) fn all(&mut self) -> usize {
        std::mem::take(&mut self.owed)
    }
}

fn malformed(text: &str) -> Status {
    Status::new(Code::Internal, format!("a message of the answer can't be read: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: usize = 65_535;

    proptest! {
        /// However the bytes are cut, the messages come out; and a stream of which nothing is taken until all of a message is
        /// there never waits for ever, nor holds more than a window and a message.
        #[test]
        fn messages_come_out_and_the_window_never_closes_within_one(
            lens in prop::collection::vec(prop_oneof![0_usize..200_000, 0_usize..20_000], 1..20),
            cuts in prop::collection::vec(1_usize..70_000, 1..20),
        ) {
            let bytes: Vec<u8> = lens
                .iter()
                .flat_map(|len| [&[0][..], &(*len as u32).to_be_bytes(), &vec![7; *len]].concat())
                .collect();
            let mut inflow = Inflow::new(WINDOW);
            let (mut window, mut rest, mut held, mut found) = (WINDOW, &bytes[..], Vec::new(), Vec::new());
            // What was given back and the server was not told of.
            let mut untold = 0;
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (mut piece, behind) = rest.split_at((*cut).min(window).min(rest.len()));
                rest = behind;
                window -= piece.len();
                inflow.came(piece.len());
                while !piece.is_empty() {
                    if let Some(body) = inflow.add(&mut piece, 200_000, &mut Vec::with_capacity).unwrap() {
                        found.push(body.len());
                        held.push(body.len());
                    }
                }
                untold += inflow.due();
                let holds = held.iter().sum::<usize>() + inflow.body.len();
                prop_assert!(holds <= WINDOW * 3 / 2 + 200_000, "{holds}");
                let waits = window == 0 && untold < WINDOW / 2;
                // Whoever takes messages may keep it to itself that it has taken some.
                let is_held = held.iter().sum::<usize>() > WINDOW / 2;
                prop_assert!(!waits || !inflow.is_within_message() || is_held, "it waits for ever");
                if waits || *cut % 3 == 0 {
                    held.drain(..).for_each(|len| untold += inflow.consumed(len));
                }
                if untold >= WINDOW / 2 {
                    window += std::mem::take(&mut untold);
                }
                prop_assert!(window > 0 && window <= WINDOW, "{window}");
            }
            prop_assert_eq!(found, lens);
        }
    }
}
