//! Where queues meet, and the providers that carry what they say then.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::port::Port;
use super::shim::{self, FabricError};
use crate::{Address, FabricAddress};

/// Who carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Provider {
    Verbs,
    Efa,
    Tcp,
    Shm,
}

impl Provider {
    /// The name by which libfabric knows it. Reliable datagrams over connections are a layer of their own there.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs;ofi_rxm",
            Self::Efa => "efa",
            Self::Tcp => "tcp;ofi_rxm",
            Self::Shm => "shm",
        }
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether an endpoint is opened at an address of the network. The others have addresses of their own kind.
    pub(crate) fn has_source(self) -> bool {
        matches!(self, Self::Verbs | Self::Tcp)
    }
}

/// The providers that an address allows.
pub(crate) fn providers_of(address: &FabricAddress) -> &'static [Provider] {
    match address {
        FabricAddress::Shm(_) => &[Provider::Shm],
        FabricAddress::Tcp(_) => &[Provider::Tcp],
        FabricAddress::Verbs(_) => &[Provider::Verbs],
        FabricAddress::Efa(_) => &[Provider::Efa],
        FabricAddress::Any(_) => &[Provider::Verbs, Provider::Efa, Provider::Tcp],
    }
}

/// Those of an address's providers that run here, as bits. An error says why there is none.
pub(crate) fn available(address: &FabricAddress) -> Result<u8, FabricError> {
    let (mut bits, mut refused) = (0, None);
    for provider in providers_of(address) {
        match shim::offers(Some(provider.name()), None) {
            Ok(()) => bits |= provider.bit(),
            // Of those that an address leaves open, the last is the one that is everywhere.
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if bits == 0 => Err(error),
        _ => Ok(bits),
    }
}

/// The folder of shared memory. The sockets for those who meet there lie beside it, so that whoever can reach the one
/// can reach the other, in containers too.
const SHARED: &str = "/dev/shm";
/// What libfabric wants before a name that it is to leave as it is.
const REGION: &str = "fi_ns://";
/// What the files of this backend begin with there.
const PREFIX: &str = "greenwave-";

/// The socket at which queues meet.
pub(crate) fn socket_of(address: &FabricAddress) -> Address {
    match address {
        FabricAddress::Shm(name) => Address::Unix(Path::new(SHARED).join(format!("{PREFIX}{name}.socket"))),
        FabricAddress::Tcp(socket)
        | FabricAddress::Verbs(socket)
        | FabricAddress::Efa(socket)
        | FabricAddress::Any(socket) => Address::Tcp(*socket),
    }
}

/// The address that a socket has, on the same fabric as another address.
pub(crate) fn beside(address: &FabricAddress, socket: &Address) -> FabricAddress {
    match (address, socket) {
        (FabricAddress::Tcp(_), Address::Tcp(socket)) => FabricAddress::Tcp(*socket),
        (FabricAddress::Verbs(_), Address::Tcp(socket)) => FabricAddress::Verbs(*socket),
        (FabricAddress::Efa(_), Address::Tcp(socket)) => FabricAddress::Efa(*socket),
        (FabricAddress::Any(_), Address::Tcp(socket)) => FabricAddress::Any(*socket),
        // Sockets that connect have no name.
        _ => FabricAddress::Shm(String::new()),
    }
}

/// An address in shared memory that nobody else has.
pub(crate) fn unused_name() -> io::Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{}-{count}-{:016x}", std::process::id(), random()?))
}

/// A number that nobody can guess.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

/// Opens an endpoint. The second value is to be kept as long as the first.
pub(crate) fn open_port(
    provider: Provider,
    source: Option<IpAddr>,
    chunk_bytes: usize,
    receives: usize,
) -> io::Result<(Port, Option<Claim>)> {
    if provider != Provider::Shm {
        let source = source.filter(|_| provider.has_source()).map(|ip| ip.to_string());
        return Ok((Port::open(provider.name(), source.as_deref(), chunk_bytes, receives)?, None));
    }
    sweep();
    let region = format!("{PREFIX}{}", unused_name()?);
    let port = Port::open(provider.name(), Some(&format!("{REGION}{region}")), chunk_bytes, receives)?;
    Ok((port, Claim::new(&Path::new(SHARED).join(region))))
}

/// Whether a peer's endpoint may have this name, by the name of one's own. The names of the network are of one length;
/// those of shared memory are text, and lead to a file.
pub(crate) fn is_name(provider: Provider, name: &[u8], own: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    match (provider, name.split_last()) {
        (Provider::Shm, Some((0, text))) => text
            .strip_prefix(REGION.as_bytes())
            .is_some_and(|region| region.starts_with(PREFIX.as_bytes()) && region.iter().all(is_plain)),
        (Provider::Shm, _) => false,
        _ => name.len() == own.len(),
    }
}

/// A lock on a region of shared memory that tells others that its owner lives. libfabric leaves the file of a process
/// that is killed, and the file is memory.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: std::fs::File,
}

impl Claim {
    fn new(region: &Path) -> Option<Self> {
        let file = std::fs::File::open(region).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        Some(Self { _file: file })
    }
}

/// Removes the regions of processes that are gone.
fn sweep() {
    // One that is this young may be waiting for its claim.
    const YOUNG: Duration = Duration::from_secs(10);
    let Ok(entries) = std::fs::read_dir(SHARED) else { return };
    for entry in entries.flatten() {
        let is_region = |name: &str| name.starts_with(PREFIX) && !name.ends_with(".socket");
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > YOUNG));
        if entry.file_name().to_str().is_some_and(is_region) && is_old {
            remove_if_unclaimed(&entry.path());
        }
    }
}

fn remove_if_unclaimed(region: &PathBuf) {
    if let Ok(file) = std::fs::File::open(region)
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        // Somebody else may have been quicker.
        let _ = std::fs::remove_file(region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_its_socket_and_back() {
        for text in
            ["fabric+tcp://127.0.0.1:7", "fabric://127.0.0.1:7", "fabric+efa://[::1]:7", "fabric+verbs://[::1]:7"]
        {
            let Ok(Address::Fabric(address)) = text.parse() else { panic!("{text}") };
            assert_eq!(beside(&address, &socket_of(&address)), address);
        }
    }

    #[test]
    fn the_region_of_a_process_that_lives_is_left_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let region = folder.path().join("region");
        std::fs::write(&region, "memory").unwrap();
        let claim = Claim::new(&region).unwrap();
        remove_if_unclaimed(&region);
        assert!(region.exists());
        drop(claim);
        remove_if_unclaimed(&region);
        assert!(!region.exists());
    }
}
