//! Calls over real sockets, end to end.

use greenwave_policy::AdmissionConfig;
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const MODES: [Mode; 3] =
    [Mode::Direct, Mode::Dispatched { delivery: Delivery::Poll }, Mode::Dispatched { delivery: Delivery::Notify }];
const ECHO: MethodId = MethodId::of("test.Echo/Echo");
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn echo() -> Router {
    Router::new().method("test.Echo/Echo", |_, request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    })
}

fn local() -> Vec<Address> {
    vec!["tcp://127.0.0.1:0".parse().unwrap()]
}

fn serve(router: Router) -> ServerHandle {
    serve_with(router, ServerConfig::default())
}

fn serve_with(router: Router, config: ServerConfig) -> ServerHandle {
    Server::start(config.listen(local()), router).unwrap()
}

fn channel(server: &ServerHandle) -> Channel {
    Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap()
}

#[test]
fn an_echo_comes_back_over_either_backend() {
    for backend in [Choice::Epoll, Choice::Auto] {
        let server = serve_with(echo(), ServerConfig::default().backend(backend.clone()));
        let config = ChannelConfig::default().backend(backend);
        let channel = Channel::new(server.addresses()[0].clone(), config).unwrap();
        let context = Context::with_deadline(MINUTE);
        for text in ["one", "two", ""] {
            let reply = channel.call(&context, ECHO, text.as_bytes()).unwrap();
            assert_eq!(&reply.body[..], text.as_bytes());
            assert!(reply.receipt.total <= reply.total);
        }
    }
}

#[test]
fn a_request_that_is_kept_is_the_memory_it_was_received_into() {
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let server = serve(Router::new().method_bytes("test.Echo/Echo", move |_, request, reply| {
        let address = request.as_ptr() as usize as u64;
        keep.lock().unwrap().push((address, request.slice(..request.len() / 2)));
        reply.extend_from_slice(&address.to_le_bytes());
        Ok(())
    }));
    let channel = channel(&server);
    let context = Context::with_deadline(MINUTE);
    for len in [2, 100, 100, 70_000, 1 << 20] {
        channel.call(&context, ECHO, &vec![len as u8; len]).unwrap();
    }
    for ((address, half), len) in kept.lock().unwrap().iter().zip([2_usize, 100, 100, 70_000, 1 << 20]) {
        assert_eq!((half.as_ptr() as usize as u64, &half[..]), (*address, &vec![len as u8; len / 2][..]));
    }
}

