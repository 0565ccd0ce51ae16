//! What a server counts. Read at any time by any thread; each number is exact, the set of them a snapshot in passing.
//!
//! Every thread of a server has a set of its own, so counting is a load and a store and no two threads share a line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    pub(crate) fn sub(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(count), Relaxed);
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread of a server.
        #[derive(Debug, Default)]
        #[repr(align(64))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// What a server did since it was started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(),)* }
            }
        }

        impl std::iter::Sum for Snapshot {
            fn sum<I: Iterator<Item = Self>>(threads: I) -> Self {
                threads.fold(Self::default(), |sum, one| Self { $($name: sum.$name.wrapping_add(one.$name),)* })
            }
        }

        impl Snapshot {
            /// Names and values, in the order of the fields.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections that came in.
    accepted,
    /// Connections that are open.
    connections,
    /// Connections that began as gRPC's.
    grpc_connections,
    /// Connections that began as HTTP/1.1.
    web_connections,
    /// Times that connections had to wait to be accepted because the process had no descriptor or memory left for them.
    /// One that lasts counts once.
    starved,
    /// Connections refused because there were as many as [`Bounds`](crate::Bounds) allow.
    connections_refused,
    /// Requests and answers refused because as many bytes of messages were held as [`Bounds`](crate::Bounds) allow.
    memory_refused,
    /// Connections closed because the peer broke the protocol.
    violations,
    /// Connections that ended within a frame.
    truncated,
    /// Threads of the server that died, by a defect of this library, and whose connections were lost.
    threads_died,
    /// Turns in which a handler held up its thread for 100 ms or longer, by blocking it or by computing without a probe.
    held_up,
    /// Calls that heads gave away for others to take.
    given_away,
    /// Calls of other heads that were taken.
    stolen,
    /// Calls that came in whole.
    calls,
    /// Calls answered with OK in time.
    answered,
    /// Calls answered with OK after their deadline, with `report_only`.
    late,
    /// Calls that were late on arrival.
    expired_on_arrival,
    /// Calls whose time ran out in the queue.
    expired_in_queue,
    /// Calls whose time ran out while they were served.
    expired_in_service,
    /// Calls refused because less time was left than their method needs.
    infeasible,
    /// Calls refused because the queue was full.
    queue_full,
    /// Calls turned away, or refused, as the queue was full and their tenants had more there than others, for their weights.
    shed_over_share,
    /// Connections that began to be read in turn, as those who have them had more than their share.
    metered,
    /// Calls turned away as the queue was full and others matter more.
    shed_less_critical,
    /// Calls that would have been refused on arrival, as they were late, but for `report_only`. Each call counts at the
    /// first check that would have refused it.
    report_only_expired_on_arrival,
    /// Calls whose time ran out in the queue, and that were served all the same.
    report_only_expired_in_queue,
    /// Calls whose time ran out while they were served, and that were answered all the same.
    report_only_expired_in_service,
    /// Calls that would have been refused because less time was left than their method needs.
    report_only_infeasible,
    /// Calls that would have been refused because the queue was full.
    report_only_queue_full,
    /// Calls that their caller took back.
    cancelled,
    /// Calls that failed by their handler's own decision.
    failed,
    /// Calls whose handler panicked.
    panicked,
    /// Calls refused before anybody looked for their method: too large, with metadata that can't be read, or made
    /// after the client had heard that the server goes away.
    refused,
    /// Calls refused because their caller has not proved who it is.
    unauthenticated,
    /// Calls refused because their caller may not make them.
    permission_denied,
    /// Calls of methods that there are not.
    unknown_method,
    /// Times that heads looked at their completion queues.
    looks,
    /// Nanoseconds that they took to find something there or nothing.
    look_nanos,
    /// Times that heads posted replies.
    posts,
    /// Nanoseconds that it took.
    post_nanos,
    /// Nanoseconds that handlers ran.
    service_nanos,
    /// Nanoseconds that handlers ran for calls that were not answered with OK in time.
    wasted_nanos,
}
