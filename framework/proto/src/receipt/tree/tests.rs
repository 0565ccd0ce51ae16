use proptest::collection::vec;
use proptest::prelude::*;

use super::super::encoding::tests::receipt;
use super::*;
use crate::status::Code;
use crate::wire::StageName;

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A call of 1 us on the network and no queue, to a stage that makes no calls.
fn call(name: &str, sent_after: u64, service: u64) -> StageReceipt {
    StageReceipt {
        stage: StageName::new(name).unwrap(),
        branch: None,
        depth: 0,
        sent_after: us(sent_after),
        network: us(1),
        queue: us(0),
        service: us(service),
        total: us(service),
        status: Code::Ok,
    }
}

fn branch(index: u16, sent_after: u64, service: u64) -> StageReceipt {
    StageReceipt { branch: Some(index), ..call("shard", sent_after, service) }
}

fn own(service: u64) -> Receipt {
    Receipt { service: us(service), total: us(service), ..Receipt::default() }
}

fn with_calls(service: u64, calls: impl IntoIterator<Item = StageReceipt>) -> Receipt {
    let mut receipt = own(service);
    calls.into_iter().for_each(|call| receipt.add(call, &Receipt::default()));
    receipt
}

#[test]
fn a_chain_takes_what_its_stages_and_wires_take() {
    let last = own(30);
    let mut middle = own(20);
    middle.add(call("last", 5, 30), &last);
    middle.total = us(20 + 31);
    let mut first = own(10);
    first.add(StageReceipt { total: middle.total, ..call("middle", 2, 20) }, &middle);
    assert_eq!(first.children.iter().map(|stage| stage.depth).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(first.critical_path(), us(10 + (1 + 20) + (1 + 30)));
}

#[test]
fn calls_one_after_the_other_add_up() {
    let receipt = with_calls(5, [call("a", 1, 10), call("b", 20, 7)]);
    assert_eq!(receipt.critical_path(), us(5 + 11 + 8));
}

#[test]
fn of_a_parallel_unit_the_slowest_branch_counts() {
    let receipt = with_calls(5, [branch(0, 1, 10), branch(1, 1, 40), branch(2, 2, 20)]);
    assert_eq!(receipt.critical_path(), us(5 + 41));
}

#[test]
fn a_hedge_belongs_to_the_unit_it_was_sent_for() {
    let receipt = with_calls(0, [branch(0, 1, 100), branch(1, 1, 10), branch(0, 50, 20)]);
    assert_eq!(receipt.critical_path(), us(101));
}

#[test]
fn units_one_after_the_other_add_up() {
    let receipt = with_calls(0, [branch(0, 1, 10), branch(1, 1, 30), branch(0, 40, 20), branch(1, 40, 5)]);
    assert_eq!(receipt.critical_path(), us(31 + 21));
    let single_branches = with_calls(0, [branch(0, 1, 10), branch(0, 20, 10)]);
    assert_eq!(single_branches.critical_path(), us(22));
}

#[test]
fn the_costliest_stage_is_looked_for_where_the_time_went() {
    let receipt = with_calls(5, [call("profile", 1, 10), call("history", 20, 30)]);
    assert_eq!(receipt.costliest().unwrap().stage.as_str(), "history");
    let receipt = with_calls(50, [call("profile", 1, 10)]);
    assert_eq!(receipt.costliest(), None);
}

#[test]
fn of_a_wide_fan_out_the_slowest_branch_stays_and_the_rest_are_counted() {
    let branches = (0..300).map(|index| branch(index, 1, if index == 17 { 1000 } else { 10 + u64::from(index) }));
    let mut receipt = with_calls(5, branches);
    receipt.trim(STAGES_MOST, RECEIPT_BYTES_MOST);
    assert_eq!(receipt.children.len(), STAGES_MOST);
    assert_eq!(receipt.omitted, 300 - STAGES_MOST as u32);
    assert_eq!(receipt.critical_path(), us(5 + 1001));
    let kept: Vec<_> = receipt.children.iter().filter_map(|stage| stage.branch).collect();
    assert_eq!(kept, std::iter::once(17).chain(237..300).collect::<Vec<u16>>(), "the slowest, in their order");
}

proptest! {
    #[test]
    fn what_stays_is_a_tree_and_keeps_the_time_it_had(receipt in receipt(100), stages in 0_usize..100) {
        let mut trimmed = receipt.clone();
        trimmed.trim(stages, usize::MAX);
        prop_assert!(trimmed.children.len() == stages.min(receipt.children.len()));
        prop_assert_eq!(
            trimmed.children.len() + trimmed.omitted as usize,
            receipt.children.len() + receipt.omitted as usize
        );
        let mut deepest = 0;
        for stage in &trimmed.children {
            prop_assert!(stage.depth <= deepest);
            deepest = stage.depth + 1;
        }
    }

    /// Units one after the other, each sent at once and answered whole before the next.
    #[test]
    fn trimming_to_no_fewer_than_the_slowest_branches_keeps_the_critical_path(
        units in vec(vec(1_u64..1000, 1..20), 1..8),
        spare in 0_usize..60,
    ) {
        let mut sent = 0;
        let mut receipt = own(5);
        for unit in &units {
            for (index, service) in (0..).zip(unit) {
                receipt.children.push(branch(index, sent, *service));
            }
            sent += 1 + unit.iter().max().expect("at least one branch");
        }
        let slowest: u64 = units.iter().map(|unit| 1 + unit.iter().max().expect("at least one branch")).sum();
        prop_assert_eq!(receipt.critical_path(), us(5 + slowest));
        receipt.trim(units.len() + spare, usize::MAX);
        prop_assert_eq!(receipt.critical_path(), us(5 + slowest));
    }
}
