//! Large flows.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use greenwave_bench::latencies::{LONGEST, Latencies};
use greenwave_bench::process::{self, say};
use rustix::net::sockopt::set_tcp_congestion;

use super::{Times, report, serve};

/// What is written at once.
const CHUNK: usize = 64 << 10;
/// UDP payload of a full packet.
const DATAGRAM: usize = 1472;
/// Datagrams are sent in bursts, so far apart.
const BURST_EVERY: Duration = Duration::from_millis(1);
/// Where nobody listens (RFC 863).
const DISCARD: u16 = 9;
/// A flow that takes longer counts as missed.
const PATIENCE: Duration = Duration::from_secs(3);

static SENT: AtomicU64 = AtomicU64::new(0);

/// As much as goes.
pub(super) fn streams(to: SocketAddr, connections: usize) -> io::Result<()> {
    for _ in 0..connections {
        let mut stream = TcpStream::connect(to)?;
        // What most of the network's bulk is sent by, whatever this machine is set to. BBR would keep queues short where
        // it is alone.
        if let Err(error) = set_tcp_congestion(&stream, "cubic") {
            eprintln!("bulk isn't sent by CUBIC, which this kernel doesn't offer: {error}");
        }
        thread::spawn(move || {
            let chunk = vec![2; CHUNK];
            while let Ok(bytes) = stream.write(&chunk) {
                SENT.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
    }
    serve(&SENT)
}

/// So much, whether or not it gets through.
pub(super) fn datagrams(to: SocketAddr, mbit: f64) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    thread::spawn(move || {
        let (datagram, begin, mut sent) = ([3; DATAGRAM], Instant::now(), 0);
        let per_s = mbit.max(0.0) * 1e6 / 8.0 / DATAGRAM as f64;
        for burst in 1.. {
            let due = (begin.elapsed().as_secs_f64() * per_s) as u64;
            for _ in sent..due {
                // A full buffer drops it, as the network would.
                let _ = socket.send(&datagram);
            }
            sent = due;
            SENT.store(sent * DATAGRAM as u64, Ordering::Relaxed);
            thread::sleep((begin + BURST_EVERY * burst).saturating_duration_since(Instant::now()));
        }
    });
    serve(&SENT)
}

/// So many datagrams, to so many addresses in turns, each time that it's asked.
pub(super) fn scatter(to: Ipv4Addr, flows: u32, datagrams: u32) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let first = u32::from(to);
    say("ready");
    process::answer_all(|_| {
        let begin = Instant::now();
        for number in 0..datagrams {
            let address = Ipv4Addr::from(first.wrapping_add(number % flows.max(1)));
            // A full buffer drops it; others come.
            let _ = socket.send_to(&[5; 64], (address, DISCARD));
        }
        Ok(Some(format!("{datagrams} {}", begin.elapsed().as_nanos())))
    })
    .map_err(io::Error::other)
}

/// Flows of one size at fixed times. A flow is complete when the receiver has closed its side too.
pub(super) fn flows(to: SocketAddr, bytes: u64, times: Times) -> io::Result<()> {
    super::begin();
    let (every, (all, warm_up)) = (times.every(), times.counts());
    let (done, completions) = channel();
    let begin = Instant::now();
    let mut lag = Duration::ZERO;
    for number in 0..all {
        let at = begin + every * number as u32;
        thread::sleep(at.saturating_duration_since(Instant::now()));
        lag = lag.max(at.elapsed());
        let done = done.clone();
        thread::spawn(move || {
            if number >= warm_up && one_flow(to, bytes).is_ok() {
                let _ = done.send(at.elapsed());
            } else if number < warm_up {
                let _ = one_flow(to, bytes);
            }
        });
    }
    drop(done);
    let mut latencies = Latencies::new();
    let end = Instant::now() + PATIENCE;
    while let Ok(took) = completions.recv_timeout(end.saturating_duration_since(Instant::now())) {
        latencies.record(took);
    }
    let missed = all - warm_up - latencies.count() as usize;
    (0..missed).for_each(|_| latencies.record(LONGEST));
    report(&latencies, all - warm_up, missed, &[("max_send_lag_us", lag)])
}

fn one_flow(to: SocketAddr, bytes: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    let chunk = [4; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(CHUNK as u64);
        stream.write_all(&chunk[..part as usize])?;
        left -= part;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read(&mut [0]).map(|_| ())
}
