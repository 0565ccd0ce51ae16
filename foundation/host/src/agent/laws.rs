//! The programs in the kernel, put to the test packet by packet: what they decide is what the policy decides, to the
//! nanosecond; what they write is what the RFCs say; what they don't understand passes as it came.
//!
//! The kernel runs a program on a packet that it is handed (`BPF_PROG_TEST_RUN`). That needs root.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use greenwave_policy::flow::{Bucket, wire_bytes};
use greenwave_policy::{Band, FlowRule, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::device::LinkHeader;
use super::object::{self, Counters, Flow, Key};
use super::settings::{Dscp, FlowKey, Settings};
use super::status::Role;
use super::table::Table;

/// The device that the kernel pretends a packet came from.
const LOOPBACK: u32 = 1;
const GO_ON: u32 = u32::MAX;
const EF: u8 = 0xb8;
const CS1: u8 = 0x20;

struct Kernel {
    ebpf: aya::Ebpf,
    table: Table,
}

/// What became of a packet.
struct Judged {
    packet: Vec<u8>,
    priority: u32,
}

impl Kernel {
    fn load(settings: &Settings) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("passed over: eBPF needs root");
            return None;
        }
        let pace = settings.rule.pace().unwrap();
        let (ebpf, table) = match object::load(settings, &pace) {
            Ok(loaded) => loaded,
            Err(error @ super::AgentError::NotPermitted { .. }) => {
                eprintln!("passed over: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        table.enter(LOOPBACK).unwrap();
        Some(Self { ebpf, table })
    }

    fn judge(&mut self, role: Role, packet: &[u8], from: u32, segment: u32) -> Judged {
        let program: &mut SchedClassifier = object::program(&mut self.ebpf, role, LinkHeader::Ethernet).unwrap();
        // `struct __sk_buff`: where the kernel keeps what is asked for.
        let mut context = [0_u8; 192];
        context[32..36].copy_from_slice(&77_u32.to_ne_bytes());
        context[36..40].copy_from_slice(&from.to_ne_bytes());
        context[176..180].copy_from_slice(&segment.to_ne_bytes());
        let (mut after, mut out) = ([0_u8; 192], vec![0; packet.len() + 256]);
        let options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ctx_out: Some(&mut after),
            ..TestRunOptions::new()
        };
        let done = program.test_run(options).unwrap();
        assert_eq!(done.return_value, GO_ON, "never dropped, never redirected");
        out.truncate(done.data_size_out as usize);
        Judged { packet: out, priority: u32::from_ne_bytes(after[32..36].try_into().unwrap()) }
    }

    fn flows(&self) -> Vec<(Key, Flow)> {
        let mut flows = Vec::new();
        self.table.each(|key, flow| flows.push((*key, *flow))).unwrap();
        flows
    }

    fn flow(&self, packet: &Packet) -> Option<(Key, Flow)> {
        let pair = (packet.source(), packet.target(), packet.vlan());
        self.flows().into_iter().find(|(key, _)| (key.source(), key.target(), key.vlan) == pair)
    }

    fn counters(&self) -> Counters {
        self.table.counters(LOOPBACK)
    }
}

/// A packet as it is meant.
#[derive(Clone, Debug)]
struct Packet {
    six: bool,
    source: u8,
    target: u8,
    tos: u8,
    tags: Vec<u16>,
    /// IPv4: words of options. IPv6: extension headers, of 8 bytes each, by their numbers.
    options: Vec<u8>,
    fragment: bool,
    tcp: bool,
    ports: (u16, u16),
    payload: usize,
    segment: u32,
}

impl Packet {
    fn source(&self) -> IpAddr {
        self.address(self.source)
    }

    fn target(&self) -> IpAddr {
        self.address(self.target)
    }

    fn address(&self, number: u8) -> IpAddr {
        match self.six {
            true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into(),
            false => Ipv4Addr::new(10, 0, 0, number).into(),
        }
    }

    fn vlan(&self) -> u16 {
        self.tags.first().map_or(0, |tag| tag & 0xfff)
    }

    fn headers(&self) -> usize {
        let network = if self.six { 40 + 8 * self.extensions().len() } else { 20 + 4 * self.options.len() };
        14 + 4 * self.tags.len() + network + if self.tcp { 20 } else { 8 }
    }

    /// A fragment of IPv6 says so in a header of its own.
    fn extensions(&self) -> Vec<u8> {
        self.options.iter().copied().chain(self.fragment.then_some(44)).collect()
    }

    /// Its bytes, with another tag.
    fn bytes(&self, tos: u8) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for (nth, tag) in self.tags.iter().enumerate() {
            let kind: u16 = if nth + 1 < self.tags.len() { 0x88a8 } else { 0x8100 };
            bytes.extend(kind.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        let above = self.transport();
        let protocol = if self.tcp { 6 } else { 17 };
        if self.six {
            let extensions = self.extensions();
            bytes.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4 | 0x0a, 0xbc, 0xde]);
            bytes.extend(((8 * extensions.len() + above.len()) as u16).to_be_bytes());
            bytes.extend([extensions.first().copied().unwrap_or(protocol), 64]);
            for address in [self.source, self.target] {
                bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, address]);
            }
            for (nth, kind) in extensions.iter().enumerate() {
                let next = extensions.get(nth + 1).copied().unwrap_or(protocol);
                bytes.extend([next, 0, 0, u8::from(*kind == 44), 0, 0, 0, 0]);
            }
        } else {
            bytes.extend([8, 0]);
            let words = 5 + self.options.len() as u8;
            let mut head = vec![0x40 | words, tos];
            head.extend((usize::from(words) * 4 + above.len()).min(65_535).to_be_bytes()[6..].iter());
            head.extend([0x12, 0x34, if self.fragment { 0x20 } else { 0x40 }, 0, 64, protocol, 0, 0]);
            head.extend([10, 0, 0, self.source, 10, 0, 0, self.target]);
            head.extend(self.options.iter().flat_map(|_| [1_u8; 4]));
            let sum = checksum(&head);
            head[10..12].copy_from_slice(&sum.to_be_bytes());
            bytes.extend(head);
        }
        bytes.extend(above);
        bytes
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        match self.tcp {
            true => bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 5 << 4, 0x10, 1, 0, 0, 0, 0, 0]),
            false => bytes.extend([0, 8, 0, 0]),
        }
        bytes.extend(std::iter::repeat_n(0x55, self.payload));
        bytes
    }
}

