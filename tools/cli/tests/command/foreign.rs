//! A server of HTTP/1.1 that is none of ours, and answers as it is told to.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::process::PATIENCE;

/// What it was asked.
#[derive(Debug)]
pub(crate) struct Asked {
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// What it does then.
pub(crate) enum Does {
    /// Says this, and waits for the next request.
    Says(Vec<u8>),
    /// Says this, and closes.
    Closes(Vec<u8>),
    /// Says this over and over.
    Repeats(Vec<u8>, Vec<u8>),
    /// Nothing.
    Waits,
}

/// It doesn't describe itself.
pub(crate) struct Foreign {
    /// `127.0.0.1:` and its port.
    pub(crate) place: String,
    asked: Receiver<Asked>,
}

impl Foreign {
    pub(crate) fn start(does: impl Fn(&Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let (sender, asked) = channel();
        let does = Arc::new(does);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (does, sender) = (Arc::clone(&does), sender.clone());
                std::thread::spawn(move || serve(stream, &*does, &sender));
            }
        });
        Self { place, asked }
    }

    /// The next call that it was asked for.
    pub(crate) fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).unwrap()
    }
}

fn serve(mut stream: TcpStream, does: &dyn Fn(&Asked) -> Does, asked: &Sender<Asked>) -> Option<()> {
    let mut held = Vec::new();
    loop {
        let end = loop {
            match held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => more(&mut stream, &mut held)?,
            }
        };
        let head = String::from_utf8(held.drain(..end).collect()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while held.len() < length {
            more(&mut stream, &mut held)?;
        }
        let request = Asked { head, body: held.drain(..length).collect() };
        if request.head.contains("/greenwave.meta/") {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").ok()?;
            continue;
        }
        let done = does(&request);
        asked.send(request).ok()?;
        match done {
            Does::Says(bytes) => stream.write_all(&bytes).ok()?,
            Does::Closes(bytes) => return stream.write_all(&bytes).ok(),
            Does::Repeats(first, then) => {
                stream.write_all(&first).ok()?;
                loop {
                    stream.write_all(&then).ok()?;
                }
            }
            Does::Waits => more(&mut stream, &mut held)?,
        }
    }
}

fn more(stream: &mut TcpStream, held: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 4096];
    let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
    held.extend_from_slice(&piece[..length]);
    Some(())
}

/// An answer with this status, these further lines of its head and this body.
pub(crate) fn answer(status: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\n{lines}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
