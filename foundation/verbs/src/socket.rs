//! Stream sockets, the carriers of the `uring` and `epoll` backends.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    getpeername, getsockname, listen, shutdown, socket_with, sockopt,
};

use crate::{Address, Backend, CloseReason, VerbsError};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Connections that may wait to be accepted; the system cuts it down to its own limit.
const BACKLOG: i32 = 4096;

/// How long a listener rests after the system had nothing left for a connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// After how long a silence the kernel asks whether the peer is still there, how often, and how many unanswered
/// questions mean that it isn't. A machine that is switched off, or a link that is cut, says nothing; without these the
/// connection would stay for ever.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 6);

/// How long what was written may go unacknowledged, or unread where the peer has no room for it, in milliseconds: the
/// same two minutes, as the kernel asks no questions while it waits for acknowledgements. By default that is up to 15.
const UNACKNOWLEDGED: u32 = 120_000;

/// A socket that listens. Removes its socket file, if it has one, when dropped.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) socket: OwnedFd,
    pub(crate) address: Address,
}

/// How long an address may be in use by a process that has ended, many times as long as was seen; and how often is looked.
const IN_USE: Duration = Duration::from_secs(1);
const LOOKS: Duration = Duration::from_millis(5);

impl ListeningSocket {
    pub(crate) fn open(address: &Address, backend: Backend) -> Result<Self, VerbsError> {
        let failed = |source: io::Error| {
            VerbsError::unless_descriptors(format!("can't listen at {address}"), source, |source| {
                let remedy = listen_remedy(address, Errno::from_io_error(&source));
                VerbsError::Listen { address: address.clone(), remedy, source }
            })
        };
        match address {
            Address::Tcp(socket) => Self::tcp(*socket).map_err(|errno| failed(errno.into())),
            Address::Unix(path) => Self::unix(path).map_err(failed),
            Address::Memory(_) | Address::Fabric(_) | Address::Grpc(_) | Address::Grpcs(_) => {
                Err(VerbsError::WrongTransport { address: address.clone(), backend })
            }
        }
    }

    fn tcp(address: SocketAddr) -> Result<Self, Errno> {
        let socket = patiently(|| {
            let socket = socket_with(family_of(address), SocketType::STREAM, FLAGS, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            set_up_tcp(&socket);
            bind(&socket, &address)?;
            listen(&socket, BACKLOG)?;
            Ok(socket)
        })?;
        let address = Address::Tcp(getsockname(&socket)?.try_into()?);
        Ok(Self { socket, address })
    }

    fn unix(path: &Path) -> io::Result<Self> {
        let name = SocketAddrUnix::new(path)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_stale(path, &name)? => {
                std::fs::remove_file(path)?;
                bind(&socket, &name)?;
            }
            bound => bound?,
        }
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address: Address::Unix(path.to_owned()) })
    }

    /// Stops listening while the socket stays open, because a request still names it. Gives the address up.
    pub(crate) fn stop(&mut self) {
        // Fails only if it doesn't listen.
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.remove_file();
    }

    /// The next connection that waits, if any. It is set up as the listener is.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        accept_with(&self.socket, FLAGS)
    }

    fn remove_file(&mut self) {
        if let Address::Unix(path) = &self.address
            && !path.as_os_str().is_empty()
        {
            // Somebody may have removed it already, which is what was wanted.
            let _ = std::fs::remove_file(path);
            self.address = Address::Unix(PathBuf::new());
        }
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// Does it again for a while as long as the address is in use: the kernel takes io_uring's requests back some time after their process
/// has ended, and a listener that they accept from listens until then. So who is killed and started again would often be refused.
fn patiently(listen: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let began = Instant::now();
    loop {
        match listen() {
            Err(Errno::ADDRINUSE) if began.elapsed() < IN_USE => std::thread::sleep(LOOKS),
            listens => return listens,
        }
    }
}

/// What to do about an address that can't be listened at.
fn listen_remedy(address: &Address, errno: Option<Errno>) -> &'static str {
    let tcp = matches!(address, Address::Tcp(_));
    match errno {
        Some(Errno::ADDRINUSE) if tcp => "stop what listens there, or choose another port; 0 picks a free one",
        Some(Errno::ADDRINUSE) => "stop what listens there, or choose another path",
        Some(Errno::ADDRNOTAVAIL) => {
            "no interface of this machine has this address; choose one that `ip address` lists, or 0.0.0.0 or [::] for all"
        }
        Some(Errno::ACCESS | Errno::PERM) if tcp => {
            "choose a port of 1024 or above, or give the program CAP_NET_BIND_SERVICE, or lower sysctl \
             net.ipv4.ip_unprivileged_port_start"
        }
        Some(Errno::ACCESS | Errno::PERM) => "choose a path in a folder that this user may write to",
        Some(Errno::NOENT) => "make the folder first, or choose another path",
        _ => "choose another address",
    }
}

/// Whether a path is a socket at which nobody listens.
fn is_stale(path: &Path, name: &SocketAddrUnix) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt as _;
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    Ok(connect(&probe, name) == Err(Errno::CONNREFUSED))
}