#[test]
fn a_message_of_many_chunks_comes_back_whole() {
    let server = serve_with(echo(), ServerConfig::default().checksums(true));
    let config = ChannelConfig::default().checksums(true);
    let channel = Channel::new(server.addresses()[0].clone(), config).unwrap();
    for len in [1, 16_300, 16_384, 100_000, 9_000_000] {
        let request: Vec<u8> = (0..len).map(|at| (at * 7 / 3) as u8).collect();
        let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &request).unwrap();
        assert!(reply.body[..] == request[..], "{len} bytes came back otherwise");
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_and_the_connection_goes_on() {
    let limits = Limits::default().message_bytes(1000).assembly_bytes(2000);
    let server = serve_with(echo(), ServerConfig::default().limits(limits));
    let channel = channel(&server);
    let context = Context::with_deadline(MINUTE);
    channel.call(&context, ECHO, b"hello").unwrap();
    let refused = channel.call(&context, ECHO, &[0; 1001]).unwrap_err();
    assert_eq!((refused.code, refused.reason), (Code::ResourceExhausted, Reason::MessageTooLarge));
    channel.call(&context, ECHO, &[0; 1000]).unwrap();
}

#[test]
fn a_method_that_is_not_there_is_named() {
    let server = serve(echo());
    let status =
        channel(&server).call(&Context::with_deadline(MINUTE), MethodId::of("test.Echo/Ekko"), b"").unwrap_err();
    assert_eq!((status.code, status.reason), (Code::Unimplemented, Reason::UnknownMethod));
}

#[test]
fn a_panic_is_an_answer_and_harms_nobody_else() {
    let server = serve(echo().method("test.Echo/Panic", |_, _, _| panic!("on purpose")));
    let channel = channel(&server);
    let context = Context::with_deadline(MINUTE);
    let status = channel.call(&context, MethodId::of("test.Echo/Panic"), b"").unwrap_err();
    assert_eq!((status.code, status.reason), (Code::Internal, Reason::Panicked));
    channel.call(&context, ECHO, b"still there").unwrap();
    assert_eq!(server.counters().panicked, 1);
}

#[test]
fn nobody_listening_is_said_at_once() {
    let address = serve(echo()).addresses()[0].clone();
    let channel = Channel::new(address, ChannelConfig::default()).unwrap();
    let status = channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap_err();
    assert_eq!((status.code, status.reason), (Code::Unavailable, Reason::Unreachable));
}

#[test]
fn a_channel_finds_its_server_again() {
    let server = serve(echo());
    let address = server.addresses()[0].clone();
    let channel = channel(&server);
    channel.call(&Context::with_deadline(MINUTE), ECHO, b"").unwrap();
    server.shutdown();
    assert!(channel.call(&Context::with_deadline(MINUTE), ECHO, b"").is_err());
    let _again = Server::start(ServerConfig::default().listen([address]), echo()).unwrap();
    let context = Context::with_deadline(MINUTE);
    while let Err(status) = channel.call(&context, ECHO, b"") {
        assert_eq!(status.code, Code::Unavailable);
        context.checkpoint().expect("the server is found within a minute");
    }
}

#[test]
fn a_nested_call_inherits_what_is_left_and_reports_what_it_took() {
    let back = serve_with(
        Router::new().method("test.Back/Left", |context, _, reply| {
            reply.extend_from_slice(&context.budget().as_nanos().to_le_bytes());
            reply.extend_from_slice(&u64::try_from(context.elapsed().as_nanos()).unwrap().to_le_bytes());
            Ok(())
        }),
        ServerConfig::default().name("back"),
    );
    let behind = channel(&back);
    let front = serve_with(
        Router::new().method("test.Front/Ask", move |context, request, reply| {
            let answer = behind.call(context, MethodId::of("test.Back/Left"), request)?;
            reply.extend_from_slice(&answer.body);
            Ok(())
        }),
        ServerConfig::default().name("front"),
    );
    let asked = Context::with_deadline(MINUTE);
    let reply = channel(&front).call(&asked, MethodId::of("test.Front/Ask"), b"").unwrap();
    let left = i64::from_le_bytes(reply.body[..8].try_into().unwrap());
    let elapsed = u64::from_le_bytes(reply.body[8..].try_into().unwrap());
    assert!(left > 0 && left < 60_000_000_000);
    assert!(elapsed > 0);
    let stages: Vec<String> = reply.receipt.children.iter().map(|stage| stage.stage.to_string()).collect();
    assert_eq!(stages, ["back"]);
    assert!(reply.receipt.critical_path() <= reply.total);
}

#[test]
fn a_budget_too_small_is_answered_deadline_exceeded() {
    let server = serve(echo());
    let channel = channel(&server);
    let status = channel.call(&Context::with_deadline(Duration::ZERO), ECHO, b"").unwrap_err();
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert_eq!(server.counters().calls, 0);
}

#[test]
fn a_client_gives_up_at_its_deadline_and_the_handler_hears_of_it() {
    let (heard, hears) = std::sync::mpsc::channel();
    let server = serve(echo().method("test.Echo/Never", move |context, _, _| {
        while context.checkpoint().is_ok() {}
        heard.send(context.is_cancelled() || context.is_spent()).unwrap();
        context.checkpoint()
    }));
    let status = channel(&server)
        .call(&Context::with_deadline(Duration::from_millis(20)), MethodId::of("test.Echo/Never"), b"")
        .unwrap_err();
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert!(hears.recv_timeout(MINUTE).unwrap());
}

#[test]
fn cancelling_a_request_cancels_what_it_asked_for_further_down() {
    let (heard, hears) = std::sync::mpsc::channel();
    let back = serve(Router::new().method("test.Back/Never", move |context, _, _| {
        while !context.is_cancelled() {
            let _ = context.checkpoint();
        }
        heard.send(()).unwrap();
        Ok(())
    }));
    let behind = channel(&back);
    let (reached, reaches) = std::sync::mpsc::channel();
    let front = serve(Router::new().method("test.Front/Ask", move |context, _, _| {
        reached.send(()).unwrap();
        behind.call(context, MethodId::of("test.Back/Never"), b"").map(drop)
    }));
    let channel = channel(&front);
    let context = Context::unlimited();
    let asking = std::thread::spawn({
        let context = context.clone();
        move || channel.call(&context, MethodId::of("test.Front/Ask"), b"").unwrap_err()
    });
    reaches.recv_timeout(MINUTE).unwrap();
    context.cancel();
    assert_eq!(asking.join().unwrap().code, Code::Cancelled);
    hears.recv_timeout(MINUTE).expect("the cancellation reached the last stage");
}

#[test]
fn many_threads_share_one_channel_in_either_mode() {
    let server = serve(echo());
    for mode in MODES {
        let config = ChannelConfig::default().mode(mode);
        let channel = Channel::new(server.addresses()[0].clone(), config).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let channel = channel.clone();
                scope.spawn(move || {
                    for call in 0..200_u32 {
                        let request = [thread.to_le_bytes(), call.to_le_bytes()].concat();
                        let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &request).unwrap();
                        assert_eq!(&reply.body[..], &request[..]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_future_completes_and_a_dropped_one_is_taken_back() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let server = serve(echo());
    let channel = channel(&server);
    let context = Context::with_deadline(MINUTE);
    drop(channel.call_async(&context, ECHO, b"nobody waits"));
    let mut future = std::pin::pin!(channel.call_async(&context, ECHO, b"later"));
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let reply = loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(reply) => break reply.unwrap(),
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(&reply.body[..], b"later");
}

#[test]
fn a_stream_completes_more_calls_than_the_server_has_slots() {
    let limits = Limits::default().calls(3).credits(4);
    let server = serve_with(echo(), ServerConfig::default().limits(limits));
    let mut stream = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(MINUTE);
    for tag in 0..100_u64 {
        stream.submit(&context, ECHO, &tag.to_le_bytes(), tag);
    }
    let mut tags = Vec::new();
    while let Some(done) = stream.take() {
        assert_eq!(&done.result.unwrap().body[..], done.tag.to_le_bytes());
        tags.push(done.tag);
    }
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..100));
}

#[test]
fn workers_serve_what_their_head_gives_them() {
    let server = serve_with(echo(), ServerConfig::default().clusters(2).workers(2));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let channel = channel(&server);
            scope.spawn(move || {
                for call in 0..100_u32 {
                    let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, &call.to_le_bytes()).unwrap();
                    assert_eq!(&reply.body[..], call.to_le_bytes());
                }
            });
        }
    });
    assert_eq!(server.counters().answered, 400);
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let admission = AdmissionConfig::default().max_queue(2);
    let router = echo().method("test.Echo/Work", |_, _, reply| {
        let mut state = 1_u64;
        for _ in 0..3_000_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        }
        reply.extend_from_slice(&state.to_le_bytes());
        Ok(())
    });
    let server = serve_with(router, ServerConfig::default().admission(admission));
    let mut stream = CallQueue::connect(&server.addresses()[0], &ChannelConfig::default()).unwrap();
    let context = Context::with_deadline(MINUTE);
    for tag in 0..50 {
        stream.submit(&context, MethodId::of("test.Echo/Work"), b"", tag);
    }
    let (mut answered, mut refused) = (0, 0);
    while let Some(done) = stream.take() {
        match done.result {
            Ok(_) => answered += 1,
            Err(failure) => {
                assert_eq!(failure.status.reason, Reason::QueueFull);
                refused += 1;
            }
        }
    }
    assert_eq!(answered + refused, 50);
    assert!(answered > 0 && refused > 0);
    assert_eq!(server.counters().queue_full, refused);
}

