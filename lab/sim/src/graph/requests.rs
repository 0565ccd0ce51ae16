//! Unfinished requests.

use greenwave_policy::{Deadline, Time};

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) birth: Time,
    pub(super) deadline: Deadline,
    pub(super) class: usize,
    pub(super) counted: bool,
    pub(super) stage: usize,
    /// When it came to its stage.
    pub(super) came: Time,
    /// Parts that are not back.
    pub(super) open: usize,
    /// A part was refused, so nobody waits for the others.
    pub(super) is_refused: bool,
}

/// By numbers that are used again.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: Vec<Request>,
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn add(&mut self, request: Request) -> u32 {
        match self.free.pop() {
            Some(free) => {
                self.requests[free as usize] = request;
                free
            }
            None => {
                self.requests.push(request);
                (self.requests.len() - 1) as u32
            }
        }
    }

    pub(super) fn of(&mut self, request: u32) -> &mut Request {
        &mut self.requests[request as usize]
    }

    pub(super) fn remove(&mut self, request: u32) {
        self.free.push(request);
    }

    pub(super) fn unfinished(&self) -> usize {
        self.requests.len() - self.free.len()
    }
}
