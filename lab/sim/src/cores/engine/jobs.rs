//! Unfinished jobs.

use greenwave_policy::Deadline;

/// A job, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) arrived: u64,
    /// What it still has to do, probes included, and what it has done.
    pub(super) left: u64,
    pub(super) had: u64,
    /// What it has to do in all, without probes.
    pub(super) work: u64,
    pub(super) deadline: Deadline,
    pub(super) quanta: u32,
    pub(super) method: u16,
    pub(super) counted: bool,
}

/// What a job is after a turn.
pub(super) struct Served {
    pub(super) left: u64,
    pub(super) quanta: u32,
}

/// All unfinished jobs, by numbers that are used again.
#[derive(Debug)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    pub(super) fn new(limit: usize) -> Self {
        let room = limit.min(1 << 12);
        Self { jobs: Vec::with_capacity(room), free: Vec::with_capacity(room) }
    }

    #[inline]
    pub(super) fn add(&mut self, job: Job) -> u32 {
        match self.free.pop() {
            Some(free) => {
                self.jobs[free as usize] = job;
                free
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, job: u32) {
        self.free.push(job);
    }

    #[inline]
    pub(super) fn of(&self, job: u32) -> &Job {
        &self.jobs[job as usize]
    }

    /// A turn with so much work is over.
    #[inline]
    pub(super) fn serve(&mut self, job: u32, slice: u64) -> Served {
        let job = &mut self.jobs[job as usize];
        job.left -= slice;
        job.had += slice;
        job.quanta += 1;
        Served { left: job.left, quanta: job.quanta }
    }

    pub(super) fn unfinished(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// How many were unfinished at most.
    pub(super) fn most(&self) -> usize {
        self.jobs.len()
    }
}