/// RFC 1071, over the whole header.
fn checksum(head: &[u8]) -> u16 {
    let words = head.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let shape = (
        any::<bool>(),
        1..4_u8,
        1..4_u8,
        any::<u8>(),
        vec(select(vec![5_u16, 0x2005]), 0..3),
        any::<bool>(),
        any::<bool>(),
    );
    let rest = (any::<bool>(), vec(select(vec![0_u8, 43, 60]), 0..7), any::<(u16, u16)>(), 0..3_000_usize);
    // Short segments have so many headers that a packet is more than a burst, however fast tokens come back.
    let segment = prop_oneof![6 => Just(0), 1 => 1..2_000_u32, 1 => 1..30_u32];
    (shape, rest, segment).prop_map(
        |((six, source, target, tos, tags, fragment, tcp), (plain, options, ports, payload), segment)| Packet {
            six,
            source,
            target,
            tos,
            tags,
            options: if plain { Vec::new() } else { options },
            fragment: fragment && segment == 0,
            tcp,
            ports,
            payload,
            segment,
        },
    )
}

fn plain() -> Packet {
    Packet {
        six: false,
        source: 1,
        target: 2,
        tos: 0,
        tags: Vec::new(),
        options: Vec::new(),
        fragment: false,
        tcp: true,
        ports: (1000, 80),
        payload: 1000,
        segment: 0,
    }
}

