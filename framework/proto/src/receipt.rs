//! What each stage of a request spent, as it comes back with the reply.
//!
//! A stage's time divides into what it waited for a worker (*queue*), what it ran (*service*), and what it waited
//! for its own calls: `total == queue + service + waiting`. The caller adds the *network*: its round trip less the
//! callee's total, so that the two clocks need not agree. Hence the receipts along a chain add up to what the
//! client's own clock measured: [`Receipt::critical_path`].
//!
//! Stages are listed in preorder, each with its depth below the callee that sends the list; siblings in the order in
//! which they were called. A list has at most [`STAGES_MOST`] entries; what is left out is counted.

mod encoding;
mod tree;
mod waterfall;

use std::time::Duration;

pub use encoding::{ReceiptError, ReceiptProblem, decode_stages};
pub use waterfall::Waterfall;

use crate::status::Code;
use crate::wire::StageName;

/// Most stages that a receipt lists. A fan-out to a few dozen shards fits; of what doesn't, the slowest are kept.
pub const STAGES_MOST: usize = 64;

/// What a call spent at its callee and at the stages behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// How long the call waited for the callee's workers, before it ran first and after each suspension.
    pub queue: Duration,
    /// How long its handler ran.
    pub service: Duration,
    /// How long the callee had it: from the receipt of the request to the writing of the reply.
    pub total: Duration,
    /// The stages that the callee called, and those that they called, in preorder.
    pub children: Vec<StageReceipt>,
    /// How many stages were left out of `children`, here or further down.
    pub omitted: u32,
}

/// What one stage spent on a call that another stage made to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageReceipt {
    /// The stage.
    pub stage: StageName,
    /// Its index among the branches of a parallel unit, if it was one.
    pub branch: Option<u16>,
    /// How many stages stand between it and the callee that sends the list: 0 for those called by that one.
    pub depth: u8,
    /// When its parent sent the call, since the parent received its own.
    pub sent_after: Duration,
    /// The round trip, less the stage's total.
    pub network: Duration,
    /// How long the call waited for the stage's workers.
    pub queue: Duration,
    /// How long its handler ran.
    pub service: Duration,
    /// How long the stage had it.
    pub total: Duration,
    /// How it ended.
    pub status: Code,
}

impl Receipt {
    /// How long the callee waited for its own calls: the rest of its total.
    pub fn waiting(&self) -> Duration {
        self.total.saturating_sub(self.queue).saturating_sub(self.service)
    }
}

impl StageReceipt {
    /// How long the stage waited for its own calls: the rest of its total.
    pub fn waiting(&self) -> Duration {
        self.total.saturating_sub(self.queue).saturating_sub(self.service)
    }

    /// How long its parent waited for it.
    pub fn round_trip(&self) -> Duration {
        self.network.saturating_add(self.total)
    }

    /// When its answer was there, since the parent received its own request.
    pub fn answered_after(&self) -> Duration {
        self.sent_after.saturating_add(self.round_trip())
    }

    /// Whether it answered in place of `failed`, another attempt at the same branch by the same parent. A parent may have
    /// several parallel units, one after the other, whose branches have the same numbers: a second attempt is made
    /// while the first is under way.
    pub fn stands_in_for(&self, failed: &Self) -> bool {
        let meanwhile = self.sent_after <= failed.answered_after() && failed.sent_after <= self.answered_after();
        self.status == Code::Ok && (self.depth, self.branch) == (failed.depth, failed.branch) && meanwhile
    }
}
