//! What takes bulk, and counts it as it comes.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

static TAKEN: AtomicU64 = AtomicU64::new(0);

pub(super) fn run(listen: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let datagrams = UdpSocket::bind(listen)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drain(stream));
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(bytes) = datagrams.recv(&mut buffer) {
            TAKEN.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    super::serve(&TAKEN)
}

fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes) = stream.read(&mut buffer) {
        if bytes == 0 {
            break;
        }
        TAKEN.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
