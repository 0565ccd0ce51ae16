//! A link that is cut, between this network namespace and another. Takes root and `ip`.

use crate::raw::{Raw, call_id, data, eventually, part_of_call, within_reason};
use crate::siege::{COUNT, ECHO, NEVER, Siege};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A network namespace with a link to this one.
struct Link {
    name: String,
    ours: String,
    theirs: String,
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Link {
    /// `None` where there can't be one.
    fn new() -> Option<Self> {
        let id = std::process::id();
        // Kept for tests of networks.
        let net = format!("198.18.{}", id % 250);
        let link = Self { name: format!("gw{id}"), ours: format!("{net}.1"), theirs: format!("{net}.2") };
        let Self { name, ours, theirs } = &link;
        let up = ip(&format!("netns add {name}"))
            && ip(&format!("link add {name} type veth peer name peer netns {name}"))
            && ip(&format!("address add {ours}/30 dev {name}"))
            && ip(&format!("link set {name} up"))
            && ip(&format!("-n {name} address add {theirs}/30 dev peer"))
            && ip(&format!("-n {name} link set peer up"));
        up.then_some(link)
    }

    /// From here on nothing arrives, on either side, and nobody is told: packets go to a card that nobody has.
    fn cut(&self) {
        let Self { name, ours, theirs } = self;
        let nobody = "lladdr 02:00:00:00:00:01 nud permanent dev";
        assert!(ip(&format!("neighbour replace {theirs} {nobody} {name}")));
        assert!(ip(&format!("-n {name} neighbour replace {ours} {nobody} peer")));
    }

    fn mend(&self) {
        let Self { name, ours, theirs } = self;
        assert!(ip(&format!("neighbour del {theirs} dev {name}")));
        assert!(ip(&format!("-n {name} neighbour del {ours} dev peer")));
    }

    /// Does something on the other side, on a thread of its own.
    fn beyond<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
        let space = std::fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::spawn(move || {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            job()
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.name));
        ip(&format!("netns del {}", self.name));
    }
}

/// Sends a message byte by byte, for as long as anything can be sent.
fn trickle(address: &Address, stop: &AtomicBool) {
    let mut raw = Raw::introduced(address);
    raw.send(&crate::raw::call(call_id(0, 1), NEVER, b""));
    raw.send(&part_of_call(call_id(1, 1), COUNT, b"0", 1 << 20));
    for at in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        raw.send(&data(call_id(1, 1), at, b"x"));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn behind_a_cut_link_calls_fail_at_their_deadlines_and_the_server_lets_go() {
    let Some(link) = Link::new() else {
        return eprintln!(
            "passed over: no network namespace to be had; it takes root and `ip`; to install it: apt-get install iproute2"
        );
    };
    let listen = ["127.0.0.1", &link.ours].map(|host| format!("tcp://{host}:0").parse().unwrap());
    let limits = Limits::default().credits(60_000).stall(Duration::from_secs(1));
    let siege = Siege::listening(ServerConfig::default().listen(listen.to_vec()).limits(limits));
    let address = siege.server.addresses()[1].clone();
    let (over, answered, late) =
        (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let trickling = link.beyond({
        let (address, over) = (address.clone(), Arc::clone(&over));
        move || trickle(&address, &over)
    });
    let calling = link.beyond({
        let (over, answered, late) = (Arc::clone(&over), Arc::clone(&answered), Arc::clone(&late));
        move || {
            let channel = Channel::new(address, ChannelConfig::default()).unwrap();
            while !over.load(Ordering::Relaxed) {
                match channel.call(&Context::with_deadline(Duration::from_millis(500)), ECHO, b"there?") {
                    Ok(_) => answered.fetch_add(1, Ordering::Relaxed),
                    Err(failure) => {
                        // Or before, where the link stays cut for so long that the channel tries to connect anew.
                        let is_unreachable = (failure.code, failure.reason) == (Code::Unavailable, Reason::Unreachable);
                        assert!(is_unreachable || failure.code == Code::DeadlineExceeded, "{failure}");
                        late.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
        }
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eventually("both are served", || count(&answered) > 10 && count(&siege.begun) == 1);
    assert_eq!((siege.server.counters().violations, siege.server.counters().cancelled), (0, 0));

    link.cut();
    eventually("calls fail at their deadlines", || count(&late) >= 2);
    siege.others_are_served();
    // Who kept the server waiting half way is closed on, and its handler that would have gone on for ever ends.
    eventually("it lets go", || siege.server.counters().violations == 1);
    eventually("the handler ends", || siege.server.counters().cancelled >= 1);
    // Nothing is owed to the other one, so that it is for the kernel to find out, in two minutes.
    assert_eq!(siege.server.counters().connections, 2);

    link.mend();
    let before = count(&answered);
    eventually("calls are answered again", || count(&answered) > before + 10);
    over.store(true, Ordering::Relaxed);
    within_reason("the other side", move || {
        trickling.join().unwrap();
        calling.join().unwrap();
    });
    siege.ends_with_violations(1);
}
