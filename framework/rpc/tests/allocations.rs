//! In the steady state a null call allocates nothing, on either side; nor does one by gRPC, where it is served.
//!
//! A process of its own, as everything that the process allocates is counted.

use greenwave_rpc::{CallQueue, ChannelConfig, MethodId, Router, Server, ServerConfig, ServerHandle};
use greenwave_verbs::{Address, Choice};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NULL: MethodId = MethodId::of("test.Null/Call");
const MINUTE: Duration = Duration::from_secs(60);

/// Held by each test: what one allocates, another would count.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes so many batches of calls, each answered before the next.
fn call(stream: &mut CallQueue, batch: u64, batches: usize) {
    for _ in 0..batches {
        (0..batch).for_each(|tag| stream.submit_within(MINUTE, NULL, &[7; 64], tag));
        for _ in 0..batch {
            let reply = stream.take().unwrap().result.unwrap();
            assert_eq!(*reply.body, [7; 64]);
            stream.recycle(reply);
        }
    }
}

fn start(backend: &Choice) -> ServerHandle {
    let router = Router::new().method("test.Null/Call", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let listen = vec![Address::Tcp(([127, 0, 0, 1], 0).into())];
    Server::start(ServerConfig::default().listen(listen).backend(backend.clone()), router).unwrap()
}

/// Passes if one of five rounds allocates nothing. A queue grows when it is deeper than ever before, which a busy machine may
/// bring about in any of these. What calls allocate, each or now and then, is in all of them.
fn check(what: &str, mut round: impl FnMut()) {
    round();
    let counted: Vec<_> = (0..5).map(|_| counted(&mut round)).collect();
    let none = counted.iter().any(|counted| counted.allocations + counted.reallocations == 0);
    assert!(none, "{what}: {counted:#?}");
}

#[test]
fn a_null_call_allocates_nothing_once_warm() {
    let _alone = ALONE.lock().unwrap();
    for backend in [Choice::Auto, Choice::Epoll] {
        let server = start(&backend);
        let config = ChannelConfig::default().backend(backend.clone());
        let mut stream = CallQueue::connect(&server.addresses()[0], &config).unwrap();
        for batch in [1, 64] {
            check(&format!("over {backend:?}, {batch} at a time"), || call(&mut stream, batch, 2000));
        }
    }
}

/// A frame of HTTP/2 (RFC 9113, 4.1), whose length fits into a byte.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = [0, 0, u8::try_from(payload.len()).unwrap(), kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A connection of gRPC's that makes the same call again and again, and allocates nothing by it.
struct GrpcCalls {
    socket: TcpStream,
    request: Vec<u8>,
    /// Where the numbers of the stream are in it.
    numbers: [usize; 2],
    next: u32,
}

impl GrpcCalls {
    fn connect(address: &Address) -> Self {
        let Address::Tcp(address) = address else { panic!("{address} is no TCP") };
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let window = (1_u32 << 30).to_be_bytes();
        let settings = frame(4, 0, 0, &[&[0, 4], &window[..]].concat());
        let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &frame(8, 0, 0, &window)].concat();
        socket.write_all(&begin).unwrap();
        // POST, http, and three that are written out and not to be put into the table (RFC 7541, 6.2.2).
        let mut headers = vec![0x83, 0x86];
        for (name, value) in [(&[4][..], "/test.Null/Call"), (&[15, 16], "application/grpc"), (b"\0\x02te", "trailers")]
        {
            headers.extend_from_slice(name);
            headers.push(u8::try_from(value.len()).unwrap());
            headers.extend_from_slice(value.as_bytes());
        }
        let message = [&[0, 0, 0, 0, 64][..], &[7; 64]].concat();
        let (headers, data) = (frame(1, 4, 0, &headers), frame(0, 1, 0, &message));
        let numbers = [5, headers.len() + 5];
        Self { socket, request: [headers, data].concat(), numbers, next: 1 }
    }

    /// Makes so many calls, one after the other.
    fn call(&mut self, calls: u32) {
        for _ in 0..calls {
            for at in self.numbers {
                self.request[at..at + 4].copy_from_slice(&self.next.to_be_bytes());
            }
            self.socket.write_all(&self.request).unwrap();
            let (mut message, mut is_over) = ([0; 69], false);
            while !is_over {
                let (mut head, mut payload) = ([0; 9], [0; 255]);
                self.socket.read_exact(&mut head).unwrap();
                let [0, 0, len, kind, flags, stream @ ..] = head else { panic!("a long frame: {head:?}") };
                let payload = &mut payload[..usize::from(len)];
                self.socket.read_exact(payload).unwrap();
                if kind == 0 {
                    message.copy_from_slice(payload);
                }
                is_over = u32::from_be_bytes(stream) == self.next && kind == 1 && flags & 1 == 1;
            }
            assert_eq!(message[5..], [7; 64]);
            self.next += 2;
        }
    }
}

#[test]
fn a_null_call_by_grpc_allocates_nothing_where_it_is_served() {
    let _alone = ALONE.lock().unwrap();
    for backend in [Choice::Auto, Choice::Epoll] {
        let server = start(&backend);
        let mut calls = GrpcCalls::connect(&server.addresses()[0]);
        check(&format!("over {backend:?}"), || calls.call(2000));
    }
}

/// What the process allocates meanwhile.
fn counted(work: impl FnOnce()) -> Stats {
    let region = Region::new(ALLOCATOR);
    work();
    region.change()
}
