//! What queues over a fabric do between processes, and with a fabric that doesn't work.
//!
//! A test that needs another process runs this program again, for the one test that is the other's part.
#![cfg(feature = "fabric")]

mod hosts;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use greenwave_verbs::{Address, Choice, Close, CloseReason, QueueConfig, VerbsError, open};
use hosts::{Host, Seen, connect, until};

const CHUNK_BYTES: usize = 16 * 1024;

fn config() -> QueueConfig {
    QueueConfig { backend: Choice::Fabric, ..QueueConfig::default() }
}

fn host() -> Host {
    Host::new(&config()).expect("libfabric runs where these tests are built")
}

/// Another process that plays a part, killed when dropped.
struct Other(Child, BufReader<ChildStdout>);

impl Other {
    fn start(part: &str, address: &str, set_up: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([part, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("GREENWAVE_ADDRESS", address).stdout(Stdio::piped());
        set_up(&mut command);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    /// What it says next behind `said: `.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "the other process is gone");
            if let Some((_, said)) = line.split_once("said: ") {
                return said.trim().to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "said: {what}").unwrap();
    out.flush().unwrap();
}

fn own_address() -> Address {
    std::env::var("GREENWAVE_ADDRESS").unwrap().parse().unwrap()
}

#[test]
#[ignore = "another process's part"]
fn part_of_an_echo() {
    let mut server = host();
    let (_, address) = server.listen(&own_address());
    say(&address.to_string());
    let mut answers = VecDeque::new();
    loop {
        server.queue.wait(server.now(), None);
        server.turn();
        for seen in std::mem::take(&mut server.log) {
            if let Seen::Received(endpoint, chunk) = seen {
                answers.push_back((endpoint, chunk));
            }
        }
        while let Some((endpoint, chunk)) = answers.pop_front_if(|(endpoint, _)| server.queue.send_room(*endpoint) > 0)
        {
            server.queue.post_send(endpoint, &[&chunk]).unwrap();
        }
    }
}

#[test]
#[ignore = "another process's part"]
fn part_of_a_client_that_waits() {
    let mut client = host();
    let endpoint = client.queue.connect(&own_address()).unwrap();
    client.queue.post_send(endpoint, &[b"here"]).unwrap();
    loop {
        client.queue.wait(client.now(), None);
        client.turn();
    }
}

#[test]
#[ignore = "another process's part"]
fn part_of_one_whose_provider_is_nonsense() {
    let Err(error @ VerbsError::Unavailable { .. }) = open(&config()) else { panic!("there is no such provider") };
    say(&error.to_string());
    open(&QueueConfig { backend: Choice::Auto, ..config() }).expect("other queues are unharmed");
    say("fine");
}

const PLACES: [&str; 2] = ["fabric+shm://", "fabric+tcp://127.0.0.1:0"];

/// Sends chunks of many lengths to an echo, several at a time, and compares what comes back.
fn talk(client: &mut Host, address: &str) -> greenwave_verbs::EndpointId {
    let endpoint = client.queue.connect(&address.parse().unwrap()).unwrap();
    let lengths = [1, 44, 64, 4000, 4096, 5000, CHUNK_BYTES - 1, CHUNK_BYTES].into_iter().cycle().take(200);
    let chunks: Vec<Vec<u8>> = lengths.enumerate().map(|(number, length)| vec![number as u8; length]).collect();
    for chunk in &chunks {
        until([client], |[client]| client.queue.send_room(endpoint) > 0);
        client.queue.post_send(endpoint, &[chunk]).unwrap();
    }
    until([client], |[client]| client.chunks().len() == chunks.len());
    assert!(client.chunks() == chunks, "a chunk was changed on the way");
    endpoint
}

#[test]
fn two_processes_talk_and_the_death_of_one_is_noticed_by_the_other() {
    for place in PLACES {
        let mut echo = Other::start("part_of_an_echo", place, |same| same);
        let address = echo.hear();
        let mut client = host();
        let endpoint = talk(&mut client, &address);
        echo.kill();
        until([&mut client], |[client]| client.closed(endpoint).is_some());
        assert_eq!(client.closed(endpoint), Some(CloseReason::Reset));
        let again = client.queue.connect(&address.parse().unwrap()).unwrap();
        until([&mut client], |[client]| client.closed(again) == Some(CloseReason::Refused));
    }
}

#[test]
fn a_server_asleep_wakes_when_a_client_is_killed_and_takes_the_next() {
    for place in PLACES {
        let mut server = host();
        let (_, address) = server.listen(&place.parse().unwrap());
        for _ in 0..3 {
            server.log.clear();
            let mut client = Other::start("part_of_a_client_that_waits", &address.to_string(), |same| same);
            until([&mut server], |[server]| server.chunks() == [b"here"]);
            let endpoint = server.accepted().unwrap();
            server.queue.post_send(endpoint, &[&[1; CHUNK_BYTES]]).unwrap();
            client.kill();
            while server.closed(endpoint).is_none() {
                let now = server.now();
                server.queue.wait(now, Some(Duration::from_secs(20)));
                assert!(server.turn() > 0 || server.now().since(now) < Duration::from_secs(20), "nothing woke it");
            }
        }
    }
}

#[test]
fn long_chunks_pass_without_reading_the_memory_of_the_other_process() {
    // As where ptrace is forbidden: libfabric then copies through the shared memory in pieces.
    let mut echo = Other::start("part_of_an_echo", "fabric+shm://", |command| command.env("FI_SHM_DISABLE_CMA", "1"));
    let address = echo.hear();
    talk(&mut host(), &address);
}

#[test]
fn signals_are_left_to_the_program() {
    let mut echo = Other::start("part_of_an_echo", "fabric+shm://", |same| same);
    let address = echo.hear();
    talk(&mut host(), &address);
    let process = rustix::process::Pid::from_child(&echo.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(echo.0.wait().unwrap().signal(), Some(15), "it dies of the signal, as any program without a handler");
}

#[test]
fn a_provider_that_is_not_there_is_an_error_with_a_remedy_and_harms_no_other_queue() {
    let part = "part_of_one_whose_provider_is_nonsense";
    let mut other = Other::start(part, "fabric+shm://", |command| command.env("FI_PROVIDER", "nonsense"));
    let error = other.hear();
    assert!(error.contains("fi_getinfo failed: No data available") && error.contains("unset FI_PROVIDER"), "{error}");
    assert_eq!(other.hear(), "fine");
}

#[test]
fn an_address_whose_provider_is_not_there_is_refused_by_name() {
    let mut queue = host().queue;
    // A machine with such an adapter needs no such test.
    if let Err(error) = queue.listen(&"fabric+efa://127.0.0.1:0".parse().unwrap()) {
        assert!(matches!(error, VerbsError::Listen { .. }) && error.to_string().contains("efa"), "{error}");
        let error = queue.connect(&"fabric+efa://127.0.0.1:1".parse().unwrap()).unwrap_err();
        assert!(matches!(error, VerbsError::Connect { .. }) && error.to_string().contains("efa"), "{error}");
    }
    let error = queue.listen(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, VerbsError::WrongTransport { .. }) && error.to_string().contains("fabric://"), "{error}");
}

#[test]
fn where_the_provider_is_left_open_both_sides_agree_on_one() {
    let (mut server, mut client) = (host(), host());
    let (at_server, _) = connect(&mut server, &mut client, &"fabric://127.0.0.1:0".parse().unwrap());
    server.queue.post_send(at_server, &[b"hello"]).unwrap();
    until([&mut server, &mut client], |[_, client]| client.chunks() == [b"hello"]);
}

#[test]
fn a_peer_with_longer_chunks_is_cut_off_when_it_sends_one() {
    for place in PLACES {
        let mut server = Host::new(&QueueConfig { chunk_bytes: 100, ..config() }).unwrap();
        let mut client = host();
        let (at_server, at_client) = connect(&mut server, &mut client, &place.parse().unwrap());
        client.queue.post_send(at_client, &[&[1; 100]]).unwrap();
        client.queue.post_send(at_client, &[&[1; 101]]).unwrap();
        until([&mut server, &mut client], |[server, client]| {
            server.closed(at_server).is_some() && client.closed(at_client).is_some()
        });
        assert_eq!(server.closed(at_server), Some(CloseReason::Oversized { len: 101, limit: 100 }));
        assert_eq!(server.chunks(), [[1; 100]]);
    }
}

#[test]
fn a_stranger_at_the_meeting_place_is_cut_off() {
    let mut server = host();
    let (_, address) = server.listen(&"fabric+shm://".parse().unwrap());
    let name = address.to_string();
    let path = format!("/dev/shm/greenwave-{}.socket", name.strip_prefix("fabric+shm://").unwrap());
    for words in
        [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[1, 5, 0, b'G', b'W', b'F', 9, 1], &[255; 4000], &[5, 2, 0, 1, 1]]
    {
        let mut stranger = UnixStream::connect(&path).unwrap();
        // It may be cut off before it has said everything.
        let _ = stranger.write_all(words);
        server.log.clear();
        until([&mut server], |[server]| server.log.iter().any(|seen| matches!(seen, Seen::Closed(..))));
    }
}

#[test]
fn more_queues_come_and_go_than_shared_memory_has_places_for_peers() {
    let mut echo = Other::start("part_of_an_echo", "fabric+shm://", |same| same);
    let address: Address = echo.hear().parse().unwrap();
    for _ in 0..300 {
        let mut client = host();
        let endpoint = client.queue.connect(&address).unwrap();
        client.queue.post_send(endpoint, &[b"there"]).unwrap();
        until([&mut client], |[client]| !client.chunks().is_empty());
        client.queue.close(endpoint, Close::Flush);
        until([&mut client], |[client]| client.closed(endpoint).is_some());
    }
}
