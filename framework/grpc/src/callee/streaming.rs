//! Requests that are streams: their messages as they come, and what is held of them.

use super::receiving::too_much;
use super::{GrpcCallee, NONE, Reading, STREAM_WINDOW, Slot, call_in};
use crate::message::more_than_one;
use greenwave_proto::connection::{CalleeEvent, StreamMessage, Volume};
use greenwave_proto::status::{Code, Status};
use greenwave_proto::wire::{CallId, MESSAGE_COST};

/// Of what a stream has that nobody has taken, more than this keeps its window closed, in bytes.
const HELD_MOST: usize = STREAM_WINDOW as usize / 2;

impl GrpcCallee {
    /// Parts of messages of a stream have come.
    pub(super) fn go_on_streaming(
        &mut self,
        reading: &mut Reading<'_>,
        slot: u16,
        added: Result<(), Status>,
        len: usize,
        end: bool,
    ) {
        self.release(len);
        let (held, most) = (self.assembling, self.limits.most_assembly_bytes());
        let there = &self.slots[usize::from(slot)];
        let is_cut = end && there.incoming.is_begun();
        let added = added.and_then(|()| {
            if held > most {
                Err(too_much(held, most))
            } else if is_cut {
                Err(Status::new(Code::Internal, "the request can't be read: it ends within a message"))
            } else {
                Ok(())
            }
        });
        if let Err(status) = added {
            return self.fail_open(reading, slot, &status);
        }
        self.open_stream_window(slot);
        if end {
            self.end_stream(reading, slot);
        } else if self.slots[usize::from(slot)].incoming.is_begun() {
            self.expect_more(reading.now);
        }
    }

    /// Gives back to a stream's window what doesn't have to be kept from it.
    fn open_stream_window(&mut self, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        if there.held <= HELD_MOST && there.late > 0 {
            let late = std::mem::take(&mut there.late);
            self.http.consumed(there.stream, late);
        }
    }

    /// Gives back to the connection's window, unless there is much that nobody has taken.
    #[inline]
    pub(super) fn release(&mut self, len: usize) {
        if self.held == 0 && self.withheld == 0 {
            self.http.release(len);
        } else {
            self.withheld += len;
            self.open_window();
        }
    }

    pub(super) fn open_window(&mut self) {
        if self.held <= self.limits.most_assembly_bytes() / 2 {
            self.http.release(std::mem::take(&mut self.withheld));
        }
    }

    /// Whoever serves a call has taken so many of its request's messages: as much more may come. The stream's window is kept
    /// closed while more than half of one is not taken; a message that is longer comes in all the same.
    pub fn consumed(&mut self, call: CallId, taken: Volume) {
        let Some(slot) = self.open_slot(call) else { return };
        let there = &mut self.slots[usize::from(slot)];
        self.held -= there.take_untaken(taken.messages);
        self.open_stream_window(slot);
        self.open_window();
    }

    pub(super) fn end_stream(&mut self, reading: &mut Reading<'_>, slot: u16) {
        let there = &self.slots[usize::from(slot)];
        (reading.sink)(CalleeEvent::Ended(call_in(slot, there.generation)));
    }

    /// A call that is served fails because of what its peer sent: whoever serves it is told that nobody waits any more.
    pub(super) fn fail_open(&mut self, reading: &mut Reading<'_>, slot: u16, status: &Status) {
        let there = &mut self.slots[usize::from(slot)];
        let (stream, task) = (there.stream, there.task.map(|task| task as usize));
        (reading.sink)(CalleeEvent::Cancelled(call_in(slot, there.generation), task));
        self.fail_stream(slot, status);
        // What comes of it yet is thrown away.
        self.of_stream[stream.slot()] = NONE;
        self.drop_request(slot);
    }

    /// What is held of an open call's request is given up.
    pub(super) fn drop_request(&mut self, slot: u16) {
        let there = &mut self.slots[usize::from(slot)];
        self.assembling -= std::mem::take(&mut there.announced);
        self.held -= there.drop_untaken();
        self.open_window();
    }
}

impl Slot {
    /// So many of the messages that were handed out are consumed. What those cost.
    fn take_untaken(&mut self, messages: usize) -> usize {
        let messages = messages.min(self.untaken.len());
        let cost = self.untaken.drain(..messages).map(|len| cost(len as usize)).sum();
        self.held -= cost;
        cost
    }

    /// Gives up what is there of a stream. What that cost.
    pub(super) fn drop_untaken(&mut self) -> usize {
        self.incoming.clear();
        self.untaken.clear();
        self.late = 0;
        std::mem::take(&mut self.held)
    }

    /// Adds a part of the only message.
    #[inline]
    pub(super) fn add(
        &mut self,
        mut bytes: &[u8],
        most: usize,
        buffer: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Result<(), Status> {
        if let Some(web) = &mut self.web {
            return web.add(bytes, buffer);
        }
        self.incoming.add(&mut bytes, most, buffer)?;
        if bytes.is_empty() { Ok(()) } else { Err(more_than_one()) }
    }

    /// Adds parts of messages, and tells of those that are whole.
    pub(super) fn add_to_stream(
        &mut self,
        slot: u16,
        mut bytes: &[u8],
        most: usize,
        reading: &mut Reading<'_>,
    ) -> Result<(), Status> {
        self.progressed = reading.now;
        let call = call_in(slot, self.generation);
        let mut added = Ok(());
        while !bytes.is_empty() {
            let before = bytes.len();
            match self.incoming.add(&mut bytes, most, reading.buffer) {
                Ok(is_whole) => {
                    self.late += before - bytes.len();
                    if is_whole {
                        let body = self.incoming.take();
                        self.held += cost(body.len());
                        self.untaken.push_back(body.len() as u32);
                        let compressed = self.incoming.compressed();
                        let message = StreamMessage { compressed, ..StreamMessage::new(body) };
                        (reading.sink)(CalleeEvent::Message(call, message));
                    }
                }
                Err(status) => {
                    added = Err(status);
                    break;
                }
            }
        }
        self.announced = if self.incoming.is_begun() { self.incoming.announced() } else { 0 };
        added
    }
}

/// What a message takes of what may be held: empty ones are bounded too.
fn cost(len: usize) -> usize {
    len + MESSAGE_COST as usize
}
