//! Who gets the next call.

use greenwave_policy::{Dispatch, DispatchRule, Load};
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn of_equally_short_queues_the_most_served_gets_the_call() {
    let load = |unfinished, served| Load { unfinished, served };
    let loads = [load(2, 900), load(1, 3), load(1, 40), load(1, 7)];
    assert_eq!(Dispatch::new(DispatchRule::JoinShortestQueue, 0).choose(&loads), 2);
}

#[test]
fn rules_are_known_by_their_names() {
    DispatchRule::ALL.iter().for_each(|rule| assert_eq!(rule.to_string().parse(), Ok(*rule)));
    let unknown = "best".parse::<DispatchRule>().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no dispatch rule is called \"best\"; use one of jsq power-of-two random round-robin"
    );
}

#[test]
fn random_is_even() {
    let mut dispatch = Dispatch::new(DispatchRule::Random, 7);
    let mut calls = [0_u32; 8];
    (0..80_000).for_each(|_| calls[dispatch.choose(&[Load::default(); 8])] += 1);
    assert!(calls.iter().all(|&calls| calls.abs_diff(10_000) < 500), "{calls:?}");
}

#[test]
fn power_of_two_draws_every_pair() {
    let mut dispatch = Dispatch::new(DispatchRule::PowerOfTwo, 7);
    let loads = [1, 2, 3, 4, 5].map(|unfinished| Load { unfinished, served: 0 });
    let mut calls = [0_u32; 5];
    (0..100_000).for_each(|_| calls[dispatch.choose(&loads)] += 1);
    // Of ten pairs four have the first as the better one, three the second, and so on.
    for (worker, calls) in calls.into_iter().enumerate() {
        assert!(calls.abs_diff(10_000 * (4 - worker as u32)) < 1000, "{worker}: {calls}");
    }
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    vec((0..5_u32, 0..5_u32).prop_map(|(unfinished, served)| Load { unfinished, served }), 1..20)
}

proptest! {
    #[test]
    fn the_shortest_queue_is_joined(loads in loads(), seed: u64) {
        let chosen = loads[Dispatch::new(DispatchRule::JoinShortestQueue, seed).choose(&loads)];
        for load in loads {
            prop_assert!(chosen.unfinished <= load.unfinished);
            prop_assert!(chosen.unfinished < load.unfinished || chosen.served >= load.served);
        }
    }

    #[test]
    fn power_of_two_never_takes_the_one_worst(mut loads in loads(), seed: u64) {
        loads.push(Load { unfinished: 9, served: 0 });
        let mut dispatch = Dispatch::new(DispatchRule::PowerOfTwo, seed);
        (0..20).for_each(|_| assert_ne!(dispatch.choose(&loads), loads.len() - 1));
    }

    #[test]
    fn round_robin_takes_each_in_turn(workers in 1..20_usize, seed: u64) {
        let mut dispatch = Dispatch::new(DispatchRule::RoundRobin, seed);
        let loads = vec![Load::default(); workers];
        for call in 0..3 * workers {
            prop_assert_eq!(dispatch.choose(&loads), call % workers);
        }
    }

    #[test]
    fn another_seed_makes_other_choices(one: u64, other: u64) {
        prop_assume!(one != other);
        let choices = |seed| {
            let mut dispatch = Dispatch::new(DispatchRule::Random, seed);
            [(); 40].map(|()| dispatch.choose(&[Load::default(); 8]))
        };
        prop_assert_ne!(choices(one), choices(other));
    }

    #[test]
    fn the_same_seed_makes_the_same_choices(loads in loads(), seed: u64) {
        for rule in DispatchRule::ALL {
            let (mut one, mut other) = (Dispatch::new(rule, seed), Dispatch::new(rule, seed));
            (0..20).for_each(|_| assert_eq!(one.choose(&loads), other.choose(&loads)));
        }
    }

    /// Workers may come and go between calls, and counters hold anything.
    #[test]
    fn the_choice_is_always_a_worker(changing in vec(vec((any::<u32>(), any::<u32>()), 1..9), 1..9), seed: u64) {
        for rule in DispatchRule::ALL {
            let mut dispatch = Dispatch::new(rule, seed);
            for loads in &changing {
                let loads: Vec<_> = loads.iter().map(|&(unfinished, served)| Load { unfinished, served }).collect();
                prop_assert!(dispatch.choose(&loads) < loads.len());
            }
        }
    }
}
