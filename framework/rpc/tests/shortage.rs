//! Channels that could not start for want of something: they start once it is there.

mod raw;

use greenwave_rpc::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

const NULL: MethodId = MethodId::of("test.Null/Call");
const MINUTE: Duration = Duration::from_secs(60);

/// Runs a test again in a process of its own, whose limits it may lower. Whether this is that process.
fn alone(test: &str) -> bool {
    if std::env::var_os("ALONE").is_some() {
        return true;
    }
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(this);
    let ran = command.args(["--exact", test, "--test-threads=1"]).env("ALONE", "1").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    false
}

fn start() -> (ServerHandle, Channel) {
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    let router = Router::new().method("test.Null/Call", |_, _, _| Ok(()));
    let server = Server::start(ServerConfig::default().listen(listen), router).unwrap();
    let config = ChannelConfig::default().reconnect(Duration::from_millis(1));
    let channel = Channel::new(server.addresses()[0].clone(), config).unwrap();
    (server, channel)
}

fn call(channel: &Channel) -> Result<Reply, Status> {
    channel.call(&Context::with_deadline(MINUTE), NULL, b"")
}

/// Does something that fails while no more than `least` of a resource may be had, and works afterwards.
fn works_once_there_is_some<T>(resource: Resource, least: u64, code: Code, work: impl Fn() -> Result<T, Status>) {
    let limit = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(least), ..limit }).unwrap();
    let failed = work();
    setrlimit(resource, limit).unwrap();
    assert_eq!(failed.map(drop).unwrap_err().code, code);
    raw::eventually("it works", || work().is_ok());
}

#[test]
fn a_channel_that_found_no_file_descriptor_starts_when_there_is_one() {
    if alone("a_channel_that_found_no_file_descriptor_starts_when_there_is_one") {
        let (_server, channel) = start();
        works_once_there_is_some(Resource::Nofile, 0, Code::Unavailable, || call(&channel));
    }
}

#[test]
fn a_channel_that_found_no_memory_for_its_dispatcher_has_one_when_there_is_some() {
    if alone("a_channel_that_found_no_memory_for_its_dispatcher_has_one_when_there_is_some") {
        let (_server, channel) = start();
        call(&channel).expect("its completion queue is there");
        // Enough for anything but a stack.
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let least = pages * rustix::param::page_size() as u64 + (1 << 20);
        works_once_there_is_some(Resource::As, least, Code::ResourceExhausted, || channel.stream());
    }
}
