//! Requests for small responses.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use greenwave_bench::latencies::{LONGEST, Latencies};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::{Asking, AskingAfterBulk, report, respond};

/// What hasn't come this long after the last request is missed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Open loop: one thread sends at fixed times, another takes the responses, which come in order.
pub(super) fn run(asking: &Asking) -> io::Result<()> {
    let mut stream = connected(asking.from, asking.to)?;
    let mut receiving = stream.try_clone()?;
    let (every, (all, warm_up)) = (asking.times.every(), asking.times.counts());
    let bytes = (asking.bytes as usize).max(respond::LEAST);
    super::begin();

    // The first request isn't at once, so that the other thread waits for its response.
    let begin = Instant::now() + Duration::from_millis(10);
    let scheduled = move |number: usize| begin + every * number as u32;
    receiving.set_read_timeout(Some(PATIENCE))?;
    let receiver = thread::spawn(move || {
        let (mut latencies, mut response) = (Latencies::new(), vec![0; bytes]);
        for number in 0..all {
            if receiving.read_exact(&mut response).is_err() {
                break;
            }
            if number >= warm_up {
                latencies.record(scheduled(number).elapsed());
            }
        }
        latencies
    });
    let mut lag = Duration::ZERO;
    for number in 0..all {
        let at = scheduled(number);
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if number >= warm_up {
            lag = lag.max(at.elapsed());
        }
        if stream.write_all(&respond::request(number as u64, bytes)).is_err() {
            break;
        }
    }
    let mut latencies = receiver.join().map_err(|_| io::Error::other("the receiving thread has panicked"))?;
    let counted = all - warm_up;
    let missed = counted - latencies.count() as usize;
    // What was missed took longer than all that came.
    (0..missed).for_each(|_| latencies.record(LONGEST));
    report(&latencies, counted, missed, &[("max_send_lag_us", lag)])
}

/// A flow that is large, quiet, and then small: one sample each time around.
pub(super) fn after_bulk(asking: &AskingAfterBulk) -> io::Result<()> {
    let mut stream = connected(asking.from, asking.to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; asking.bulk.max(asking.bytes).max(respond::LEAST as u32) as usize];
    let mut number = 0;
    let mut ask = |bytes: u32| {
        let bytes = (bytes as usize).max(respond::LEAST);
        let begin = Instant::now();
        stream.write_all(&respond::request(number, bytes))?;
        stream.read_exact(&mut buffer[..bytes])?;
        number += 1;
        Ok::<_, io::Error>(begin.elapsed())
    };
    super::begin();
    let (mut latencies, mut scheduled) = (Latencies::new(), 0);
    let end = Instant::now() + Duration::from_millis(asking.for_ms);
    while Instant::now() < end {
        // What is missed here would also be missed below.
        if ask(asking.bulk).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(asking.pause_ms));
        scheduled += 1;
        let Ok(took) = ask(asking.bytes) else { break };
        latencies.record(took);
    }
    let missed = scheduled - latencies.count() as usize;
    (0..missed).for_each(|_| latencies.record(LONGEST));
    report(&latencies, scheduled, missed, &[("max_send_lag_us", Duration::ZERO)])
}

/// A connection from an address of this node, of which there may be several.
fn connected(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &from)?;
    connect(&fd, &to)?;
    let stream = TcpStream::from(fd);
    stream.set_nodelay(true)?;
    Ok(stream)
}
