//! What guests' packets look like when they come out at the other side.

use std::net::UdpSocket;
use std::time::Duration;

use greenwave_host::agent::Settings;
use greenwave_policy::FlowRule;

use crate::world::{World, names, receive};

const EF: u8 = 0xb8;
const CS1: u8 = 0x20;

/// So slow that nothing that is spent comes back during a test.
fn slow() -> FlowRule {
    FlowRule { rate: 64_000, burst: 10_000, debt: Duration::from_secs(10), ..FlowRule::default() }
}

/// Sends so many packets of so many bytes, and says how each was tagged.
fn sent(from: &UdpSocket, to: &UdpSocket, packets: usize, bytes: usize) -> Vec<u8> {
    let target = to.local_addr().unwrap();
    (0..packets)
        .map(|_| {
            from.send_to(&vec![7; bytes], target).unwrap();
            let (data, tos) = receive(to).unwrap();
            assert_eq!(data, vec![7; bytes], "packets arrive whole");
            tos
        })
        .collect()
}

#[test]
fn a_guest_s_flow_is_small_until_its_burst_is_spent_and_each_guest_has_its_own() {
    let Some(world) = World::make() else { return };
    for (one, two, nine) in [("10.0.0.1:0", "10.0.0.2:0", "10.0.0.9:0"), ("[fd00::1]:0", "[fd00::2]:0", "[fd00::9]:0")]
    {
        let settings = Settings { rule: slow(), ..world.settings(&["va1", "va2"]) };
        world.with_agent(settings, |_| {
            let (one, two) = (world.socket("guest1", one), world.socket("guest2", two));
            let peer = world.socket("peer", nine);
            let tags = sent(&one, &peer, 20, 1_400);
            assert!(tags[..6].iter().all(|tag| *tag == EF), "{tags:x?}");
            assert!(tags[14..].iter().all(|tag| *tag == CS1), "{tags:x?}");
            assert_eq!(sent(&two, &peer, 1, 960), [EF]);
            let status = world.status();
            let large: Vec<_> = status.flows.iter().filter(|flow| flow.large).collect();
            assert_eq!(large.len(), 1, "{status:#?}");
            assert_eq!((large[0].device.as_str(), large[0].tokens), ("va1", 0));
            assert!(large[0].debt > 5_000 && large[0].large_packets >= 6, "{large:?}");
        });
    }
    let peer = world.socket("peer", "10.0.0.9:0");
    let one = world.socket("guest1", "10.0.0.1:0");
    assert_eq!(sent(&one, &peer, 1, 10), [0], "without an agent packets keep what they have");
}

#[test]
fn ports_tell_flows_apart_if_they_are_to() {
    let Some(world) = World::make() else { return };
    let settings = Settings {
        rule: slow(),
        key: greenwave_host::agent::FlowKey::FiveTuple,
        guests: names(&["va*"]),
        ..world.settings(&[])
    };
    world.with_agent(settings, |_| {
        let (one, other) = (world.socket("guest1", "10.0.0.1:0"), world.socket("guest1", "10.0.0.1:0"));
        let peer = world.socket("peer", "10.0.0.9:0");
        assert_eq!(sent(&one, &peer, 20, 960).last(), Some(&CS1));
        assert_eq!(sent(&other, &peer, 1, 960), [EF]);
    });
}

#[test]
fn a_tag_that_the_device_keeps_aside_tells_vlans_apart() {
    let Some(world) = World::make() else { return };
    for (space, number) in [("guest1", 1), ("peer", 9)] {
        let added = world.try_run(space, "ip", "link add link eth0 name eth0.5 type vlan id 5");
        if !added.status.success() {
            eprintln!("passed over: no VLANs: {}", String::from_utf8_lossy(&added.stderr).trim());
            return;
        }
        world.ip(space, &format!("addr add 10.0.5.{number}/24 dev eth0.5"));
        world.ip(space, "link set dev eth0.5 up");
    }
    world.with_agent(world.settings(&["va1"]), |_| {
        let (one, peer) = (world.socket("guest1", "10.0.5.1:0"), world.socket("peer", "10.0.5.9:0"));
        assert_eq!(sent(&one, &peer, 1, 958), [EF]);
        let status = world.status();
        let flow = status.flows.iter().find(|flow| flow.target.to_string() == "10.0.5.9").unwrap();
        assert_eq!((flow.vlan, flow.small_bytes), (5, 14 + 4 + 20 + 8 + 958), "{flow:?}");
    });
}

#[test]
fn super_packets_are_charged_for_all_their_headers_and_bulk_arrives_whole() {
    use std::io::{Read, Write};
    let Some(world) = World::make() else { return };
    world.with_agent(world.settings(&["va1"]), |agent| {
        let listener = world.within("peer", || std::net::TcpListener::bind("10.0.0.9:7000")).unwrap();
        const BYTES: usize = 4 << 20;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = world.within("guest1", || std::net::TcpStream::connect("10.0.0.9:7000")).unwrap();
                stream.write_all(&vec![3; BYTES]).unwrap();
            });
            let mut arrived = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut arrived).unwrap();
            assert!(arrived.len() == BYTES && arrived.iter().all(|byte| *byte == 3));
        });
        // 1448 bytes of payload need 66 of headers, whether the guest sends them as one packet or as many.
        let on_the_wire = (BYTES + BYTES / 1448 * 66) as u64;
        let status = agent.await_status(|status| status.flows.iter().any(|flow| flow.bytes() >= on_the_wire));
        let flow = &status.flows[0];
        assert!(flow.bytes() < on_the_wire + on_the_wire / 20, "{flow:?}");
        assert!(flow.large_bytes > flow.small_bytes && flow.small_packets > 0, "{flow:?}");
    });
}
