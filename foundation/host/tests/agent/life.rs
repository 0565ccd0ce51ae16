//! Devices that come and go, other agents, other people's filters, and what is left when an agent ends.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use greenwave_host::agent::{AgentError, Event, Hook, Settings, off, status};

use crate::world::{World, names};

/// What `tc` shows of a device on the host.
fn shown(world: &World, device: &str) -> String {
    let of = |what: &str| world.run("host", "tc", what);
    let filters = |hook| {
        let said = world.try_run("host", "tc", &format!("filter show dev {device} {hook}"));
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    of(&format!("qdisc show dev {device}")) + &filters("ingress") + &filters("egress")
}

fn is_empty(world: &World) -> bool {
    fs::read_dir(world.state()).unwrap().next().is_none()
}

#[test]
fn a_device_that_goes_away_is_let_go_and_comes_back() {
    let Some(world) = World::make() else { return };
    world.with_agent(world.settings(&["va1", "va2"]), |agent| {
        world.ip("host", "link del va1");
        assert!(matches!(agent.event(), Event::Gone { device } if device == "va1"));
        let status = world.status();
        let of = |name: &str| status.agents[0].devices.iter().find(|it| it.name == name).unwrap().attached;
        assert!(!of("va1") && of("va2"), "{status:#?}");
        world.plug("guest1", "va1", 1);
        assert!(matches!(agent.event(), Event::Attached { device } if device == "va1"));
        assert!(world.status().agents[0].devices.iter().all(|it| it.attached));
    });
    assert!(is_empty(&world));
}

#[test]
fn a_pattern_stands_for_devices_that_are_yet_to_come() {
    let Some(world) = World::make() else { return };
    let settings = Settings { uplinks: names(&["up0"]), ..world.settings(&["tap*"]) };
    world.with_agent(settings, |agent| {
        let status = world.status();
        assert_eq!(status.agents[0].devices.iter().filter(|it| it.attached).count(), 1, "{status:#?}");
        world.ip("host", "tuntap add mode tap tap7");
        assert!(matches!(agent.event(), Event::Attached { device } if device == "tap7"));
    });
}

#[test]
fn a_device_without_ethernet_is_understood_and_others_are_refused() {
    let Some(world) = World::make() else { return };
    world.ip("host", "tuntap add mode tun tun7");
    for hook in [Hook::Tcx, Hook::Clsact] {
        world.with_agent(Settings { hook, ..world.settings(&["tun7"]) }, |_| {
            assert!(world.status().agents[0].devices[0].attached);
        });
    }
    if world.try_run("host", "ip", "tunnel add sit7 mode sit remote 10.9.9.9").status.success() {
        let error = world.refusal(world.settings(&["sit7"]));
        assert!(matches!(error, AgentError::LinkType { kind: 776, .. }), "{error}");
    }
    assert!(is_empty(&world));
}

#[test]
fn what_cannot_be_had_is_refused_and_nothing_is_left() {
    let Some(world) = World::make() else { return };
    let error = world.refusal(world.settings(&["va1", "nobody"]));
    assert!(error.to_string().starts_with("there is no device `nobody`"), "{error}");
    let metrics = Some("192.0.2.1:9".parse().unwrap());
    let error = world.refusal(Settings { metrics, hook: Hook::Clsact, ..world.settings(&["va1"]) });
    assert!(error.to_string().starts_with("can't serve metrics at 192.0.2.1:9"), "{error}");
    let state = "/proc/no/such".into();
    let error = world.refusal(Settings { state, ..world.settings(&["va1"]) });
    assert!(matches!(error, AgentError::State { .. }), "{error}");
    let error = world.within("host", || status(world.state(), 1).unwrap_err());
    assert!(matches!(error, AgentError::NotRunning), "{error}");
    assert!(!shown(&world, "va1").contains("clsact") && is_empty(&world));
}

#[test]
fn a_second_agent_may_have_other_devices_and_hears_whose_the_first_are() {
    let Some(world) = World::make() else { return };
    world.with_agent(world.settings(&["va1"]), |_| {
        let error = world.refusal(world.settings(&["va1"]));
        assert!(matches!(error, AgentError::InUse { pid, .. } if pid == std::process::id()), "{error}");
        let error = world.refusal(Settings { hook: Hook::Clsact, ..world.settings(&["va*"]) });
        assert!(matches!(error, AgentError::InUse { .. }), "{error}");
        world.with_agent(world.settings(&["va2"]), |_| {
            assert_eq!(world.status().agents.len(), 2);
        });
        assert_eq!(world.status().agents.len(), 1);
    });
}

#[test]
fn off_ends_an_agent_and_its_own_clsact_goes_with_it() {
    let Some(world) = World::make() else { return };
    for hook in [Hook::Tcx, Hook::Clsact] {
        let settings = Settings { hook, uplinks: names(&["up0"]), ..world.settings(&["va1"]) };
        world.with_agent(settings, |_| {
            assert_eq!(shown(&world, "va1").contains("greenwave_guest"), hook == Hook::Clsact);
            let undone = world.within("host", || off(world.state()).unwrap());
            assert_eq!(undone.agents, [std::process::id()]);
        });
        for device in ["va1", "up0"] {
            let shown = shown(&world, device);
            assert!(!shown.contains("greenwave") && !shown.contains("clsact"), "{shown}");
        }
        assert!(is_empty(&world));
        assert_eq!(world.within("host", || off(world.state()).unwrap()), Default::default());
    }
}

#[test]
fn another_program_s_clsact_and_filters_are_left_alone() {
    let Some(world) = World::make() else { return };
    world.run("host", "tc", "qdisc add dev va1 clsact");
    world.run("host", "tc", "filter add dev va1 ingress prio 7 protocol ip u32 match u8 0 0 flowid 1:1");
    let before = shown(&world, "va1");
    // A filter that is added while the agent has made the clsact keeps that, too.
    for hook in [Hook::Any, Hook::Clsact] {
        world.with_agent(Settings { hook, ..world.settings(&["va1", "va2"]) }, |_| {
            assert_eq!(shown(&world, "va1").contains("greenwave_guest"), hook == Hook::Clsact);
            if hook == Hook::Clsact {
                world.run("host", "tc", "filter add dev va2 egress prio 7 protocol ip u32 match u8 0 0 flowid 1:1");
            }
        });
        world.within("host", || off(world.state()).unwrap());
        assert_eq!(shown(&world, "va1"), before);
    }
    let shown = shown(&world, "va2");
    assert!(shown.contains("clsact") && shown.contains("u32") && !shown.contains("greenwave"), "{shown}");
}

#[test]
fn metrics_are_served_and_hostile_readers_are_not() {
    let Some(world) = World::make() else { return };
    let metrics = Some("127.0.0.1:9464".parse().unwrap());
    world.with_agent(Settings { metrics, ..world.settings(&["va1"]) }, |_| {
        let ask = |text: &[u8]| {
            let mut stream = world.within("host", || TcpStream::connect("127.0.0.1:9464")).unwrap();
            stream.set_read_timeout(Some(crate::world::PATIENCE)).unwrap();
            let _it_may_not_be_read = stream.write_all(text);
            let mut answer = String::new();
            let _it_may_be_cut_off = stream.read_to_string(&mut answer);
            answer
        };
        // Some that connect and say nothing, as many as are served at a time, and more.
        let silent: Vec<_> = (0..6).map(|_| world.within("host", || TcpStream::connect("127.0.0.1:9464"))).collect();
        let page = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\ngreenwave_agent_attached{device=\"va1\",role=\"guest\"} 1\n"), "{page}");
        drop(silent);
        for (text, answer) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
            (b"\xff\xff \r\n\r\n", "HTTP/1.1 400"),
        ] {
            let page = ask(text);
            assert!(page.starts_with(answer), "{page}");
        }
        ask(&[b'a'; 100_000]);
        assert!(ask(b"GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn flows_that_are_quiet_are_forgotten() {
    let Some(world) = World::make() else { return };
    let settings = Settings { idle: Duration::from_secs(1), ..world.settings(&["va1"]) };
    world.with_agent(settings, |agent| {
        let (one, peer) = (world.socket("guest1", "10.0.0.1:0"), world.socket("peer", "10.0.0.9:0"));
        one.send_to(b"once", peer.local_addr().unwrap()).unwrap();
        let of_it = |it: &greenwave_host::agent::FlowState| it.target.to_string() == "10.0.0.9";
        agent.await_status(|status| status.flows.iter().any(of_it));
        agent.await_status(|status| !status.flows.iter().any(of_it));
    });
}
