use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn call(called: u64, ask: Ask, outcome: Outcome) -> Call {
    Call { client: 0, called, ended: called + 1, ask, outcome }
}

fn put(called: u64, value: &str, outcome: Outcome) -> Call {
    call(called, Ask::Put { key: "k".into(), value: value.into() }, outcome)
}

fn get(called: u64, value: &str) -> Call {
    call(called, Ask::Get { key: "k".into() }, Outcome::Value(Some(value.into())))
}

#[test]
fn a_write_that_failed_must_not_be_read() {
    let failed = put(0, "a", Outcome::Failed("nobody leads".into()));
    let violation = |calls| vec![Violation { key: "k".into(), explained: 0, calls }];
    assert_eq!(Checker::default().take(&[failed.clone(), get(5, "a")], LIMIT), violation(1));
    let keys = vec!["k".into(), "l".into()];
    let scan = call(5, Ask::Scan { keys }, Outcome::Rows(vec![("k".into(), "a".into())]));
    let mut checker = Checker::default();
    assert_eq!(checker.take(&[failed, scan], LIMIT), violation(1));
    assert_eq!(checker.found(), Found { in_order: 1, undecided: 0 });
}

#[test]
fn a_value_of_a_part_before_is_known_and_one_that_was_overwritten_is_not() {
    let mut checker = Checker::default();
    let unknown = || Outcome::Unknown("no answer".into());
    assert_eq!(checker.take(&[put(0, "a", Outcome::Written), put(10, "late", unknown())], LIMIT), []);
    assert_eq!(checker.take(&[get(20, "a"), put(30, "b", Outcome::Written)], LIMIT), []);
    assert_eq!(checker.take(&[get(40, "b"), get(50, "late")], LIMIT), []);
    let violation = Violation { key: "k".into(), explained: 5, calls: 7 };
    assert_eq!(checker.take(&[get(60, "a")], LIMIT), [violation]);
    assert_eq!(checker.found(), Found::default());
}

#[test]
fn no_more_values_are_kept_than_can_be_read() {
    let mut checker = Checker::default();
    for part in 0..100 {
        let (old, new) = (format!("{part}-old"), format!("{part}-new"));
        let calls = [put(part * 10, &old, Outcome::Written), put(part * 10 + 3, &new, Outcome::Written)];
        assert_eq!(checker.take(&calls, LIMIT), []);
        assert_eq!(checker.values.numbers.keys().collect::<Vec<_>>(), [&new]);
    }
}
