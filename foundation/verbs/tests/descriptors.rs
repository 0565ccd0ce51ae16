//! Descriptors come to an end in order, and none is lost. One test, because the limit is the whole process's.

mod hosts;

use std::net::TcpStream;
use std::time::Duration;

use greenwave_verbs::{AcceptMode, Address, Choice, Close, QueueConfig, VerbsError, open};
use hosts::{Host, Seen, connect, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn descriptors_run_out_and_come_back() {
    for backend in [Choice::Uring, Choice::Epoll] {
        let config = QueueConfig { backend, ..QueueConfig::default() };
        let Some(warm) = Host::new(&config) else { continue };
        drop(warm);
        let before = open_descriptors();
        accepting_rests_while_there_are_no_descriptors(&config);
        whoever_wants_one_is_told_of_the_limit(&config);
        connections_and_queues_leave_none_behind(&config);
        // The kernel closes what a ring held when it gets round to it.
        let limit = std::time::Instant::now() + Duration::from_secs(20);
        while open_descriptors() != before {
            assert!(std::time::Instant::now() < limit, "{before} descriptors before, {} after", open_descriptors());
        }
    }
}

fn accepting_rests_while_there_are_no_descriptors(config: &QueueConfig) {
    const CLIENTS: usize = 20;
    let mut server = Host::new(config).unwrap();
    let (_, address) = server.listen(&"tcp://127.0.0.1:0".parse().unwrap());
    let Address::Tcp(socket) = address else { unreachable!("a TCP listener has a TCP address") };
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(socket).unwrap()).collect();

    let limit = getrlimit(Resource::Nofile);
    // The lowest numbers are given out first, so that this leaves room for two.
    let highest = next_descriptor();
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 2), ..limit }).unwrap();
    let frozen = server.now();
    while server.queue.stats().accept_errors == 0 {
        server.queue.submit();
        server.poll_at(frozen);
    }
    let (errors, calls) = (server.queue.stats().accept_errors, server.queue.stats().system_calls);
    let (failures, accepted): (Vec<&Seen>, Vec<&Seen>) =
        server.log.iter().partition(|seen| matches!(seen, Seen::AcceptFailed(_)));
    assert_eq!(accepted.len(), 2, "as many as there are descriptors for");
    let [Seen::AcceptFailed(VerbsError::Descriptors { remedy, .. })] = failures[..] else {
        panic!("told once, not {failures:?}");
    };
    assert!(remedy.contains(&format!("may have {} files open; raise `ulimit -n`", highest + 2)), "{remedy}");
    for _ in 0..1000 {
        server.poll_at(frozen);
    }
    assert_eq!(server.queue.stats().accept_errors, errors, "it doesn't try again at once");
    server.queue.wait(frozen, Some(Duration::from_millis(1)));
    assert!(server.queue.stats().system_calls - calls <= 1010, "a poll, a system call; and the wait sleeps");

    setrlimit(Resource::Nofile, limit).unwrap();
    until([&mut server], |[server]| server.queue.stats().accepted == CLIENTS as u64);
    drop(clients);
}

fn whoever_wants_one_is_told_of_the_limit(config: &QueueConfig) {
    let mut host = Host::new(config).unwrap();
    let (_, address) = host.listen(&"tcp://127.0.0.1:0".parse().unwrap());
    let limit = getrlimit(Resource::Nofile);
    let lowered = next_descriptor();
    let most = |current| setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).unwrap();
    most(lowered);
    let mut refused = vec![
        (host.queue.listen(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap_err(), "can't listen at tcp://127.0.0.1:0"),
        (host.queue.connect(&address).unwrap_err(), "can't connect to tcp://127.0.0.1:"),
    ];
    for backend in [config.backend.clone(), Choice::Auto] {
        // A queue takes two.
        for room in 0..2 {
            most(lowered + room);
            let config = QueueConfig { backend: backend.clone(), ..config.clone() };
            refused.push((open(&config).map(drop).unwrap_err(), "can't "));
        }
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    for (error, doing) in refused {
        assert!(matches!(error, VerbsError::Descriptors { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(doing) && text.contains("raise `ulimit -n`"), "{text}");
        assert!([0, 1].iter().any(|room| text.contains(&format!("may have {} files", lowered + room))), "{text}");
    }
}

fn connections_and_queues_leave_none_behind(config: &QueueConfig) {
    for how in [Close::Flush, Close::Abort, Close::Abort] {
        let (mut server, mut client) = (Host::new(config).unwrap(), Host::new(config).unwrap());
        let (at_server, at_client) = connect(&mut server, &mut client, &"tcp://127.0.0.1:0".parse().unwrap());
        client.queue.post_send(at_client, &[b"x"]).unwrap();
        client.queue.close(at_client, how);
        until([&mut server, &mut client], |[server, _]| server.closed(at_server).is_some());
        let (listener, address) = server.listen(&"tcp://127.0.0.1:0".parse().unwrap());
        server.queue.set_accept_mode(listener, AcceptMode::Detach).unwrap();
        server.log.clear();
        let other = client.queue.connect(&address).unwrap();
        until([&mut server, &mut client], |[server, _]| !server.log.is_empty());
        server.queue.close_listener(listener);
        client.queue.connect(&"tcp://127.0.0.1:1".parse().unwrap()).unwrap();
        server.queue.post_send(at_server, &[b"stale"]).unwrap_err();
        client.queue.post_send(other, &[b"never submitted"]).unwrap();
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn next_descriptor() -> u64 {
    use std::os::fd::AsRawFd;
    std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64
}
