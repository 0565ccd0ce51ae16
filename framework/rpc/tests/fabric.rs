//! Calls over fabrics, end to end: shared memory, and TCP through libfabric.
#![cfg(feature = "fabric")]

use std::time::Duration;

use greenwave_rpc::*;
use greenwave_verbs::Address;

const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const MINUTE: Duration = Duration::from_secs(60);
const PLACES: [&str; 2] = ["fabric+shm://", "fabric+tcp://127.0.0.1:0"];

fn echo() -> Router {
    Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    })
}

fn serve(place: &str, clusters: usize) -> ServerHandle {
    let config = ServerConfig::default().listen([place.parse().unwrap()]).clusters(clusters);
    Server::start(config, echo()).unwrap()
}

fn channel(server: &ServerHandle) -> Channel {
    Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap()
}

#[test]
fn calls_short_and_long_come_back_from_one_cluster_or_two() {
    for place in PLACES {
        for clusters in [1, 2] {
            let server = serve(place, clusters);
            let channels = [channel(&server), channel(&server)];
            for len in [0, 1, 60, 4000, 16_384, 1 << 20] {
                let request: Vec<u8> = (0..len).map(|at| (at * 7 / 3) as u8).collect();
                for channel in &channels {
                    let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &request).unwrap();
                    assert!(reply.body[..] == request[..], "{len} bytes came back otherwise over {place}");
                }
            }
        }
    }
}

#[test]
fn many_calls_of_many_threads_are_answered_each() {
    for place in PLACES {
        let server = serve(place, 1);
        let channel = channel(&server);
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let channel = &channel;
                scope.spawn(move || {
                    for call in 0..200_u32 {
                        let request = (thread << 16 | call).to_le_bytes();
                        let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &request).unwrap();
                        assert_eq!(&reply.body[..], &request);
                    }
                });
            }
        });
    }
}

#[test]
fn a_server_that_drains_or_dies_is_said_to_be_gone_and_found_again() {
    for place in ["fabric+shm://", "fabric+tcp://127.0.0.1:0"] {
        let server = serve(place, 1);
        let address = server.addresses()[0].clone();
        let channel = channel(&server);
        channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap();
        server.drain(Duration::from_secs(5));
        let status = channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap_err();
        assert_eq!(status.code, Code::Unavailable);
        let config = ServerConfig::default().listen([address]);
        let server = Server::start(config, echo()).unwrap();
        let context = Context::with_deadline(MINUTE);
        while let Err(status) = channel.call(&context, ECHO, b"") {
            assert_eq!(status.code, Code::Unavailable);
            context.checkpoint().expect("the server is found within a minute");
        }
        drop(server);
    }
}

#[test]
fn a_server_can_not_be_at_a_fabric_and_elsewhere_and_says_what_to_do() {
    let listen: Vec<Address> = vec!["fabric+shm://".parse().unwrap(), "tcp://127.0.0.1:0".parse().unwrap()];
    let config = ServerConfig::default().listen(listen);
    let Err(error) = Server::start(config, echo()) else { panic!("one queue carries one kind") };
    assert!(error.to_string().contains("another backend"), "{error}");
}
