//! A replicated state machine on greenwave-rpc: commands that a majority has on disk, applied everywhere in one order.
//!
//! Consensus is [raft-rs](https://docs.rs/raft)'s; what is ours is how it is fed: batches that are pulled when a slot
//! of the window is free, writes to disk beside the network, deadlines, sessions, and settings that can be changed
//! while it runs.
//!
//! # The way of a command
//! 1. A client gives its command to [`Core`](core::Core) ([`Input::Submit`](core::Input::Submit)) with the session it
//!    belongs to and a deadline. What can't be taken is refused at once: there is another leader (its name comes with
//!    the refusal), the queue is full, the deadline has passed or can't be met.
//! 2. Commands wait in one queue. While a majority of the voters has a slot free in its window, the leader *pulls* the
//!    queue's head, up to a batch's bytes, into one entry of the log: an *instance* of consensus. A lone command finds
//!    a slot and is proposed in the same turn; under load the window is full most of the time, and batches grow by
//!    themselves.
//! 3. The entry goes to the followers ([`Output::Send`](core::Output::Send)) and to the disk
//!    ([`Output::Persist`](core::Output::Persist)) at the same time. A replica counts only once its write is durable
//!    ([`Input::Persisted`](core::Input::Persisted)): a follower answers then, and the leader counts itself then.
//! 4. Once a majority has it, the entry is handed out ([`Output::Apply`](core::Output::Apply)). An [`Applier`] owns
//!    the [`StateMachine`] and the [`Sessions`]: it applies each command that its session hasn't had before, and tells
//!    the core what the answers are ([`Input::Applied`](core::Input::Applied)).
//! 5. The leader gives each client its answer ([`Output::Answer`](core::Output::Answer)).
//!
//! The core reads no clock, opens no file or socket, and starts no thread: time comes in, and what is to be done goes
//! out. A simulation drives the same code in virtual time; [`runtime`] drives it for real, with [`log`] as its disk.
//!
//! # Invariants
//! 1. What was acknowledged is on the disks of a majority: no answer, vote or acknowledgement leaves before the
//!    write that it rests on is durable. After a write has failed nothing leaves at all.
//! 2. An entry is applied only when it is committed and durable here, in the order of indices, once.
//! 3. A command of a session is applied at most once, however often it is sent and whoever leads.
//! 4. A command whose deadline has passed isn't proposed.
//! 5. A command is answered exactly once, and memory is bounded: queue, log, sessions and reads have a limit each,
//!    and what goes beyond is refused.
//! 6. Two cores that are given the same inputs at the same times give the same outputs.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic, clippy::unreachable))]

pub mod applier;
pub mod batch;
pub mod core;
pub mod door;
mod entry;
pub mod founding;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod ids;
pub mod log;
pub mod machine;
pub mod membership;
pub mod message;
mod place;
pub mod runtime;
pub mod sessions;

pub use self::applier::Applier;
pub use self::entry::{Entry, EntryKind, HardState, SnapshotMeta};
pub use self::identity::{GroupId, Identity, Incarnation, NoIdentity, Roster, Standing};
pub use self::ids::{ClientId, Index, NodeId, Sequence, Session, Term, Ticket};
pub use self::machine::{MachineError, StateMachine};
pub use self::membership::{Change, Enrolment, Membership, MembershipError, Peer};
pub use self::message::{Message, MessageError, MessageKind};
pub use self::place::{Place, PlaceError};
pub use self::runtime::{GroupKey, Lookup, PeerAccess, Reach, Replica, ReplicaConfig, ReplicaError, ReplicaHandle};
pub use self::sessions::{Answer, SessionLimits, Sessions};