/// Such that tokens come back between two packets of a test, now and then.
fn middling(debt: u64) -> Settings {
    let rule = FlowRule {
        rate: 2_000_000,
        burst: 6_000,
        debt: Duration::from_millis(debt),
        recheck: Duration::from_millis(debt / 4),
    };
    Settings { rule, ..Settings::default() }
}

#[test]
fn the_kernel_decides_as_the_policy_does_and_tags_as_the_rfcs_say() {
    for debt in [0, 20] {
        let settings = middling(debt);
        let pace = settings.rule.pace().unwrap();
        let Some(mut kernel) = Kernel::load(&settings) else { return };
        let mut seen = [0, 0];
        let mut runner = TestRunner::new(Config { cases: 1500, failure_persistence: None, ..Config::default() });
        let kernel = std::cell::RefCell::new(&mut kernel);
        let seen_there = std::cell::RefCell::new(&mut seen);
        let outcome = runner.run(&any_packet(), |packet| {
            let mut kernel = kernel.borrow_mut();
            let before = kernel.flow(&packet).map(|(_, flow)| flow).unwrap_or_default();
            let bytes = packet.bytes(packet.tos);
            let judged = kernel.judge(Role::Guest, &bytes, 0, packet.segment);
            let Some((key, after)) = kernel.flow(&packet) else { panic!("no flow is known of {packet:?}") };
            prop_assert_eq!((key.protocol, key.ports()), (0, (0, 0)));
            let mut bucket: Bucket = before.bucket();
            let charged = wire_bytes(bytes.len() as u64, packet.headers() as u64, packet.segment.into());
            let band = bucket.charge(&pace, Time::from_nanos(after.seen), charged);
            prop_assert_eq!(after.bucket(), bucket);
            let (small, large) = match band {
                Band::Small => ((1, charged), (0, 0)),
                Band::Large => ((0, 0), (1, charged)),
            };
            prop_assert_eq!(
                (after.small_packets - before.small_packets, after.small_bytes - before.small_bytes),
                small
            );
            prop_assert_eq!(
                (after.large_packets - before.large_packets, after.large_bytes - before.large_bytes),
                large
            );
            let (tag, priority) = if band == Band::Small { (EF, 6) } else { (CS1, 2) };
            prop_assert_eq!(judged.priority, priority);
            prop_assert_eq!(judged.packet, packet.bytes(tag | (packet.tos & 3)));
            seen_there.borrow_mut()[usize::from(band == Band::Large)] += 1;
            Ok(())
        });
        outcome.unwrap();
        assert!(seen.iter().all(|count| *count > 20), "both bands were seen: {seen:?}");
        let counters = kernel.borrow().counters();
        assert_eq!((counters.malformed, counters.not_ip, counters.no_room), (0, 0, 0));
        assert!(counters.small_packets > 20 && counters.large_packets > 20);
    }
}

#[test]
fn ports_tell_flows_apart_if_they_are_to_and_fragments_count_for_the_pair() {
    let Some(mut kernel) = Kernel::load(&Settings { key: FlowKey::FiveTuple, ..Settings::default() }) else { return };
    let options: [&[u8]; 3] = [&[], &[0], &[0, 43, 60, 60]];
    for (nth, options) in options.into_iter().enumerate() {
        for six in [false, true] {
            let packet = Packet { six, source: 10 + nth as u8, options: options.to_vec(), ..plain() };
            kernel.judge(Role::Guest, &packet.bytes(0), 0, 0);
            let key = kernel.flow(&packet).unwrap().0;
            assert_eq!((key.protocol, key.ports()), (6, (1000, 80)), "{packet:?}");
            let packet = Packet { source: 20 + nth as u8, fragment: true, ..packet };
            kernel.judge(Role::Guest, &packet.bytes(0), 0, 0);
            let key = kernel.flow(&packet).unwrap().0;
            assert_eq!((key.protocol, key.ports()), (0, (0, 0)), "{packet:?}");
        }
    }
}

