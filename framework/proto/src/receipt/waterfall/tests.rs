use proptest::prelude::*;

use super::super::encoding::tests::receipt;
use super::super::{Receipt, StageReceipt};
use super::*;
use crate::status::Code;
use crate::wire::StageName;

const MS: Duration = Duration::from_millis(1);

fn shard(index: u16, queue: u32, service: u32) -> StageReceipt {
    StageReceipt {
        stage: StageName::new("shard").unwrap(),
        branch: Some(index),
        depth: 0,
        sent_after: 2 * MS,
        network: 2 * MS,
        queue: queue * MS,
        service: service * MS,
        total: (queue + service) * MS,
        status: Code::Ok,
    }
}

#[test]
fn a_waterfall_shows_when_each_stage_had_the_request() {
    let mut receipt = Receipt { queue: MS, service: 2 * MS, total: 10 * MS, ..Receipt::default() };
    receipt.add(shard(0, 1, 2), &Receipt::default());
    receipt.add(shard(1, 0, 5), &Receipt { omitted: 3, ..Receipt::default() });
    let drawn = receipt.waterfall("search", 20).to_string();
    let expected = "\
search                       |▒▒██──────────────██|   10.00ms  queue 1.0ms, service 2.0ms
  shard [0]                  |    ··▒▒████··      |    5.00ms  queue 1.0ms, service 2.0ms, network 2.0ms
  shard [1]                  |    ··██████████··  |    7.00ms  queue 0.0ns, service 5.0ms, network 2.0ms
(3 more stages were left out)
";
    assert_eq!(drawn, expected);
}

proptest! {
    #[test]
    fn whatever_a_receipt_says_it_can_be_drawn(receipt in receipt(30), columns in 0_usize..100) {
        let drawn = receipt.waterfall("root", columns).to_string();
        let lines = 1 + receipt.children.len() + usize::from(receipt.omitted > 0);
        prop_assert_eq!(drawn.lines().count(), lines);
    }
}
