//! How connections end.
//!
//! - A peer that breaks the rules is told why, if there is room to tell it, and closed on.
//! - A server that goes away keeps its connection until it has answered what it has heard of. Other calls, those that
//!   were waiting included, are made on a new connection.
//! - A server that drains says GOAWAY and goes on serving what was sent before its clients heard of that.

use super::endpoint::Endpoint;
use super::ends::{End, Fate, Peer};
use super::{Closing, ConnectionUsage, Event, Events, Net, PeerKey};
use crate::status::{Reason, Status};
use greenwave_grpc::Over;
use greenwave_policy::Time;
use greenwave_proto::connection::{Going, Violation};
use greenwave_verbs::{Close, CloseReason, EndpointId};
use std::time::Duration;

/// How long a peer may take to read what was written to it before the connection was closed.
pub(super) const CLOSING: Duration = Duration::from_secs(2);

impl Net {
    pub(super) fn meet_fates(&mut self, now: Time, events: &mut Events) {
        // In order: a server that goes away and closes has gone away first.
        for fate in std::mem::take(&mut self.ends.fates) {
            match fate {
                Fate::Abort(endpoint) => self.queue.close(endpoint, Close::Abort),
                Fate::Gone(endpoint, reason) => self.gone(now, endpoint, reason, events),
                Fate::Expel(key, violation) => self.expel(now, key, &violation, events),
                Fate::Leave(key) => self.leave(now, key, events),
                Fate::Retire(key) => self.retire(now, key, events),
                Fate::Finish(key) => self.finish_plain(now, key, None, events),
                Fate::Dismiss(key, over) => self.finish_plain(now, key, Some(over), events),
            }
        }
    }