#[test]
fn what_cannot_be_understood_passes_as_it_came() {
    let Some(mut kernel) = Kernel::load(&Settings { key: FlowKey::FiveTuple, ..Settings::default() }) else { return };
    let change = |six: bool, at: usize, to: u8| {
        let mut bytes = Packet { six, payload: 100, ..plain() }.bytes(0);
        bytes[14 + at] = to;
        bytes
    };
    let cut = |six: bool, length: usize| Packet { six, ..plain() }.bytes(0)[..length].to_vec();
    let malformed = [
        change(false, 0, 0x44),
        change(false, 0, 0x65),
        change(false, 2, 0xff),
        change(false, 3, 0x01),
        change(true, 0, 0x45),
        change(true, 4, 0xff),
        cut(false, 14 + 20),
        cut(true, 14 + 50),
        // A chain of extension headers that leads out of the packet.
        {
            let mut bytes = Packet { six: true, options: vec![0, 60], payload: 100, ..plain() }.bytes(0);
            bytes[14 + 41] = 255;
            bytes
        },
    ];
    for bytes in &malformed {
        let judged = kernel.judge(Role::Guest, bytes, 0, 0);
        assert_eq!((&judged.packet, judged.priority), (bytes, 77));
    }
    // Not Ethernet's IP: ARP, LLDP, and three VLANs in one another.
    let mut not_ip: Vec<_> = [[8, 6], [0x88, 0xcc]].map(|kind| [&[2; 12], &kind[..], &[0; 50]].concat()).into();
    not_ip.push(Packet { tags: vec![1, 2, 3], ..plain() }.bytes(0));
    for bytes in &not_ip {
        let judged = kernel.judge(Role::Guest, bytes, 0, 0);
        assert_eq!((&judged.packet, judged.priority), (bytes, 77));
    }
    assert!(kernel.flows().is_empty());
    let counters = kernel.counters();
    assert_eq!((counters.malformed, counters.not_ip), (malformed.len() as u64, not_ip.len() as u64));
}

