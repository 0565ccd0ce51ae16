//! What the controller makes of what it is told. How well it does in a group is measured on real cores, in the simulator.

use greenwave_policy::Time;
use greenwave_policy::replication::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Five replicas at 5, 20, 80 and 300 ms: the second acknowledgement commits, so the second one's path is what counts.
#[test]
fn the_follower_that_completes_the_quorum_decides() {
    let mut controller = Controller::new(Aim::Throughput);
    let trips = [5, 20, 80, 300];
    (0..4).for_each(|peer| controller.add_peer(PeerId(peer)));
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in 0..5000 {
        controller.submitted(at(millis), 10);
        controller.pulled(10, 1000, false);
        for (peer, trip) in trips.into_iter().enumerate() {
            if millis >= trip {
                controller.acked(PeerId(peer as u64), at(millis), millis - trip);
            }
            controller.sent(PeerId(peer as u64), at(millis), millis, 1000);
        }
        if millis >= 20 {
            controller.committed(at(millis), 10, 100, 20 * MS);
        }
        controller.tick(at(millis));
    }
    assert_eq!(controller.quorum_peer(), Some(PeerId(1)));
    let window = |peer| controller.setting(PeerId(peer)).window();
    assert_eq!((window(0), window(1)), (controller.quorum_setting().window(), controller.quorum_setting().window()));
    // Of one batch a millisecond, 80 and 300 are under way there; and each has room for twice that.
    assert!(window(2) >= 160 && window(3) >= 600, "{} {} {}", window(1), window(2), window(3));
    let delay = controller.environment().expect("there was time enough").network().delay;
    assert!(delay >= 9 * MS && delay <= 11 * MS, "{delay:?}");

    controller.remove_peer(PeerId(0));
    controller.remove_peer(PeerId(1));
    assert_eq!(controller.quorum_peer(), None);
}

/// A follower whose syncs are slow, and a leader whose own are not, are told apart by heartbeats.
#[test]
fn heartbeats_tell_a_followers_sync_from_the_way_to_it() {
    let mut controller = Controller::new(Aim::Throughput);
    controller.add_peer(PeerId(1));
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in 0..3000 {
        controller.submitted(at(millis), 5);
        controller.pulled(5, 500, false);
        controller.sent(PeerId(1), at(millis), millis, 500);
        controller.synced(500, MS / 10);
        if millis >= 12 {
            controller.acked(PeerId(1), at(millis), millis - 12);
            controller.committed(at(millis), 5, 50, 12 * MS);
        }
        if millis % 100 == 0 {
            controller.echoed(PeerId(1), at(millis), 2 * MS);
        }
        controller.tick(at(millis));
    }
    let seen = controller.environment().expect("there was time enough");
    assert!(seen.network().delay <= 2 * MS && seen.disk().sync >= 9 * MS, "{seen:?}");
}

/// A follower at 5 ms is killed, and is sent nothing any more; the one at 50 ms completes the quorum then. When the first
/// is back, it does again.
#[test]
fn a_follower_that_is_gone_completes_no_quorum() {
    let mut controller = Controller::new(Aim::Throughput);
    let (near, far) = (PeerId(1), PeerId(2));
    [near, far].into_iter().for_each(|peer| controller.add_peer(peer));
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    let (dies, returns) = (2003, 6000);
    for millis in 0..10_000_u64 {
        controller.submitted(at(millis), 10);
        controller.pulled(10, 1000, false);
        let is_there = |millis| !(dies..returns).contains(&millis);
        for (peer, trip) in [(near, 5), (far, 50)] {
            if peer == far || is_there(millis) {
                controller.sent(peer, at(millis), millis, 1000);
                if millis >= trip && (peer == far || is_there(millis - trip)) {
                    controller.acked(peer, at(millis), millis - trip);
                }
            }
        }
        if millis == dies {
            controller.reset(near, at(millis));
        }
        controller.committed(at(millis), 10, 100, 50 * MS);
        controller.tick(at(millis));
        match millis {
            2000 | 9999 => assert_eq!(controller.quorum_peer(), Some(near), "after {millis} ms"),
            5000 => assert_eq!(controller.quorum_peer(), Some(far)),
            _ => {}
        }
    }
}
