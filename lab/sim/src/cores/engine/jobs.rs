//! Unfinished jobs.

use greenwave_policy::Deadline;

/// A job, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::cores) struct Job {
    pub(in crate::cores) arrived: u64,
    /// What it still has to do, probes included, and what it has done.
    pub(in crate::cores) left: u64,
    pub(in crate::cores) had: u64,
    /// What it has to do in all, without probes.
    pub(in crate::cores) work: u64,
    pub(in crate::cores) deadline: Deadline,
    pub(in crate::cores) quanta: u32,
    pub(in crate::cores) method: u16,
    pub(in crate::cores) counted: bool,
    /// Which of its handler's parts: first those of its [stages](super::super::Method::stages) in turn, then what is left of each
    /// when it is replied to.
    pub(in crate::cores) leg: u8,
}

/// What a job is after a turn.
pub(in crate::cores) struct Served {
    pub(in crate::cores) left: u64,
    pub(in crate::cores) quanta: u32,
}

/// All unfinished jobs, by numbers that are used again.
#[derive(Debug)]
pub(in crate::cores) struct Jobs {
    jobs: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    pub(in crate::cores) fn new(limit: usize) -> Self {
        let room = limit.min(1 << 12);
        Self { jobs: Vec::with_capacity(room), free: Vec::with_capacity(room) }
    }

    #[inline]
    pub(in crate::cores) fn add(&mut self, job: Job) -> u32 {
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
    pub(in crate::cores) fn remove(&mut self, job: u32) {
        self.free.push(job);
    }

    #[inline]
    pub(in crate::cores) fn of(&self, job: u32) -> &Job {
        &self.jobs[job as usize]
    }

    /// Its next leg begins, with so much work.
    pub(in crate::cores) fn go_further(&mut self, job: u32, work: u64) {
        let job = &mut self.jobs[job as usize];
        (job.left, job.had) = (work, 0);
        job.work += work;
        job.leg += 1;
    }

    /// A turn with so much work is over.
    #[inline]
    pub(in crate::cores) fn serve(&mut self, job: u32, slice: u64) -> Served {
        let job = &mut self.jobs[job as usize];
        job.left -= slice;
        job.had += slice;
        job.quanta += 1;
        Served { left: job.left, quanta: job.quanta }
    }

    pub(in crate::cores) fn unfinished(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// How many were unfinished at most.
    pub(in crate::cores) fn most(&self) -> usize {
        self.jobs.len()
    }
}
