//! Partition and aggregate: the parallel-unit model of D2P.
//!
//! An aggregator A splits a request over m workers `W_j` and puts their answers together. Three phases: PP (partition,
//! on A), CP (computation, on `W_j`), AP (aggregation, on A).
//!
//! ```text
//! elapsed(A_AP) = max over j ( elapsed(W_j_CP) + C(W_j) + L(A_AP) )                   (4)
//! deadline(l_p) = expected_deadline - elapsed(l_p),  l_p in {A_PP, W_j_CP, A_AP}      (5)
//! ```
//!
//! PP and CP are stages like any other and use (2) and (3); the phases differ only in how *elapsed* comes about.

use crate::deadline::{Budget, DeadlineField};
use crate::stage::StageService;
use std::time::Duration;

/// A request that was split, seen from its aggregator: where it stood at the split, and its slowest branch so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelUnit {
    partitioned: StageService,
    slowest: Option<Duration>,
    joined: u32,
}

impl ParallelUnit {
    /// Splits a request whose partition phase has been charged.
    #[must_use]
    pub const fn split(partitioned: StageService) -> Self {
        Self { partitioned, slowest: None, joined: 0 }
    }

    /// What the branches may use, so that an aggregation that takes `aggregation` still fits into `budget`.
    #[must_use]
    pub const fn branch_budget(budget: Budget, aggregation: Duration) -> Budget {
        budget.after_stage(aggregation)
    }

    /// What a branch carries: the whole of what is left, equation (5) at the end of PP, and the flag.
    #[must_use]
    pub const fn field(&self) -> DeadlineField {
        DeadlineField { budget: self.partitioned.budget(), parallel_unit: true }
    }

    /// A branch at the split; its worker charges it as a stage, equations (2) and (3).
    #[must_use]
    pub const fn branch(&self) -> StageService {
        self.partitioned
    }

    /// Takes in a branch that came back: its time since the request's birth, and `wire` for the way back.
    pub fn join(&mut self, branch_elapsed: Duration, wire: Duration) {
        let elapsed = branch_elapsed.saturating_add(wire);
        self.slowest = self.slowest.max(Some(elapsed));
        self.joined = self.joined.saturating_add(1);
    }

    /// How many branches came back.
    #[must_use]
    pub const fn joined(&self) -> u32 {
        self.joined
    }

    /// The request after an aggregation that took `aggregation`: equations (4) and (5).
    ///
    /// `None` before a branch has come back.
    #[must_use]
    pub fn aggregate(&self, aggregation: Duration) -> Option<StageService> {
        let mut request = StageService::since_birth(self.partitioned.expected(), self.slowest?);
        request.pass(Duration::ZERO, aggregation);
        Some(request)
    }
}
