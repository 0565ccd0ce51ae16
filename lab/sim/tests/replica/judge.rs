//! The checker of histories is checked: against all orders there are, and with what it has to find.

use greenwave_sim::replica::history::{Answer, Call, CallId, History};
use greenwave_sim::{Seed, Stream};

/// One call of a history, by when it was made and answered.
#[derive(Clone, Copy)]
struct Made {
    begun: usize,
    ended: Option<usize>,
    call: Call,
    answer: Option<Answer>,
}

/// Whether some order explains the answers: all orders are tried.
fn explained(value: Option<u64>, left: &[Made]) -> bool {
    if left.iter().all(|made| made.ended.is_none()) {
        return true;
    }
    let first_end = left.iter().filter_map(|made| made.ended).min().unwrap();
    (0..left.len()).filter(|&index| left[index].begun < first_end).any(|index| {
        let made = left[index];
        let (next, answer) = made.call.apply(value);
        let mut rest = left.to_vec();
        rest.remove(index);
        made.answer.is_none_or(|told| told == answer) && explained(next, &rest)
    })
}

/// A history of three clients on one key, whose answers are mostly right.
fn random(stream: &mut Stream) -> (History, Vec<Made>) {
    let mut history = History::default();
    let mut all: Vec<Made> = Vec::new();
    let mut open: Vec<Option<(CallId, usize)>> = vec![None; 3];
    let mut value = None;
    for step in 0..14 {
        let client = stream.below(3) as usize;
        match open[client].take() {
            None => {
                let call = match stream.below(4) {
                    0 => Call::Put(stream.below(3)),
                    1 => Call::Swap { old: Some(stream.below(3)), new: stream.below(3) },
                    2 => Call::Delete,
                    _ => Call::Get,
                };
                open[client] = Some((history.call(0, call), all.len()));
                all.push(Made { begun: step, ended: None, call, answer: None });
            }
            // Its outcome stays unknown.
            Some(_) if stream.chance(0.15) => {}
            Some((id, index)) => {
                let (next, mut answer) = all[index].call.apply(value);
                value = next;
                if stream.chance(0.1) {
                    answer = Answer::Value(Some(stream.below(3)));
                }
                history.answer(id, answer);
                all[index].ended = Some(step);
                all[index].answer = Some(answer);
            }
        }
    }
    (history, all)
}

#[test]
fn the_checker_agrees_with_trying_all_orders() {
    let mut stream = Seed::new(1).stream("histories", 0);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..5_000 {
        let (history, all) = random(&mut stream);
        let expected = explained(None, &all);
        assert_eq!(history.check().is_ok(), expected, "round {round}: {history:?}");
        if expected { right += 1 } else { wrong += 1 }
    }
    assert!(right > 1_000 && wrong > 1_000, "{right} right, {wrong} wrong");
}

/// An acknowledged write that a later read doesn't see, and a value that nobody wrote.
#[test]
fn lost_and_invented_writes_are_found() {
    let mut history = History::default();
    let put = history.call(7, Call::Put(1));
    history.answer(put, Answer::Put);
    let read = history.call(7, Call::Get);
    assert!(history.check().is_ok());
    let mut lost = history.clone();
    lost.answer(read, Answer::Value(None));
    let found = lost.check().unwrap_err();
    assert_eq!(found.key, 7);
    assert!(found.to_string().contains("Put(1)"), "{found}");
    let mut invented = history.clone();
    invented.answer(read, Answer::Value(Some(2)));
    assert!(invented.check().is_err());
    history.answer(read, Answer::Value(Some(1)));
    assert!(history.check().is_ok());
}

/// What wasn't answered may have happened or not, but not both; what was refused didn't.
#[test]
fn unknown_outcomes() {
    let mut history = History::default();
    let unknown = history.call(1, Call::Put(5));
    for (seen, fine) in [(None, true), (Some(5), true), (None, false)] {
        let read = history.call(1, Call::Get);
        history.answer(read, Answer::Value(seen));
        assert_eq!(history.check().is_ok(), fine, "{seen:?}");
    }
    let mut refused = History::default();
    let put = refused.call(1, Call::Put(5));
    let read = refused.call(1, Call::Get);
    refused.answer(read, Answer::Value(Some(5)));
    assert!(refused.check().is_ok());
    refused.refuse(put);
    assert!(refused.check().is_err());
    let _ = unknown;
}