#[test]
fn draining_answers_what_was_accepted() {
    let (begun, begins) = std::sync::mpsc::channel();
    let server = serve(Router::new().method("test.Slow/Work", move |context, _, reply| {
        begun.send(()).unwrap();
        while context.elapsed() < SECOND / 10 {
            context.checkpoint()?;
        }
        reply.push(1);
        Ok(())
    }));
    let channel = channel(&server);
    let asking =
        std::thread::spawn(move || channel.call(&Context::with_deadline(MINUTE), MethodId::of("test.Slow/Work"), b""));
    begins.recv_timeout(MINUTE).unwrap();
    server.drain(MINUTE);
    assert_eq!(&asking.join().unwrap().unwrap().body[..], [1]);
}

#[test]
fn a_parallel_unit_gathers_in_a_handler_and_on_a_plain_thread() {
    let shards: Vec<ServerHandle> = (0..3).map(|_| serve(echo())).collect();
    let channels: Vec<Channel> = shards.iter().map(channel).collect();
    let aggregator = Aggregator::new(AggregatorConfig::default());
    let ask = move |context: &Context| {
        let unit = channels
            .iter()
            .enumerate()
            .fold(aggregator.unit(context), |unit, (index, channel)| unit.branch(channel, ECHO, vec![index as u8]));
        let partial = unit.gather();
        assert!(partial.is_complete());
        partial.replies().map(|(_, reply)| reply.body[0]).collect::<Vec<u8>>()
    };
    assert_eq!(ask(&Context::with_deadline(MINUTE)), [0, 1, 2]);
    let server = serve(Router::new().method("test.Unit/Ask", move |context, _, reply| {
        reply.extend(ask(context));
        Ok(())
    }));
    let reply = channel(&server).call(&Context::with_deadline(MINUTE), MethodId::of("test.Unit/Ask"), b"").unwrap();
    assert_eq!(&reply.body[..], [0, 1, 2]);
    assert_eq!(reply.receipt.children.len(), 3);
}

