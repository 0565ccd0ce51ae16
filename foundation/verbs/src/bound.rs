//! How much of an endpoint's bytes is bound to leave in order, and how far they have got.
//!
//! What a socket has taken can't be overtaken, so whoever has something short to say wants it to take little. Its send
//! buffer is what bounds that: both what is unsent and what is unacknowledged counts, wherever it lies, and the kernel
//! says when a third of it is free. But it looks at the bound only when it begins a new segment, and would add to one
//! of up to 64 KiB that hasn't left yet; so each write to a bounded socket ends its segment.

use std::time::Duration;

use greenwave_policy::{Acknowledged, Bound};
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use crate::stream::Stream;

/// What the kernel counts for a segment beyond its bytes (`truesize`; Linux 6 on x86-64, by `ss -m`).
const SEGMENT: usize = 832;

/// The longest segment.
const SEGMENT_BYTES: usize = 64 << 10;

impl Stream {
    /// Bounds what the connection holds, or bounds no longer what is posted to it.
    pub(crate) fn bound(&mut self, bound: Option<Bound>) {
        let Some(bound) = bound else {
            self.mark = usize::MAX;
            self.flags.remove(SendFlags::EOR);
            return;
        };
        self.mark = bound.posted.max(1);
        self.outbox.lower(self.mark);
        self.flags.insert(SendFlags::EOR);
        // As long as there is any room at all the kernel takes a whole segment. So the room is that of so many, no more;
        // except that it grants 4608 bytes at least, in which there is room for three of the shortest.
        let segment = bound.chunk.clamp(1, SEGMENT_BYTES);
        let segments = (bound.taken / segment).max(1);
        let half = segments.saturating_mul(segment + SEGMENT) / 2;
        if std::mem::replace(&mut self.half_buffer, half) == half {
            return;
        }
        // The kernel doubles what it is told, and takes no more than `net.core.wmem_max`, without a word.
        let _ = sockopt::set_socket_send_buffer_size(&self.socket, half);
        // A link for which that is too little is long and fat. The kernel is left to find what it needs.
        if sockopt::socket_send_buffer_size(&self.socket).is_ok_and(|granted| granted / 2 < half) {
            unlock(&self.socket);
        }
    }

    /// How far the connection has got, if it is one of TCP.
    pub(crate) fn acknowledged(&self) -> Option<Acknowledged> {
        let info = TcpInfo::of(&self.socket)?;
        let round_trip = Duration::from_micros(info.u32_at(148)?.into());
        let all = info.u32_at(24)? == 0 && info.u32_at(144)? == 0;
        Some(Acknowledged { bytes: info.u64_at(120)?, round_trip, all })
    }

    /// Tags what the connection sends: the upper six bits of a byte of the IP header.
    pub(crate) fn tag(&self, dscp: u8) -> Result<(), Errno> {
        let byte = dscp << 2;
        match rustix::net::getsockname(&self.socket)?.address_family() {
            rustix::net::AddressFamily::INET => sockopt::set_ip_tos(&self.socket, byte),
            rustix::net::AddressFamily::INET6 => {
                // To an IPv4 peer it speaks IPv4.
                let _ = sockopt::set_ip_tos(&self.socket, byte);
                sockopt::set_ipv6_tclass(&self.socket, byte.into())
            }
            // There is no network that could look at it.
            _ => Ok(()),
        }
    }
}

/// Lets the kernel choose a socket's send buffer again, since Linux 5.14. Before, it stays at what was granted.
fn unlock(socket: impl AsFd) {
    /// Its name in linux/socket.h is `SO_BUF_LOCK`; the locks that are to hold are none.
    const BUFFER_LOCK: libc::c_int = 72;
    let locks: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads an int, which is what there is.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            BUFFER_LOCK,
            (&raw const locks).cast(),
            size_of_val(&locks) as libc::socklen_t,
        )
    };
}

/// The beginning of the kernel's `struct tcp_info`, which only ever grows at its end (linux/tcp.h): at 24 is
/// `tcpi_unacked`, in segments, at 120 `tcpi_bytes_acked`, at 144 `tcpi_notsent_bytes`, at 148 `tcpi_min_rtt`, in
/// microseconds.
struct TcpInfo {
    bytes: [u8; 192],
    len: usize,
}

