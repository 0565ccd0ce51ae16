//! How connections end.
//!
//! - A peer that breaks the rules is told why, if there is room to tell it, and closed on.
//! - A server that goes away keeps its connection until it has answered what it has heard of. Other calls, those that
//!   were waiting included, are made on a new connection.
//! - A server that drains says GOAWAY and goes on serving what was sent before its clients heard of that.

use super::endpoint::Endpoint;
use super::ends::{End, Fate, Peer};
use super::{Event, Net, PeerKey};
use crate::status::{Reason, Status};
use greenwave_policy::Time;
use greenwave_proto::connection::{Caller, Going, Violation};
use greenwave_verbs::{Close, CloseReason, EndpointId};
use std::time::Duration;

/// How long a peer may take to read what was written to it before the connection was closed.
pub(super) const CLOSING: Duration = Duration::from_secs(2);

impl Net {
    pub(super) fn meet_fates(&mut self, now: Time, events: &mut Vec<Event>) {
        // In order: a server that goes away and closes has gone away first.
        for fate in std::mem::take(&mut self.ends.fates) {
            match fate {
                Fate::Abort(endpoint) => self.queue.close(endpoint, Close::Abort),
                Fate::Gone(endpoint, reason) => self.gone(now, endpoint, reason, events),
                Fate::Expel(key, violation) => self.expel(now, key, &violation, events),
                Fate::Leave(key) => self.leave(now, key, events),
                Fate::Finish(key) => self.finish_plain(now, key, None, events),
                Fate::Dismiss(key, over) => self.finish_plain(now, key, Some(over), events),
            }
        }
    }

    fn gone(&mut self, now: Time, endpoint: EndpointId, reason: CloseReason, events: &mut Vec<Event>) {
        self.closing.retain(|(_, closing)| *closing != endpoint);
        let Some(index) = self.ends.index_of(endpoint) else { return };
        let truncated = self.queue.stats().truncated;
        self.ends.counters.truncated.add(truncated - std::mem::replace(&mut self.truncated, truncated));
        if let CloseReason::Oversized { .. } = reason {
            self.ends.counters.violations.add(1);
        }
        self.ends.disconnect(index);
        self.lose(now, index, Reason::ConnectionLost, &reason.to_string(), events);
    }

    /// Ends a connection whose peer broke the rules, and tells it why.
    fn expel(&mut self, now: Time, key: PeerKey, violation: &Violation, events: &mut Vec<Event>) {
        let Some(endpoint) = self.ends.peer(key).and_then(|peer| peer.endpoint) else { return };
        self.ends.disconnect(key.index);
        self.ends.counters.violations.add(1);
        tracing::debug!(%endpoint, %violation, "closed on");
        let link = self.ends.peers[key.index].link();
        let told = link.map(|link| link.dismiss(&mut Endpoint { queue: &mut *self.queue, id: endpoint }, violation));
        self.close(now, endpoint, if matches!(told, Some(Ok(true))) { Close::Flush } else { Close::Abort });
        self.lose(now, key.index, Reason::Violation, &violation.to_string(), events);
    }

    pub(super) fn close(&mut self, now: Time, endpoint: EndpointId, how: Close) {
        self.queue.close(endpoint, how);
        if how == Close::Flush {
            let until = now + CLOSING;
            self.closing.push((until, endpoint));
            self.ends.next_sweep = self.ends.next_sweep.min(until);
        }
    }

    /// A server goes away, or has answered the last call before it does.
    fn leave(&mut self, now: Time, key: PeerKey, events: &mut Vec<Event>) {
        let Some(peer) = self.ends.peer(key) else { return };
        match &mut peer.end {
            End::Caller(dialer) if dialer.caller.going().is_some() => {
                let mut caller = Box::new(dialer.renew(now));
                tracing::debug!(text = caller.going().map(|going| &*going.text), "the server goes away");
                let unsent = caller.take_unsent(now);
                let was_of_use = caller.was_of_use() || caller.unfinished() > 0;
                dialer.failed(now, was_of_use, told(caller.going(), "the server takes no further calls"));
                self.part(now, key.index, caller, events);
                for (request, body) in unsent {
                    self.make(key.index, request, body, now, events);
                }
            }
            End::Leaving { caller, .. } if caller.unfinished() == 0 => {
                if let Some(endpoint) = self.ends.disconnect(key.index) {
                    self.close(now, endpoint, Close::Flush);
                }
                self.ends.remove(key.index);
            }
            _ => {}
        }
    }