#[test]
fn a_parallel_unit_goes_on_without_the_branch_that_is_late() {
    let quick = serve(echo());
    let slow = serve(Router::new().method("test.Echo/Echo", |context, _, _| {
        while context.checkpoint().is_ok() {}
        context.checkpoint()
    }));
    let dead = {
        let gone = serve(echo());
        channel(&gone)
    };
    let aggregator = Aggregator::new(AggregatorConfig::default().aggregation(SECOND * 9));
    let context = Context::with_deadline(SECOND * 10);
    let unit = aggregator.unit(&context).branch(&channel(&quick), ECHO, vec![1]);
    let unit = unit.branch(&channel(&slow), ECHO, vec![2]).branch(&dead, ECHO, vec![3]);
    let partial = unit.branch_with_replicas([dead.clone(), channel(&quick)], ECHO, vec![4]).gather();
    let answered: Vec<u8> = partial.replies().map(|(_, reply)| reply.body[0]).collect();
    assert_eq!(answered, [1, 4], "the last one's replica answered for it");
    let missing: Vec<Code> = partial.missing().map(|(_, status)| status.code).collect();
    assert_eq!(missing, [Code::DeadlineExceeded, Code::Unavailable]);
    assert!(!context.is_spent(), "there is time left to put together");
}

/// Of what a client says of its request, the next server's handler passes on the trace, what its server names, and what it
/// says itself; a token for the first server stays there.
#[test]
fn what_is_said_of_a_request_reaches_the_next_stage_and_by_name_those_behind() {
    fn said(context: &Context) -> String {
        let entries = context.metadata().map(|(name, value)| format!("{name}={} ", String::from_utf8_lossy(value)));
        entries.collect()
    }
    const SAID: MethodId = MethodId::of("test.Last/Said");
    let last = serve(Router::new().method("test.Last/Said", |context, _, reply| {
        reply.extend_from_slice(said(context).as_bytes());
        Ok(())
    }));
    let named = ServerConfig::default().pass_on(["user".into()]);
    for (config, expected) in
        [(ServerConfig::default(), "tracestate=a traceparent=0 hop=1 "), (named, "user=ada hop=1 ")]
    {
        let behind = channel(&last);
        let router = Router::new().method("test.First/Said", move |context, _, reply| {
            reply.extend_from_slice(said(context).as_bytes());
            let context = context.tighten(MINUTE).with_metadata("hop", "1");
            let context = context.map_err(|error| Status::new(Code::Internal, error.to_string()))?;
            reply.push(b'|');
            reply.extend_from_slice(&behind.call(&context, SAID, b"")?.body);
            Ok(())
        });
        let first = serve_with(router, config);
        let mut context = Context::with_deadline(MINUTE);
        for (name, value) in [("token", "secret"), ("tracestate", "a"), ("user", "ada"), ("traceparent", "0")] {
            context = context.with_metadata(name, value).unwrap();
        }
        let reply = channel(&first).call(&context, MethodId::of("test.First/Said"), b"").unwrap();
        let told = String::from_utf8_lossy(&reply.body);
        assert_eq!(told, format!("token=secret tracestate=a user=ada traceparent=0 |{expected}"));
    }
}

#[test]
fn more_metadata_than_fit_into_a_chunk_are_refused_here() {
    let small = Limits::default().chunk_bytes(512);
    for (here, there) in [(small, Limits::default()), (Limits::default(), small)] {
        let server = serve_with(echo(), ServerConfig::default().limits(there));
        let config = ChannelConfig::default().limits(here);
        let channel = Channel::new(server.addresses()[0].clone(), config).unwrap();
        channel.call(&Context::with_deadline(MINUTE), ECHO, b"hello").unwrap();
        for (len, fits) in [(440, true), (480, false)] {
            let context = Context::with_deadline(MINUTE).with_metadata("much", vec![7; len]).unwrap();
            let reply = channel.call(&context, ECHO, &[9; 2000]);
            assert_eq!(reply.as_ref().map_err(|status| status.reason).err(), (!fits).then_some(Reason::Metadata));
        }
    }
}