impl TcpInfo {
    fn of(socket: impl AsFd) -> Option<Self> {
        let mut bytes = [0; 192];
        let mut len = bytes.len() as libc::socklen_t;
        // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `len` bytes to `bytes`, which
        // has as many, and to `len`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        (result == 0).then_some(Self { bytes, len: len as usize })
    }

    fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.bytes.get(at..self.len)?.first_chunk()?))
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.bytes.get(at..self.len)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::socket::{ListeningSocket, begin_connect};
    use crate::stream::Phase;
    use rustix::net::{RecvFlags, recv, send};

    fn pair(address: &str) -> (Stream, rustix::fd::OwnedFd) {
        let listener = ListeningSocket::open(&address.parse().unwrap(), Backend::Epoll).unwrap();
        let (client, _) = begin_connect(&listener.address, Backend::Epoll).unwrap();
        let server = loop {
            if let Ok(socket) = listener.accept() {
                break socket;
            }
        };
        (Stream::new(client, Phase::Open, None), server)
    }

    fn taken(stream: &Stream, chunk: usize) -> usize {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | stream.flags;
        let bytes = vec![7; chunk];
        std::iter::from_fn(|| send(&stream.socket, &bytes, flags).ok()).sum()
    }

    #[test]
    fn a_bounded_socket_takes_about_as_much_as_it_was_told_while_nobody_reads() {
        // Whatever the receiver takes in is gone; so its buffer is made small.
        let (mut stream, server) = pair("tcp://127.0.0.1:0");
        sockopt::set_socket_recv_buffer_size(&server, 4096).unwrap();
        stream.bound(Some(Bound { posted: 1, taken: 32 << 10, chunk: 4 << 10 }));
        let bounded = taken(&stream, 4 << 10);
        assert!(bounded < 512 << 10, "{bounded}");
        let (stream, server) = pair("tcp://127.0.0.1:0");
        sockopt::set_socket_recv_buffer_size(&server, 4096).unwrap();
        assert!(taken(&stream, 4 << 10) > bounded);
    }

    #[test]
    fn the_room_is_that_of_whole_segments() {
        let (mut stream, _server) = pair("tcp://127.0.0.1:0");
        let mut granted = |taken, chunk| {
            stream.bound(Some(Bound { posted: 1, taken, chunk }));
            sockopt::socket_send_buffer_size(&stream.socket).unwrap()
        };
        assert_eq!(granted(3 * 4096 + 4095, 4096), 3 * (4096 + SEGMENT));
        assert_eq!(granted(3 * 4096 + 4095, 2048), 7 * (2048 + SEGMENT));
        // As few as the kernel grants.
        assert!((4096 + SEGMENT..8192).contains(&granted(0, 4096)));
    }

    #[test]
    fn what_the_peer_acknowledged_is_told() {
        let (stream, server) = pair("tcp://[::1]:0");
        let before = stream.acknowledged().unwrap();
        assert_eq!(send(&stream.socket, &[7; 1000], SendFlags::NOSIGNAL), Ok(1000));
        assert_eq!(recv(&server, &mut [0; 1000][..], RecvFlags::WAITALL).unwrap().0, 1000);
        // It may take a while until the acknowledgement is here.
        while stream.acknowledged().unwrap().bytes < before.bytes + 1000 {}
        assert!(stream.acknowledged().unwrap().round_trip < Duration::from_secs(1));
    }

    #[test]
    fn only_tcp_tells_of_acknowledgements_and_only_the_internet_knows_tags() {
        let path = tempfile::tempdir().unwrap();
        let (stream, _server) = pair(&format!("unix://{}/socket", path.path().display()));
        assert_eq!(stream.acknowledged(), None);
        assert_eq!(stream.tag(46), Ok(()));
        for address in ["tcp://127.0.0.1:0", "tcp://[::1]:0"] {
            let (stream, _server) = pair(address);
            stream.tag(10).unwrap();
            assert_eq!(sockopt::ip_tos(&stream.socket).map(|byte| byte >> 2), Ok(10), "{address}");
        }
    }
}
