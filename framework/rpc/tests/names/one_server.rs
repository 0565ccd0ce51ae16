//! Calls to one server, at an address, that are made again.

use super::block_on::block_on;
use super::raw::within_reason;
use super::servers::*;
use greenwave_rpc::*;
use greenwave_verbs::Address;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const METHOD: Method = Method::named("test.Echo/Echo");

/// So soon that a test doesn't wait for it.
fn soon() -> RetryConfig {
    RetryConfig { pause: Duration::from_nanos(2), ..RetryConfig::default() }
}

fn config(retries: Option<RetryConfig>) -> ChannelConfig {
    ChannelConfig::default().retries(retries).reconnect(Duration::from_nanos(1))
}

fn one(server: &ServerHandle, config: ChannelConfig) -> Channel {
    Channel::new(server.addresses()[0].clone(), config).unwrap()
}

/// Says `UNAVAILABLE` while there are failures left, and with it when to ask again, if that is said; then echoes. And how
/// often it was asked.
fn fails(left: usize, pushback: Option<&'static str>) -> (Router, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let router = Router::new().method("test.Echo/Echo", move |context, request, reply| {
        if count.fetch_add(1, Ordering::SeqCst) < left {
            if let Some(pushback) = pushback {
                context.trail("grpc-retry-pushback-ms", pushback).unwrap();
            }
            return Err(Status::new(Code::Unavailable, "not now"));
        }
        reply.extend_from_slice(request);
        Ok(())
    });
    (router, asked)
}

#[test]
fn a_channel_to_one_address_makes_calls_again_only_if_it_is_told_to() {
    let context = Context::with_deadline(MINUTE);
    for (retries, made) in [(None, 1), (Some(RetryConfig { attempts: 1, ..soon() }), 1), (Some(soon()), 3)] {
        let (router, asked) = fails(usize::MAX, None);
        let server = serve(router);
        let channel = one(&server, config(retries));
        assert_eq!(channel.call_repeatable(&context, ECHO, b"1".into()).unwrap_err().code, Code::Unavailable);
        assert_eq!(asked.swap(0, Ordering::SeqCst), made);
        // It may have run, and may not run twice.
        assert_eq!(channel.call(&context, ECHO, b"1").unwrap_err().code, Code::Unavailable);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn every_way_to_call_one_server_makes_calls_again() {
    let context = Context::with_deadline(MINUTE);
    type Way = fn(&Channel, &Context) -> bool;
    let ways: [Way; 2] = [
        |channel, context| channel.call_repeatable(context, ECHO, b"1".into()).is_ok(),
        |channel, context| block_on(channel.call_repeatable_async(context, ECHO, b"1")).is_ok(),
    ];
    for way in ways {
        let (router, asked) = fails(2, None);
        let server = serve(router);
        assert!(way(&one(&server, config(Some(soon()))), &context));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        let (router, _) = fails(2, None);
        let server = serve(router);
        let behind = one(&server, config(Some(soon())));
        let front = serve(Router::new().method("test.Front/Ask", move |context, _, _| {
            behind.call_repeatable(context, ECHO, b"1".into())?;
            Ok(())
        }));
        one(&front, ChannelConfig::default()).call(&context, ASK, b"").unwrap();
    }
}

/// Nobody is there at first, so no attempt ever ran; then somebody is.
#[test]
fn a_call_that_never_ran_waits_for_a_server_that_is_late() {
    let nobody = nobody();
    let socket = super::raw::socket_of(&nobody);
    let retries = RetryConfig { attempts: u32::MAX, per_second: 1000.0, pause: Duration::from_millis(1), ..soon() };
    let channel = Channel::new(nobody, config(Some(retries))).unwrap();
    let call = std::thread::spawn(move || channel.call(&Context::with_deadline(MINUTE), ECHO, b"late").unwrap());
    // If it is taken meanwhile, nobody is late.
    if let Ok(server) = serve_at(socket, echo(Duration::ZERO)) {
        assert_eq!(&call.join().unwrap().body[..], b"late");
        assert_eq!(server.counters().calls, 1);
    }
}

#[test]
fn a_server_that_starts_anew_is_not_noticed() {
    for grpc in [false, true] {
        let server = serve(echo(Duration::ZERO));
        let socket = socket(&server);
        let address = if grpc { Address::Grpc(socket) } else { Address::Tcp(socket) };
        let channel = Channel::new(address, config(Some(soon()))).unwrap();
        let call = |channel: &Channel| channel.call_repeatable(&Context::with_deadline(MINUTE), METHOD, b"1".into());
        call(&channel).unwrap();
        server.drain(Duration::from_secs(10));
        let Ok(server) = serve_at(socket, echo(Duration::ZERO)) else { continue };
        call(&channel).unwrap();
        assert_eq!(server.counters().calls, 1);
    }
}

/// gRPC's A6: the server says after how many milliseconds, or never.
#[test]
fn a_server_of_grpc_says_whether_it_is_asked_again() {
    for (pushback, made) in [("1", 3), ("0", 3), ("-1", 1), ("soon", 1), ("3600000", 1)] {
        let (router, asked) = fails(2, Some(pushback));
        let server = serve(router);
        let channel = Channel::new(Address::Grpc(socket(&server)), config(Some(soon()))).unwrap();
        let (other, context) = (channel.clone(), Context::with_deadline(MINUTE));
        let answer = within_reason("its answer", move || channel.call_repeatable(&context, METHOD, b"1".into()));
        assert_eq!((answer.is_ok(), asked.swap(0, Ordering::SeqCst)), (made == 3, made), "{pushback}");
        let context = Context::with_deadline(MINUTE);
        let answer = within_reason("it", move || block_on(other.call_repeatable_async(&context, METHOD, b"1")));
        assert_eq!((answer.is_ok(), asked.load(Ordering::SeqCst)), (made == 3, made), "{pushback}");
    }
}

#[test]
fn a_storm_at_one_server_is_rationed_too() {
    let (router, asked) = fails(usize::MAX, None);
    let server = serve(router);
    let channel = one(&server, config(Some(RetryConfig { per_second: 0.0, ratio: 0.0, ..soon() })));
    let context = Context::with_deadline(MINUTE);
    assert!((0..100).all(|_| channel.call_repeatable(&context, ECHO, b"1".into()).is_err()));
    assert_eq!(asked.load(Ordering::SeqCst), 110, "each once, and ten again");
}
