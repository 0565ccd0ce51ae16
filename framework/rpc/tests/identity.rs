//! Handlers and interceptors know who calls: by each protocol, for calls and streams, wherever they are run.

#![cfg(feature = "tls")]

mod certificates;
mod secured_http;

use certificates::Authority;
use greenwave_policy::StealRule;
use greenwave_rpc::*;
use greenwave_verbs::{Address, Choice, TlsClient};
use secured_http::post;
use std::time::Duration;

const WHO: Method = Method::named("test.Who/Who");
const WHO_STREAMED: Method = Method::named("test.Who/Streamed");
const CART: &str = "spiffe://shop.example/cart";
const HOUR: Duration = Duration::from_secs(3600);

/// All that is known of a peer but its port, as text.
fn said(context: &Context) -> String {
    let peer = context.peer();
    let ip = peer.address().map(|address| address.ip().to_string());
    format!("{:?} {:?} {}", peer.uris(), peer.dns_names(), ip.unwrap_or_default())
}

/// Says who calls, as the interceptor and the handler see it; a handler that is told to computes before.
fn who() -> Router {
    Router::new()
        .method(WHO.name().unwrap(), |context, request, reply| {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_micros(request.len() as u64) {
                std::hint::spin_loop();
            }
            reply.extend_from_slice(said(&context.tighten(HOUR)).as_bytes());
            Ok(())
        })
        .streaming(WHO_STREAMED.name().unwrap(), |context, mut incoming, mut outgoing| {
            while incoming.next(context)?.is_some() {
                outgoing.send(context, said(context).into_bytes())?;
            }
            Ok(())
        })
        .intercept(|context, next| {
            let _fits = context.lead("intercepted", said(context));
            next.run(context)
        })
}

fn start(config: ServerConfig) -> ServerHandle {
    let listen = vec!["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
    Server::start(config.listen(listen), who()).unwrap()
}

fn channel(server: &ServerHandle, grpc: bool, tls: Option<TlsClient>) -> Channel {
    let socket = server.addresses()[0].socket().unwrap();
    let address = match (grpc, tls.is_some()) {
        (false, _) => Address::Tcp(socket),
        (true, false) => Address::Grpc(socket),
        (true, true) => Address::Grpcs(socket),
    };
    Channel::new(address, ChannelConfig::default().tls(tls)).unwrap()
}

/// What the handler and the interceptor of a call say, and of a stream.
fn ask(channel: &Channel) -> [String; 3] {
    let context = Context::with_deadline(HOUR);
    let reply = channel.call(&context, WHO, b"").unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let metadata = reply.metadata.as_deref().unwrap();
    let intercepted = metadata.lead("intercepted").map(text).unwrap();
    let (mut outgoing, mut incoming) = channel.open(&context, WHO_STREAMED).unwrap();
    outgoing.send(&context, b"?".to_vec()).unwrap();
    drop(outgoing);
    let streamed = text(&incoming.next(&context).unwrap().unwrap());
    [text(&reply.body), intercepted, streamed]
}

#[test]
fn the_names_of_a_certificate_reach_handlers_and_interceptors_by_each_protocol() {
    let authority = Authority::new();
    let cart = authority.certify(&[CART], &["cart.shop.example"]);
    let expected = format!("{:?} {:?} 127.0.0.1", [CART], ["cart.shop.example"]);
    for backend in [Choice::Auto, Choice::Epoll] {
        for (clusters, workers) in [(1, 0), (1, 1), (2, 0)] {
            let config = ServerConfig::default().tls(authority.server()).backend(backend.clone());
            let server = start(config.clusters(clusters).workers(workers));
            for grpc in [false, true] {
                // The second connection resumes the session of the first.
                let tls = authority.client(Some(&cart));
                for _ in 0..2 {
                    let heard = ask(&channel(&server, grpc, Some(tls.clone())));
                    assert_eq!(heard, [&expected[..]; 3], "{grpc} {clusters} {workers}");
                }
            }
            let socket = server.addresses()[0].socket().unwrap();
            let answer = post(socket, &authority.pem(), Some(&cart), "test.Who/Who", &[]);
            assert!(answer.ends_with(&expected), "{answer}");
        }
    }
}

#[test]
fn who_shows_no_certificate_has_an_address_and_nothing_else() {
    let authority = Authority::new();
    let tls = greenwave_verbs::TlsServer::new(authority.certify(&[], &[]).identity(), None).unwrap();
    for (config, tls) in
        [(ServerConfig::default(), None), (ServerConfig::default().tls(tls), Some(authority.client(None)))]
    {
        let server = start(config);
        for grpc in [false, true] {
            assert_eq!(ask(&channel(&server, grpc, tls.clone())), ["[] [] 127.0.0.1"; 3]);
        }
    }
}

#[test]
fn over_a_socket_of_unix_nothing_is_known_and_of_a_request_that_is_made_here_neither() {
    let folder = std::env::temp_dir().join(format!("greenwave-identity-{}", std::process::id()));
    let listen = Address::Unix(folder.clone());
    let server = Server::start(ServerConfig::default().listen([listen.clone()]), who()).unwrap();
    let channel = Channel::new(listen, ChannelConfig::default()).unwrap();
    let reply = channel.call(&Context::with_deadline(HOUR), WHO, b"").unwrap();
    assert_eq!(&reply.body[..], b"[] [] ");
    assert_eq!(*Context::unlimited().peer(), Peer::UNKNOWN);
    drop(server);
    let _gone = std::fs::remove_file(folder);
}

/// Clients of different names whose calls wait for one another on one head, so that another takes some.
#[test]
fn a_call_that_another_head_took_has_the_peer_of_its_connection() {
    let authority = Authority::new();
    let steal = Some(StealRule { busy_rounds: 0, least_work: Duration::ZERO, ..StealRule::default() });
    let server = start(ServerConfig::default().tls(authority.server()).clusters(2).steal(steal));
    let names: Vec<String> = (0..4).map(|number| format!("spiffe://shop.example/{number}")).collect();
    let certified: Vec<_> = names.iter().map(|name| authority.certify(&[name], &[])).collect();
    let address = &server.addresses()[0];
    let mut queues: Vec<_> = certified
        .iter()
        .map(|own| {
            let config = ChannelConfig::default().tls(authority.client(Some(own)));
            CallQueue::connect(address, &config).unwrap()
        })
        .collect();
    for round in 0..1000 {
        for queue in &mut queues {
            (0..8).for_each(|tag| queue.submit_within(HOUR, WHO, &[0; 50], tag));
            queue.flush();
        }
        for (queue, name) in queues.iter_mut().zip(&names) {
            for _ in 0..8 {
                let body = queue.take().unwrap().result.unwrap().body;
                assert_eq!(String::from_utf8_lossy(&body), format!("{:?} [] 127.0.0.1", [name]));
            }
        }
        if round >= 10 && server.counters().stolen > 0 {
            return;
        }
    }
    panic!("no call was taken by another head");
}
