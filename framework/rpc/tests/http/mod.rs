//! A client of HTTP/1.1 by hand.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection.
pub(crate) struct Http<S: Read + Write>(BufReader<S>);

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

impl Http<TcpStream> {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }
}

impl<S: Read + Write> Http<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next answer to something else than HEAD.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection ended within {lines:?}");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            let body = std::iter::from_fn(|| self.chunk()).flatten().collect();
            return Answer { status, headers, body };
        }
        let len = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, len)| len.parse().unwrap());
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).unwrap();
        Answer { status, headers, body }
    }

    /// The next chunk of a body; `None`: that was all.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let len = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; len + 2];
        self.0.read_exact(&mut chunk).unwrap();
        assert_eq!(chunk.split_off(len), b"\r\n");
        (len > 0).then_some(chunk)
    }

    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Answer {
        self.send(bytes);
        self.answer()
    }

    /// Calls a method with a body of this type.
    pub(crate) fn post(&mut self, method: &str, kind: &str, more: &str, body: &[u8]) -> Answer {
        self.ask(&post(method, kind, more, body))
    }

    /// Whether the other side has closed, and sent nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.0.read_to_end(&mut Vec::new()).is_ok_and(|len| len == 0)
    }
}

/// A request; `more`: further headers, each with its line's end.
pub(crate) fn post(method: &str, kind: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "POST /{method} HTTP/1.1\r\nHost: here\r\nContent-Type: application/{kind}\r\nContent-Length: {len}\r\n{more}\r\n"
    );
    [head.as_bytes(), body].concat()
}