    /// Leaves a connection to the calls that are under way on it, if they can still be answered.
    fn part(&mut self, now: Time, home: usize, mut caller: Box<Caller>, events: &mut Vec<Event>) {
        let Some(endpoint) = self.ends.disconnect(home) else { return };
        if caller.going().is_some_and(|going| going.at_once) {
            let status = Status::refused(Reason::ConnectionLost, told(caller.going(), "closed by the server"));
            caller.lose(now, &status, &mut |done| events.push(done.into()));
        }
        if caller.unfinished() > 0 {
            let left = self.ends.add(End::Leaving { caller });
            self.ends.connect(left.index, endpoint);
            let Some(Peer { end: End::Caller(dialer), .. }) = self.ends.peers.get_mut(home) else { return };
            let mut all = std::mem::take(&mut dialer.left);
            all.retain(|key| self.ends.peer(*key).is_some());
            all.push(left);
            if let Some(Peer { end: End::Caller(dialer), .. }) = self.ends.peers.get_mut(home) {
                dialer.left = all;
            }
        } else {
            self.close(now, endpoint, Close::Flush);
        }
    }

    /// A connection is gone. Calls made on it fail, calls that came by it are cancelled.
    pub(super) fn lose(&mut self, now: Time, index: usize, reason: Reason, text: &str, events: &mut Vec<Event>) {
        let Some(peer) = self.ends.peers.get_mut(index) else { return };
        match &mut peer.end {
            End::Caller(dialer) => {
                // Before HELLO was read nothing was sent, so nothing was lost.
                let reason = if dialer.caller.link.agreed().is_some() { reason } else { Reason::Unreachable };
                let mut lost = dialer.renew(now);
                let text = told(lost.going(), text);
                let status = Status::refused(reason, format!("{}: {text}", dialer.route.address));
                dialer.failed(now, lost.was_of_use(), text);
                lost.lose(now, &status, &mut |done| events.push(done.into()));
            }
            End::Leaving { caller, .. } => {
                let status = Status::refused(reason, told(caller.going(), text));
                caller.lose(now, &status, &mut |done| events.push(done.into()));
                self.ends.remove(index);
            }
            End::Callee(callee) => {
                let key = PeerKey { index, serial: peer.serial };
                events.extend(callee.open_calls().map(|(call, task)| Event::Cancelled(key, call, task)));
                self.ends.counters.connections.sub(1);
                self.ends.remove(index);
            }
            End::Plain(callee) => {
                let key = PeerKey { index, serial: peer.serial };
                callee.each_open_call(&mut |call, task| events.push(Event::Cancelled(key, call, task)));
                self.ends.counters.connections.sub(1);
                self.ends.remove(index);
            }
        }
    }

    /// Closes every connection; what was posted is still written. Calls made on them are over.
    pub(crate) fn close_all(&mut self, now: Time, events: &mut Vec<Event>) {
        let indices: Vec<usize> = self.ends.peers.iter().map(|(index, _)| index).collect();
        for index in indices {
            if let Some(endpoint) = self.ends.disconnect(index) {
                if let End::Plain(callee) = &mut self.ends.peers[index].end {
                    callee.close(now, &mut Endpoint { queue: &mut *self.queue, id: endpoint });
                }
                self.close(now, endpoint, Close::Flush);
                self.lose(now, index, Reason::ConnectionLost, "closed from this side", events);
            }
        }
        self.queue.submit();
    }

    /// Waits until what was closed is written and read, for as long as that may take.
    pub(crate) fn linger(&mut self, events: &mut Vec<Event>) {
        while !self.closing.is_empty() {
            let now = self.clock.now();
            let next = self.sweep(now, events);
            if self.poll(now, events) == 0 && !self.closing.is_empty() {
                self.queue.wait(now, next.map(|next| next.since(now)));
            }
        }
    }
}

/// What happened to a connection, and what its peer had said of it before.
fn told(going: Option<&Going>, text: &str) -> String {
    match going {
        Some(Going { text: reason, .. }) if !reason.is_empty() => format!("{text}, which had said: {reason}"),
        _ => text.to_owned(),
    }
}
