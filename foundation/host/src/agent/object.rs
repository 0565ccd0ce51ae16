//! The programs, as they are built and as they lie in the kernel.
//!
//! They are made from `bpf/flow.bpf.c` by `cargo xtask ebpf`, and kept beside it, so that no compiler is needed to
//! build this crate. What is declared here is declared there, field by field.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use aya::maps::{Map, MapError, PerCpuHashMap, PerCpuValues};
use aya::programs::{ProgramError, SchedClassifier};
use aya::{Ebpf, EbpfError, EbpfLoader, Pod};
use greenwave_policy::Time;
use greenwave_policy::flow::{Bucket, Pace};

use super::device::LinkHeader;
use super::error::AgentError;
use super::settings::{FlowKey, Settings};
use super::status::Role;
use super::table::Table;

#[cfg(target_endian = "big")]
compile_error!("the eBPF object is made for machines whose least significant byte comes first");

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/flow.bpf.o");

/// `struct settings`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Constants {
    nanos_per_mib: u64,
    burst: u64,
    debt: u64,
    recheck: u64,
    small_priority: u32,
    large_priority: u32,
    small_tag: u8,
    large_tag: u8,
    write_small: u8,
    write_large: u8,
    five_tuple: u8,
    spare: [u8; 3],
}

// SAFETY: integers without padding between them; every bit pattern is valid.
unsafe impl Pod for Constants {}

/// `struct key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    source: [u8; 16],
    target: [u8; 16],
    pub(super) device: u32,
    source_port: [u8; 2],
    target_port: [u8; 2],
    pub(super) vlan: u16,
    pub(super) protocol: u8,
    version: u8,
}

impl Key {
    pub(super) fn source(&self) -> IpAddr {
        Ipv6Addr::from(self.source).to_canonical()
    }

    pub(super) fn target(&self) -> IpAddr {
        Ipv6Addr::from(self.target).to_canonical()
    }

    pub(super) fn ports(&self) -> (u16, u16) {
        (u16::from_be_bytes(self.source_port), u16::from_be_bytes(self.target_port))
    }
}

/// `struct flow`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    clears: u64,
    recheck_at: u64,
    pub(super) seen: u64,
    pub(super) small_packets: u64,
    pub(super) small_bytes: u64,
    pub(super) large_packets: u64,
    pub(super) large_bytes: u64,
}

impl Flow {
    pub(super) fn bucket(&self) -> Bucket {
        Bucket { clears: Time::from_nanos(self.clears), recheck_at: Time::from_nanos(self.recheck_at) }
    }
}

/// `struct device`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) small_packets: u64,
    pub(super) small_bytes: u64,
    pub(super) large_packets: u64,
    pub(super) large_bytes: u64,
    pub(super) not_ip: u64,
    pub(super) malformed: u64,
    pub(super) no_room: u64,
}

// SAFETY: integers without padding between them; every bit pattern is valid.
unsafe impl Pod for Counters {}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            small_packets: sum.small_packets + one.small_packets,
            small_bytes: sum.small_bytes + one.small_bytes,
            large_packets: sum.large_packets + one.large_packets,
            large_bytes: sum.large_bytes + one.large_bytes,
            not_ip: sum.not_ip + one.not_ip,
            malformed: sum.malformed + one.malformed,
            no_room: sum.no_room + one.no_room,
        })
    }
}

/// Devices that are at work, with what passed each.
pub(super) type Devices = PerCpuHashMap<aya::maps::MapData, u32, Counters>;

/// Loads the programs, with the settings as constants.
pub(super) fn load(settings: &Settings, pace: &Pace) -> Result<(Ebpf, Table), AgentError> {
    let constants = Constants {
        nanos_per_mib: pace.nanos_per_mib,
        burst: pace.burst,
        debt: pace.debt,
        recheck: pace.recheck,
        small_priority: 6,
        large_priority: 2,
        small_tag: settings.small.byte().unwrap_or(0),
        large_tag: settings.large.byte().unwrap_or(0),
        write_small: settings.small.byte().is_some().into(),
        write_large: settings.large.byte().is_some().into(),
        five_tuple: (settings.key == FlowKey::FiveTuple).into(),
        spare: [0; 3],
    };
    let mut loader = EbpfLoader::new();
    loader.override_global("settings", &constants, true).map_max_entries("flows", settings.flows);
    let mut ebpf = loader.load(OBJECT).map_err(|error| not_loaded(&error))?;
    let missing = || AgentError::Program("the object lacks a map".to_owned());
    let flows = match ebpf.take_map("flows") {
        Some(Map::LruHashMap(flows)) => flows,
        _ => return Err(missing()),
    };
    let devices = ebpf.take_map("devices").ok_or_else(missing)?;
    let devices = Devices::try_from(devices).map_err(|error| AgentError::Program(error.to_string()))?;
    Ok((ebpf, Table::new(flows, devices, settings.flows, *pace)))
}

/// The program for a device, loaded into the kernel if it isn't yet.
pub(super) fn program(ebpf: &mut Ebpf, role: Role, header: LinkHeader) -> Result<&mut SchedClassifier, AgentError> {
    let name = name(role, header);
    let lacks = || AgentError::Program(format!("the object lacks `{name}`"));
    let program: &mut SchedClassifier = ebpf.program_mut(name).ok_or_else(lacks)?.try_into().map_err(|_| lacks())?;
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
        Err(ProgramError::LoadError { io_error, verifier_log }) => {
            if io_error.kind() == io::ErrorKind::PermissionDenied && verifier_log.to_string().is_empty() {
                return Err(AgentError::NotPermitted { what: "eBPF programs", cause: io_error });
            }
            let log = verifier_log.to_string();
            let last: Vec<_> = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
            Err(AgentError::Program(format!("{io_error} ({})", last.into_iter().rev().collect::<Vec<_>>().join(" / "))))
        }
        Err(error) => Err(AgentError::Program(error.to_string())),
    }
}

/// What a program is called, in the object and as a filter of `clsact`.
pub(super) fn name(role: Role, header: LinkHeader) -> &'static str {
    match (role, header) {
        (Role::Guest, LinkHeader::Ethernet) => "greenwave_guest",
        (Role::Guest, LinkHeader::None) => "greenwave_guest_ip",
        (Role::Uplink, LinkHeader::Ethernet) => "greenwave_uplink",
        (Role::Uplink, LinkHeader::None) => "greenwave_uplink_ip",
        (Role::Trusted, LinkHeader::Ethernet) => "greenwave_trust",
        (Role::Trusted, LinkHeader::None) => "greenwave_trust_ip",
    }
}

/// Counters of a device that has just been attached to, one for each processor.
pub(super) fn no_counts() -> io::Result<PerCpuValues<Counters>> {
    let processors = aya::util::nr_cpus().map_err(|(_, cause)| cause)?;
    PerCpuValues::try_from(vec![Counters::default(); processors])
}

fn not_loaded(error: &EbpfError) -> AgentError {
    if let EbpfError::MapError(MapError::CreateError { io_error, .. }) = error
        && io_error.kind() == io::ErrorKind::PermissionDenied
    {
        return AgentError::NotPermitted { what: "eBPF maps", cause: io::Error::from(io_error.kind()) };
    }
    AgentError::Program(error.to_string())
}