/// How far a connection is that was begun.
#[derive(Debug)]
pub(crate) enum Progress {
    Connected,
    Underway,
    Failed(CloseReason),
}

/// Begins a connection.
pub(crate) fn begin_connect(address: &Address, backend: Backend) -> Result<(OwnedFd, Progress), VerbsError> {
    let failed = |errno: Errno| {
        VerbsError::unless_descriptors(format!("can't connect to {address}"), errno.into(), |source| {
            VerbsError::Connect { address: address.clone(), source }
        })
    };
    let open = |family| socket_with(family, SocketType::STREAM, FLAGS, None).map_err(failed);
    let (socket, begun) = match address {
        Address::Tcp(name) | Address::Grpc(name) | Address::Grpcs(name) => {
            let socket = open(family_of(*name))?;
            set_up_tcp(&socket);
            let begun = connect(&socket, name);
            (socket, begun)
        }
        Address::Unix(path) => {
            let name = SocketAddrUnix::new(path.as_path()).map_err(failed)?;
            let socket = open(AddressFamily::UNIX)?;
            let begun = connect(&socket, &name);
            (socket, begun)
        }
        Address::Memory(_) | Address::Fabric(_) => {
            return Err(VerbsError::WrongTransport { address: address.clone(), backend });
        }
    };
    let progress = match begun {
        Ok(()) => Progress::Connected,
        // An interrupted connect goes on by itself.
        Err(Errno::INPROGRESS | Errno::INTR) => Progress::Underway,
        Err(errno) => Progress::Failed(reason_of(errno)),
    };
    Ok((socket, progress))
}

/// How a connection that was under way has ended up, now that the socket reports something.
pub(crate) fn connect_outcome(socket: impl AsFd) -> Result<(), CloseReason> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(errno)) | Err(errno) => Err(reason_of(errno)),
    }
}

/// Readies a TCP socket: small chunks leave at once, and a peer that vanished is found out within two minutes. The
/// connections of a listener inherit all of this.
fn set_up_tcp(socket: &OwnedFd) {
    let (idle, between, most) = KEEPALIVE;
    // None of these fails for a TCP socket that is new. A kernel that doesn't know one carries chunks all the same.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, idle);
    let _ = sockopt::set_tcp_keepintvl(socket, between);
    let _ = sockopt::set_tcp_keepcnt(socket, most);
    let _ = sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED);
}

/// The other side of a connection. One that is gone already has the address of nobody.
pub(crate) fn peer_of(socket: &OwnedFd, listener: &Address) -> Address {
    let peer = getpeername(socket).ok().flatten();
    match listener {
        Address::Tcp(own) => {
            let nobody = SocketAddr::new(if own.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
            Address::Tcp(peer.and_then(|any| SocketAddr::try_from(any).ok()).unwrap_or(nobody))
        }
        _ => Address::Unix(peer.and_then(path_of).unwrap_or_default()),
    }
}

/// What to tell the owner of a listener if the system lacks what a connection takes. Otherwise `None`: one connection
/// failed before it was accepted, and the next one need not.
pub(crate) fn lack_of(errno: Errno) -> Option<VerbsError> {
    let lacks = matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM);
    lacks.then(|| VerbsError::refused("can't accept connections", errno))
}

/// Why a connection ended that ended with this error.
pub(crate) fn reason_of(errno: Errno) -> CloseReason {
    CloseReason::of_io(io::Error::from(errno).kind())
}

fn path_of(any: SocketAddrAny) -> Option<PathBuf> {
    let name = SocketAddrUnix::try_from(any).ok()?;
    Some(PathBuf::from(std::ffi::OsStr::new(name.path()?.to_str().ok()?)))
}

fn family_of(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_in_use_a_little_longer_is_waited_for_and_one_that_stays_so_is_refused() {
        let first = ListeningSocket::open(&"tcp://127.0.0.1:0".parse().unwrap(), Backend::Epoll).unwrap();
        let address = first.address.clone();
        let refused = ListeningSocket::open(&address, Backend::Epoll).map(drop).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| ListeningSocket::open(&address, Backend::Epoll).map(drop));
            std::thread::sleep(10 * LOOKS);
            drop(first);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn both_ends_of_a_connection_send_at_once_and_find_out_that_the_other_has_vanished() {
        let listener = ListeningSocket::open(&"tcp://127.0.0.1:0".parse().unwrap(), Backend::Epoll).unwrap();
        let (client, _) = begin_connect(&listener.address, Backend::Epoll).unwrap();
        let server = loop {
            match listener.accept() {
                Ok(socket) => break socket,
                Err(errno) => assert_eq!(errno, Errno::AGAIN),
            }
        };
        for end in [client, server] {
            assert!(sockopt::tcp_nodelay(&end).unwrap() && sockopt::socket_keepalive(&end).unwrap());
            let (idle, between) = (sockopt::tcp_keepidle(&end).unwrap(), sockopt::tcp_keepintvl(&end).unwrap());
            assert_eq!((idle, between, sockopt::tcp_keepcnt(&end).unwrap()), KEEPALIVE);
            assert_eq!(sockopt::tcp_user_timeout(&end).unwrap(), UNACKNOWLEDGED);
        }
    }
}