    fn gone(&mut self, now: Time, endpoint: EndpointId, reason: CloseReason, events: &mut Events) {
        self.closing.retain(|closing| closing.endpoint != endpoint);
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
    fn expel(&mut self, now: Time, key: PeerKey, violation: &Violation, events: &mut Events) {
        let Some(endpoint) = self.ends.peer(key).and_then(|peer| peer.endpoint) else { return };
        self.ends.disconnect(key.index);
        self.ends.counters.violations.add(1);
        tracing::debug!(%endpoint, %violation, "closed on");
        let link = self.ends.peers[key.index].link();
        let told = link.map(|link| link.dismiss(&mut Endpoint { queue: &mut *self.queue, id: endpoint }, violation));
        let how = if matches!(told, Some(Ok(true))) { Close::Flush } else { Close::Abort };
        self.close_of(now, key.index, endpoint, how);
        self.lose(now, key.index, Reason::Violation, &violation.to_string(), events);
    }

    pub(super) fn close(&mut self, now: Time, endpoint: EndpointId, how: Close) {
        self.close_counted(now, endpoint, how, None);
    }

    /// Closes the connection of the end there, which goes on counting until it is gone.
    pub(super) fn close_of(&mut self, now: Time, index: usize, endpoint: EndpointId, how: Close) {
        let usage = self.ends.peers.get_mut(index).and_then(|peer| peer.usage.take());
        self.close_counted(now, endpoint, how, usage);
    }

    fn close_counted(&mut self, now: Time, endpoint: EndpointId, how: Close, _usage: Option<ConnectionUsage>) {
        self.queue.close(endpoint, how);
        if how == Close::Flush {
            let until = now + CLOSING;
            self.closing.push(Closing { until, endpoint, _usage });
            self.ends.next_sweep = self.ends.next_sweep.min(until);
        }
    }

    /// A server goes away, or has answered the last call before it does.
    fn leave(&mut self, now: Time, key: PeerKey, events: &mut Events) {
        let Some(peer) = self.ends.peer(key) else { return };
        match &mut peer.end {
            End::Caller(dialer) if dialer.caller.going().is_some() => {
                let (caller, unsent) = dialer.leave(now);
                self.part(now, key.index, End::Leaving { caller }, events);
                unsent.into_iter().for_each(|call| self.make_again(key.index, call, now, events));
            }
            End::GrpcCaller(dialer) if dialer.caller.going().is_some() => {
                let (caller, unsent) = dialer.leave(now);
                self.part(now, key.index, End::GrpcLeaving { caller, home: key }, events);
                unsent.into_iter().for_each(|call| self.make_again(key.index, call, now, events));
            }
            End::GrpcLeaving { caller, home } if caller.has_unserved() => {
                let (unsent, home) = (caller.take_unsent(), *home);
                // A server that goes away may say only in the end which calls it has not looked at.
                for call in unsent {
                    if self.ends.peer(home).is_some() {
                        self.make_again(home.index, call, now, events);
                    }
                }
                self.leave(now, key, events);
            }
            left @ (End::Leaving { .. } | End::GrpcLeaving { .. }) => {
                if left.calling().is_none_or(|caller| caller.unfinished() > 0) {
                    return;
                }
                if let Some(endpoint) = self.ends.disconnect(key.index) {
                    self.close(now, endpoint, Close::Flush);
                }
                self.ends.remove(key.index);
            }
            _ => {}
        }
    }

    /// Leaves a connection to the calls that are under way on it, if they can still be answered.
    fn part(&mut self, now: Time, home: usize, mut left: End, events: &mut Events) {
        let Some(endpoint) = self.ends.disconnect(home) else { return };
        let Some(caller) = left.calling() else { return };
        if caller.going().is_some_and(|going| going.at_once) {
            let status = Status::refused(Reason::ConnectionLost, told(caller.going(), "closed by the server"));
            caller.lose(now, &status, events);
        }
        if caller.unfinished() > 0 {
            let left = self.ends.add(left);
            self.ends.connect(left.index, endpoint);
            let line = |peer: &mut Peer| peer.end.line().map(|line| std::mem::take(&mut line.left));
            let Some(mut all) = self.ends.peers.get_mut(home).and_then(line) else { return };
            all.retain(|key| self.ends.peer(*key).is_some());
            all.push(left);
            if let Some(line) = self.ends.peers.get_mut(home).and_then(|peer| peer.end.line()) {
                line.left = all;
            }
        } else {
            self.close(now, endpoint, Close::Flush);
        }
    }

    /// A connection is gone. Calls made on it fail, calls that came by it are cancelled.
    pub(super) fn lose(&mut self, now: Time, index: usize, reason: Reason, text: &str, events: &mut Events) {
        let Some(peer) = self.ends.peers.get_mut(index) else { return };
        match &mut peer.end {
            End::Caller(dialer) => dialer.lose(now, reason, text, events),
            End::GrpcCaller(dialer) => dialer.lose(now, reason, text, events),
            End::Leaving { .. } | End::GrpcLeaving { .. } => {
                if let Some(caller) = peer.end.calling() {
                    let status = Status::refused(reason, told(caller.going(), text));
                    caller.lose(now, &status, events);
                }
                self.ends.remove(index);
            }
            End::Callee(callee) => {
                let key = PeerKey { index, serial: peer.serial };
                events.found.extend(callee.open_calls().map(|(call, task)| Event::Cancelled(key, call, task)));
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
    pub(crate) fn close_all(&mut self, now: Time, events: &mut Events) {
        let indices: Vec<usize> = self.ends.peers.iter().map(|(index, _)| index).collect();
        for index in indices {
            if let Some(endpoint) = self.ends.disconnect(index) {
                let (transport, end) =
                    (&mut Endpoint { queue: &mut *self.queue, id: endpoint }, &mut self.ends.peers[index].end);
                if let End::Plain(callee) = end {
                    callee.close(now, transport);
                } else if let Some(caller) = end.calls_grpc() {
                    caller.close(now, transport, Over::Closed);
                }
                self.close_of(now, index, endpoint, Close::Flush);
                self.lose(now, index, Reason::ConnectionLost, "closed from this side", events);
            }
        }
        self.queue.submit();
    }

    /// Waits until what was closed is written and read, for as long as that may take.
    pub(crate) fn linger(&mut self, events: &mut Events) {
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
pub(super) fn told(going: Option<&Going>, text: &str) -> String {
    match going {
        Some(Going { text: reason, .. }) if !reason.is_empty() => format!("{text}, which had said: {reason}"),
        _ => text.to_owned(),
    }
}
