//! Several connections in one call queue.

use greenwave_rpc::*;
use std::collections::BTreeSet;
use std::time::Duration;

const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const MINUTE: Duration = Duration::from_secs(60);

fn serve() -> ServerHandle {
    let echo = Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
    Server::start(ServerConfig::default().listen(listen), echo).unwrap()
}

fn stream(server: &ServerHandle) -> CallQueue {
    CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap()
}

#[test]
fn each_call_goes_over_the_connection_it_was_submitted_on_and_completes_under_its_tag() {
    let servers = [serve(), serve()];
    let mut stream = stream(&servers[0]);
    let config = ChannelConfig::default();
    let connections: Vec<_> =
        (0..100).map(|number| stream.open(&servers[number % 2].addresses()[0], &config).unwrap()).collect();
    let context = Context::with_deadline(MINUTE);
    for round in 0..3_u64 {
        for (number, connection) in (0_u64..).zip(&connections) {
            let tag = round * 100 + number;
            stream.submit_on(*connection, &context, ECHO, &tag.to_le_bytes(), tag);
        }
    }
    let mut tags = BTreeSet::new();
    while let Some(done) = stream.take() {
        assert_eq!(done.result.unwrap().body[..], done.tag.to_le_bytes());
        tags.insert(done.tag);
    }
    assert_eq!(tags, (0..300).collect());
    let accepted = servers.each_ref().map(|server| server.counters().accepted);
    assert_eq!(accepted, [50, 50], "the stream's own connection was never used");
}

#[test]
fn a_connection_that_is_lost_fails_its_own_calls_alone() {
    let (mut gone, stays) = (Some(serve()), serve());
    let mut stream = stream(&stays);
    let context = Context::with_deadline(MINUTE);
    let other = stream.open(&gone.as_ref().unwrap().addresses()[0], &ChannelConfig::default()).unwrap();
    stream.submit_on(other, &context, ECHO, b"", 0);
    assert!(stream.take().unwrap().result.is_ok());
    drop(gone.take());
    stream.submit_on(other, &context, ECHO, b"", 1);
    stream.submit(&context, ECHO, b"", 2);
    let mut done = [stream.take().unwrap(), stream.take().unwrap()];
    done.sort_by_key(|done| done.tag);
    assert_eq!(done.each_ref().map(|done| (done.tag, done.result.is_ok())), [(1, false), (2, true)]);
}

#[test]
fn a_connection_of_another_stream_is_refused() {
    let server = serve();
    let (mut one, mut other) = (stream(&server), stream(&server));
    let foreign = other.open(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    one.submit_on(foreign, &Context::with_deadline(MINUTE), ECHO, b"", 5);
    let done = one.take().expect("it completes at once");
    assert_eq!((done.tag, done.result.unwrap_err().status.code), (5, Code::InvalidArgument));
    assert_eq!(one.in_flight(), 0);
}
