//! By which ends of connections something comes to a head, or goes: each that has something takes a system call.

use super::engine::jobs::Job;
use super::load::Load;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The caller's connection.
    Caller,
    /// The server's own, by which handlers call: the calls, and the replies to them.
    Calls,
    Replies,
}

/// Which ends have something.
pub(super) struct Ends([bool; 3]);

impl Ends {
    /// Those of all that is there.
    pub(super) fn of(all: impl Iterator<Item = End>) -> Self {
        let mut some = [false; 3];
        all.for_each(|end| some[end as usize] = true);
        Self(some)
    }

    /// Whether something is of the server's own connection.
    pub(super) fn has_own(&self) -> bool {
        self.0[End::Calls as usize] || self.0[End::Replies as usize]
    }

    /// How many have something, beyond one.
    pub(super) fn beyond_one(&self) -> u64 {
        self.0.iter().map(|has| u64::from(*has)).sum::<u64>().saturating_sub(1)
    }
}

impl Load {
    /// By which end a job's part has come.
    pub(super) fn came_by(&self, job: &Job) -> End {
        match (usize::from(job.leg), self.methods()[usize::from(job.method)].stages.len()) {
            (0, _) => End::Caller,
            (leg, stages) if leg <= stages => End::Calls,
            _ => End::Replies,
        }
    }

    /// By which end it goes when that is done.
    pub(super) fn goes_by(&self, job: &Job) -> End {
        match (usize::from(job.leg), self.methods()[usize::from(job.method)].stages.len()) {
            (leg, stages) if leg == 2 * stages => End::Caller,
            (leg, stages) if leg < stages => End::Calls,
            _ => End::Replies,
        }
    }
}
