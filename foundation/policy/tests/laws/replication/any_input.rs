//! Whatever the controller is told, in whatever order: it doesn't panic, and says something that can be set.

use crate::strategies::{any_nanos, any_span, any_time};
use greenwave_policy::Time;
use greenwave_policy::replication::*;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Told {
    AddPeer(u64),
    RemovePeer(u64),
    Submitted(u64),
    Dropped(u64),
    Pulled(u64, u64, bool),
    Sent(u64, u64, u64),
    Acked(u64, u64),
    Echoed(u64, Duration),
    Reset(u64),
    Synced(u64, Duration),
    Worked(Duration, u64, u64, u64),
    Committed(u64, u64, Duration),
    Passes(Duration),
}

fn told() -> impl Strategy<Value = Told> {
    let (peer, any) = (|| 0..4_u64, any_nanos);
    let left = prop_oneof![Just(false), Just(true)];
    prop_oneof![
        peer().prop_map(Told::AddPeer),
        peer().prop_map(Told::RemovePeer),
        any().prop_map(Told::Submitted),
        any().prop_map(Told::Dropped),
        (any(), any(), left).prop_map(|(commands, bytes, left)| Told::Pulled(commands, bytes, left)),
        (peer(), 0..99_u64, any()).prop_map(|(peer, index, bytes)| Told::Sent(peer, index, bytes)),
        (peer(), 0..99_u64).prop_map(|(peer, index)| Told::Acked(peer, index)),
        (peer(), any_span()).prop_map(|(peer, took)| Told::Echoed(peer, took)),
        peer().prop_map(Told::Reset),
        (any(), any_span()).prop_map(|(bytes, took)| Told::Synced(bytes, took)),
        (any_span(), any(), any(), any())
            .prop_map(|(took, messages, bytes, commands)| { Told::Worked(took, messages, bytes, commands) }),
        (any(), any(), any_span()).prop_map(|(commands, bytes, longest)| Told::Committed(commands, bytes, longest)),
        (0..1_u64 << 32).prop_map(|nanos| Told::Passes(Duration::from_nanos(nanos))),
    ]
}

fn tell(controller: &mut Controller, now: Time, told: &Told) {
    match *told {
        Told::AddPeer(peer) => controller.add_peer(PeerId(peer)),
        Told::RemovePeer(peer) => controller.remove_peer(PeerId(peer)),
        Told::Submitted(commands) => controller.submitted(now, commands),
        Told::Dropped(commands) => controller.dropped(now, commands),
        Told::Pulled(commands, bytes, left) => controller.pulled(commands, bytes, left),
        Told::Sent(peer, index, bytes) => controller.sent(PeerId(peer), now, index, bytes),
        Told::Acked(peer, index) => controller.acked(PeerId(peer), now, index),
        Told::Echoed(peer, took) => controller.echoed(PeerId(peer), now, took),
        Told::Reset(peer) => controller.reset(PeerId(peer), now),
        Told::Synced(bytes, took) => controller.synced(bytes, took),
        Told::Worked(took, messages, bytes, commands) => controller.worked(took, messages, bytes, commands),
        Told::Committed(commands, bytes, longest) => controller.committed(now, commands, bytes, longest),
        Told::Passes(_) => {}
    }
}

fn check(controller: &Controller) {
    for peer in 0..5 {
        let setting = controller.setting(PeerId(peer));
        assert_eq!(Setting::new(setting.batch_bytes(), setting.window_bytes()), Ok(setting));
    }
    if let Some(prediction) = controller.prediction() {
        assert!(prediction.ops_per_s.is_finite());
    }
}

proptest! {
    #[test]
    fn the_controller_takes_whatever_it_is_told(
        from in any_time(), aim in prop_oneof![Just(Aim::Throughput), any_span().prop_map(Aim::Latency)],
        all in prop::collection::vec(told(), 0..400),
    ) {
        let mut controller = Controller::new(aim);
        (1..4).for_each(|peer| controller.add_peer(PeerId(peer)));
        let mut now = from;
        for told in &all {
            if let Told::Passes(span) = told {
                now = now + *span;
                controller.tick(now);
                check(&controller);
            }
            tell(&mut controller, now, told);
        }
        controller.tick(Time::MAX);
        check(&controller);
    }

    /// A clock that goes back, or jumps.
    #[test]
    fn the_controller_takes_any_time(steps in prop::collection::vec((any_time(), told()), 0..200)) {
        let mut controller = Controller::new(Aim::Throughput);
        (1..4).for_each(|peer| controller.add_peer(PeerId(peer)));
        for (now, told) in &steps {
            controller.tick(*now);
            tell(&mut controller, *now, told);
            check(&controller);
        }
    }
}