#[test]
fn any_bytes_at_all_pass() {
    let Some(mut kernel) = Kernel::load(&Settings { key: FlowKey::FiveTuple, ..Settings::default() }) else { return };
    let kernel = std::cell::RefCell::new(&mut kernel);
    let any = (any_packet(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), 0..2_000_usize, 0..3_000_u32);
    let mut runner = TestRunner::new(Config { cases: 1500, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&any, |(packet, changes, length, segment)| {
        let mut bytes = packet.bytes(packet.tos);
        for (at, to) in changes {
            let at = at.index(bytes.len().min(90));
            bytes[at] = to;
        }
        // The kernel hands no shorter ones to a program that is put to the test.
        bytes.truncate(length.max(54));
        let role = [Role::Guest, Role::Uplink, Role::Trusted][length % 3];
        let judged = kernel.borrow_mut().judge(role, &bytes, 0, segment);
        prop_assert_eq!(judged.packet.len(), bytes.len());
        let differ = judged.packet.iter().zip(&bytes).filter(|(after, before)| after != before).count();
        prop_assert!(differ <= 3, "a tag and a checksum at most");
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_million_invented_addresses_do_not_grow_the_table_nor_stop_packets() {
    const PACKETS: u32 = 1_000_000;
    let settings = Settings::default();
    let room = settings.flows as usize;
    let Some(mut kernel) = Kernel::load(&settings) else { return };
    let mut bytes = plain().bytes(0);
    for number in 0..PACKETS {
        // Source and target keep their sum, so the checksum stays right.
        bytes[14 + 12..14 + 16].copy_from_slice(&number.to_be_bytes());
        bytes[14 + 16..14 + 20].copy_from_slice(&(!number).to_be_bytes());
        kernel.judge(Role::Guest, &bytes, 0, 0);
    }
    let flows = kernel.flows().len();
    assert!(flows <= room && flows > 0, "{flows}");
    let counters = kernel.counters();
    assert_eq!(counters.small_packets + counters.large_packets + counters.no_room, u64::from(PACKETS));
    assert!(counters.no_room < u64::from(PACKETS / 10), "{counters:?}");
}

#[test]
fn a_tag_stands_for_a_priority_where_it_is_trusted() {
    let Some(mut kernel) = Kernel::load(&Settings::default()) else { return };
    for six in [false, true] {
        for (tos, priority) in [(EF, 6), (EF | 1, 6), (CS1 | 3, 2), (0, 77), (0x28, 77)] {
            let bytes = Packet { six, tags: vec![7], ..plain() }.bytes(tos);
            let judged = kernel.judge(Role::Trusted, &bytes, 0, 0);
            assert_eq!((judged.priority, judged.packet), (priority, bytes), "{tos:x}");
        }
    }
    assert!(kernel.flows().is_empty(), "nobody is charged");
}

#[test]
fn a_packet_of_a_guest_is_not_charged_again_at_the_uplink() {
    let Some(mut kernel) = Kernel::load(&Settings::default()) else { return };
    const GUEST: u32 = 4711;
    kernel.table.enter(GUEST).unwrap();
    let tagged = plain().bytes(CS1);
    let judged = kernel.judge(Role::Uplink, &tagged, GUEST, 0);
    assert_eq!((judged.priority, judged.packet), (2, tagged));
    assert!(kernel.flows().is_empty());
    let judged = kernel.judge(Role::Uplink, &plain().bytes(0), 0, 0);
    assert_eq!((judged.priority, judged.packet), (6, plain().bytes(EF)), "the host's own is");
    assert_eq!(kernel.flows().len(), 1);
}

#[test]
fn packets_keep_their_tags_if_they_are_to() {
    let settings = Settings { small: Dscp::KEEP, large: Dscp::KEEP, ..Settings::default() };
    let Some(mut kernel) = Kernel::load(&settings) else { return };
    let judged = kernel.judge(Role::Guest, &plain().bytes(0x28), 0, 0);
    assert_eq!((judged.priority, judged.packet), (6, plain().bytes(0x28)));
}

#[test]
fn quiet_flows_are_forgotten_once_they_owe_nothing() {
    // Ten seconds to pay for.
    let rule = FlowRule { rate: 64_000, debt: Duration::from_secs(60), ..FlowRule::default() };
    let Some(mut kernel) = Kernel::load(&Settings { rule, ..Settings::default() }) else { return };
    kernel.judge(Role::Guest, &Packet { payload: 3_000, ..plain() }.bytes(0), 0, 2);
    assert_eq!(kernel.table.clean(Duration::ZERO, |_| true).unwrap(), 0, "it isn't paid for");
    assert_eq!(kernel.table.clean(Duration::from_secs(60), |_| true).unwrap(), 0);
    assert_eq!(kernel.table.clean(Duration::from_secs(60), |_| false).unwrap(), 1, "its device is gone");
    assert!(kernel.flows().is_empty());
}

#[test]
fn the_object_was_made_of_the_source_beside_it() {
    let mut all = Vec::new();
    for (name, text) in
        [("flow.bpf.c", include_str!("../../bpf/flow.bpf.c")), ("kernel.h", include_str!("../../bpf/kernel.h"))]
    {
        all.extend([name.as_bytes(), &[0], text.as_bytes(), &[0]].concat());
    }
    let made_of = include_str!("../../bpf/flow.bpf.o.from").lines().next().unwrap();
    let is = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&all));
    assert_eq!(is, made_of, "run `cargo xtask ebpf` and commit what it makes");
}
