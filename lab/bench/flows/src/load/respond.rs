//! Responses of any size.
//!
//! A request is its number and the size of the response, a response its number and as many bytes as make up that size;
//! all numbers have eight bytes, the least significant first.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::thread;

/// Bytes of a request.
pub(super) const REQUEST: usize = 16;
/// Bytes of the shortest response, which is its number.
pub(super) const LEAST: usize = 8;
/// Bytes of the longest response.
pub(super) const MOST: usize = 64 << 20;

pub(super) fn run(listen: SocketAddr) -> io::Result<()> {
    static ANSWERED: AtomicU64 = AtomicU64::new(0);
    let listener = TcpListener::bind(listen)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    super::serve(&ANSWERED)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut request, mut response) = ([0; REQUEST], Vec::new());
    loop {
        stream.read_exact(&mut request)?;
        let (number, bytes) = parse(&request);
        response.resize(bytes.max(response.len()), 1);
        response[..LEAST].copy_from_slice(&number.to_le_bytes());
        stream.write_all(&response[..bytes])?;
    }
}

/// A request for so many bytes.
pub(super) fn request(number: u64, bytes: usize) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&number.to_le_bytes());
    request[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
    request
}

/// The number of a request, and the size of its response.
fn parse(request: &[u8; REQUEST]) -> (u64, usize) {
    let word = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&request[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    (word(0), usize::try_from(word(8)).unwrap_or(MOST).clamp(LEAST, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_asks_for_more_than_there_may_be() {
        assert_eq!(parse(&request(7, 2048)), (7, 2048));
        assert_eq!(parse(&[0xff; REQUEST]), (u64::MAX, MOST));
        assert_eq!(parse(&[0; REQUEST]), (0, LEAST));
    }
}
