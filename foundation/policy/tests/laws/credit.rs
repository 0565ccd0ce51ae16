//! Both sides of a connection, between them a wire.

use greenwave_policy::{CreditError, Credits, Returns, Time, Withholding};
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn a_credit_is_a_buffer() {
    let mut credits = Credits::new(2);
    assert!(credits.take() && credits.take());
    assert!(!credits.take(), "a third chunk has no buffer");
    assert_eq!(credits.give(1), Ok(()));
    assert_eq!(credits.available(), 1);
}

#[test]
fn credits_are_withheld_while_that_may_help_and_then_not_before_the_crowd_is_gone() {
    let told = [(0, true), (99, true), (100, true), (900, true), (901, false), (902, true), (903, false)];
    let mut withholding = Withholding::default();
    let is_on = told.map(|(millis, crowded)| {
        withholding = withholding.then(Time::from_nanos(millis * 1_000_000), crowded);
        withholding.is_on()
    });
    assert_eq!(is_on, [true, true, false, false, false, true, false]);
}

#[test]
fn credits_out_of_nowhere_are_found_out() {
    let mut credits = Credits::new(4);
    assert!(credits.take());
    let error = credits.give(2).unwrap_err();
    assert_eq!(error, CreditError::TooMany { returned: 2, used: 1 });
    assert_eq!(error.to_string(), "the peer returned 2 credits where 1 were used; close the connection");
    assert_eq!(credits.available(), 3);
}

#[test]
fn a_chunk_without_a_credit_is_found_out() {
    let mut returns = Returns::new(1);
    assert_eq!(returns.received(), Ok(()));
    returns.freed(1);
    assert_eq!(returns.received(), Err(CreditError::Overrun { ring: 1 }), "owed is not returned");
    assert_eq!(returns.take(), 1);
    assert_eq!(returns.received(), Ok(()));
}

#[test]
fn more_than_a_frame_can_say_goes_back_in_two() {
    let mut returns = Returns::new(100_000);
    (0..100_000).for_each(|_| returns.received().expect("within the ring"));
    returns.freed(u32::MAX);
    assert_eq!((returns.take(), returns.take(), returns.owed()), (u16::MAX, 34_465, 0));
}

#[test]
fn half_of_the_ring_is_due() {
    for (ring, half) in [(8, 4), (9, 4)] {
        let mut returns = Returns::new(ring);
        (0..ring).for_each(|_| returns.received().expect("within the ring"));
        returns.freed(half - 1);
        assert!(!returns.is_due());
        returns.freed(1);
        assert!(returns.is_due());
    }
}

#[test]
fn a_ring_of_one_is_due_at_once() {
    let mut returns = Returns::new(1);
    assert!(!returns.is_due());
    returns.received().expect("within the ring");
    returns.freed(1);
    assert!(returns.is_due());
}

/// What happens next on a connection.
#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    ChunkArrives,
    Free(u32),
    Return,
    ReturnArrives,
}

proptest! {
    /// Sender's, on the wire, held, owed and on the way back: always the ring, and never an error among the honest.
    #[test]
    fn credits_are_neither_made_nor_lost(ring in 1..20_u32, acts in vec(act(), 0..300)) {
        let (mut credits, mut returns) = (Credits::new(ring), Returns::new(ring));
        let (mut chunks, mut held, mut back) = (0_u32, 0_u32, 0_u32);
        for act in acts {
            match act {
                Act::Send => {
                    let available = credits.available();
                    let may = credits.take();
                    prop_assert_eq!(may, available > 0);
                    chunks += u32::from(may);
                }
                Act::ChunkArrives if chunks > 0 => {
                    chunks -= 1;
                    held += 1;
                    prop_assert_eq!(returns.received(), Ok(()));
                }
                Act::Free(buffers) => {
                    returns.freed(buffers);
                    held -= buffers.min(held);
                }
                Act::Return => back += u32::from(returns.take()),
                Act::ReturnArrives => {
                    prop_assert_eq!(credits.give(back), Ok(()));
                    back = 0;
                }
                Act::ChunkArrives => {}
            }
            prop_assert_eq!(credits.available() + chunks + held + returns.owed() + back, ring);
        }
    }

    /// Once all buffers are empty, either the sender may send or the receiver is to return credits.
    #[test]
    fn nobody_waits_for_the_other_for_ever(ring in 1..20_u32, acts in vec(act(), 0..300)) {
        let (mut credits, mut returns) = (Credits::new(ring), Returns::new(ring));
        for act in acts {
            match act {
                Act::Send if credits.take() => {
                    returns.received().expect("sent with a credit");
                    returns.freed(1);
                }
                Act::Return => credits.give(returns.take().into()).expect("was used"),
                _ => {}
            }
            prop_assert!(credits.available() > 0 || returns.is_due());
        }
    }

    #[test]
    fn more_than_the_ring_is_never_available(ring: u32, taken in 0..50_u32, returned: u32) {
        let mut credits = Credits::new(ring);
        let used = (0..taken).filter(|_| credits.take()).count() as u32;
        prop_assert_eq!(used, taken.min(ring));
        prop_assert_eq!(credits.give(returned).is_ok(), returned <= used);
        prop_assert!(credits.available() <= credits.ring());
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Send),
        3 => Just(Act::ChunkArrives),
        2 => (0..4_u32).prop_map(Act::Free),
        1 => Just(Act::Return),
        1 => Just(Act::ReturnArrives),
    ]
}
