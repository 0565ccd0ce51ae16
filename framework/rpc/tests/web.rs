//! Pages, scripts and probes, on the port of a Greenwave server: HTTP/1.1 by hand.

mod echo;
mod http;
#[cfg(feature = "json")]
mod nodes;
mod raw;

use echo::{ECHO, MINUTE, echo};
use greenwave_rpc::*;
use greenwave_verbs::Choice;
use http::{Http, post};
use raw::{eventually, socket_of};
use std::net::TcpStream;
use std::time::Duration;

const BACKENDS: [Choice; 2] = [Choice::Epoll, Choice::Auto];

fn serve(router: Router, config: ServerConfig) -> ServerHandle {
    Server::start(config.listen(["tcp://127.0.0.1:0".parse().unwrap()]), router).unwrap()
}

fn connect(server: &ServerHandle) -> Http<TcpStream> {
    Http::connect(socket_of(&server.addresses()[0]))
}

/// A message in gRPC's frame.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

#[test]
fn a_script_and_a_client_of_our_own_call_the_same_methods_on_the_same_port() {
    for backend in BACKENDS {
        let server = serve(echo(), ServerConfig::default().backend(backend));
        let mut http = connect(&server);
        for len in [0, 1, 1000, 20_000, 300_000, 5_000_000] {
            let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let answer = http.post("test.Echo/Echo", "proto", "", &body);
            assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/proto")));
            assert!(answer.body == body, "{len} bytes");
        }
        let channel = Channel::new(server.addresses()[0].clone(), ChannelConfig::default()).unwrap();
        let reply = channel.call(&Context::with_deadline(MINUTE), ECHO, b"own").unwrap();
        assert_eq!(&reply.body[..], b"own");
        let counters = server.counters();
        assert_eq!((counters.answered, counters.accepted, counters.web_connections), (7, 2, 1));
        assert_eq!((counters.violations, counters.grpc_connections), (0, 0));
    }
}

#[test]
fn grpc_web_has_its_answer_in_frames() {
    let server = serve(echo(), ServerConfig::default());
    let mut http = connect(&server);
    let trailers = |text: &str| [&[0x80], &(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let answer = http.post("test.Echo/Echo", "grpc-web+proto", "", &framed(b"abc"));
    assert_eq!(answer.body, [framed(b"abc"), trailers("grpc-status: 0\r\n")].concat());
    let answer = http.post("test.Echo/Echo", "grpc-web-text", "", b"AAAAAANhYmM=");
    assert_eq!(answer.text(), "AAAAAANhYmOAAAAAEGdycGMtc3RhdHVzOiAwDQo=");
    let answer = http.post("test.Echo/None", "grpc-web", "", &framed(b""));
    assert_eq!((answer.status, answer.body[0]), (200, 0x80));
    assert!(String::from_utf8_lossy(&answer.body).contains("grpc-status: 12\r\ngrpc-message: "));
}

/// More than sockets and windows hold, so that the handler waits for its client to read.
#[test]
fn a_stream_of_answers_comes_as_it_is_read() {
    const MESSAGES: u8 = 100;
    let message = |number: u8| vec![number; 100_000];
    let router = echo().streaming("test.Echo/Count", move |context, incoming, mut outgoing| {
        let count = incoming.only(context)?[0];
        (0..count).try_for_each(|number| outgoing.send(context, message(number)))
    });
    for backend in BACKENDS {
        let server = serve(router.clone(), ServerConfig::default().backend(backend));
        let mut http = connect(&server);
        let answer = http.post("test.Echo/Count", "grpc-web", "", &framed(&[MESSAGES]));
        assert_eq!((answer.status, answer.header("transfer-encoding")), (200, Some("chunked")));
        let end = b"\x80\0\0\0\x10grpc-status: 0\r\n";
        let expected: Vec<u8> = (0..MESSAGES).flat_map(|number| framed(&message(number))).chain(*end).collect();
        assert!(answer.body == expected);
        // By what has no streams it is refused, and the connection goes on.
        let answer = http.post("test.Echo/Count", "proto", "", &[1]);
        assert_eq!(answer.status, 404);
        assert_eq!(http.post("test.Echo/Echo", "grpc-web", "", &framed(b"a")).header("content-length"), Some("27"));
        http.send(&post("test.Echo/Count", "grpc-web", "", &framed(&[MESSAGES])));
    }
}

#[test]
fn the_deadline_and_the_metadata_are_there_and_the_failure_comes_back() {
    let router = Router::new().method("test.Echo/Who", |context, _, _| {
        let left = context.budget().remaining().unwrap_or(Duration::MAX);
        assert!(left <= Duration::from_secs(5), "{left:?}");
        let who = context.metadata().find(|(name, _)| *name == "x-who").map(|(_, value)| value.to_vec());
        let who = String::from_utf8(who.unwrap_or_default()).unwrap();
        Err(Status::new(Code::NotFound, format!("nobody is called \"{who}\"")))
    });
    let server = serve(router, ServerConfig::default());
    let mut http = connect(&server);
    let more = "Connect-Protocol-Version: 1\r\nConnect-Timeout-Ms: 5000\r\nX-Who: Ada\r\n";
    let answer = http.post("test.Echo/Who", "proto", more, b"");
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")));
    assert_eq!(answer.text(), r#"{"code":"not_found","message":"nobody is called \"Ada\""}"#);
    let answer = http.post("test.Echo/Nothing", "proto", "", b"");
    assert_eq!(answer.status, 404);
    assert!(answer.text().starts_with(r#"{"code":"unimplemented","message":"#), "{}", answer.text());
    let answer = http.post("test.Echo/Who", "proto", "Connect-Timeout-Ms: 0\r\n", b"");
    assert_eq!(answer.status, 504);
    assert!(answer.text().contains("deadline_exceeded"), "{}", answer.text());
    let answer = http.post("test.Echo/Who", "grpc-web", "grpc-timeout: 5S\r\ngreenwave-receipt: 1\r\n", &framed(b""));
    assert!(String::from_utf8_lossy(&answer.body).contains("greenwave-receipt-bin: "));
}

#[test]
fn requests_sent_ahead_are_answered_in_order_over_clusters_and_workers() {
    for config in [ServerConfig::default().clusters(2), ServerConfig::default().workers(2)] {
        let server = serve(echo(), config);
        std::thread::scope(|scope| {
            for connection in 0..4_u32 {
                let mut http = connect(&server);
                scope.spawn(move || {
                    for batch in 0..50_u32 {
                        let bodies: Vec<_> =
                            (0..3).map(|at| (connection << 16 | batch << 8 | at).to_be_bytes()).collect();
                        let all: Vec<u8> =
                            bodies.iter().flat_map(|body| post("test.Echo/Echo", "proto", "", body)).collect();
                        http.send(&all);
                        bodies.iter().for_each(|body| assert_eq!(http.answer().body, body));
                    }
                });
            }
        });
        assert_eq!(server.counters().answered, 600);
    }
}

#[test]
fn a_probe_is_told_that_the_server_serves() {
    let server = serve(echo(), ServerConfig::default());
    let mut http = connect(&server);
    let answer = http.ask(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_eq!((answer.status, answer.text()), (200, "SERVING\n"));
    let answer = http.ask(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_eq!(answer.status, 404);
}

#[test]
fn a_server_that_goes_away_answers_what_it_has_and_closes() {
    let (began, begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = promise();
    let goes_on = std::sync::Mutex::new(Some(goes_on));
    let router = Router::new().method("test.Echo/Held", move |context, _, reply| {
        began.send(()).unwrap();
        let held = goes_on.lock().unwrap().take().unwrap();
        held.wait(context)?;
        reply.extend_from_slice(b"held");
        Ok(())
    });
    let server = serve(router, ServerConfig::default());
    let (mut idle, mut busy) = (connect(&server), connect(&server));
    assert_eq!(idle.ask(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").status, 200);
    busy.send(&post("test.Echo/Held", "proto", "", b""));
    begun.recv().unwrap();
    let drained = std::thread::spawn(move || server.drain(Duration::from_secs(60)));
    assert!(idle.is_closed());
    go_on.keep(());
    let answer = busy.answer();
    assert_eq!((answer.text(), answer.header("connection")), ("held", Some("close")));
    assert!(busy.is_closed());
    drained.join().unwrap();
}

#[test]
fn a_client_that_hangs_up_cancels_its_call() {
    let server = serve(echo(), ServerConfig::default());
    let mut http = connect(&server);
    http.send(&post("test.Echo/Never", "proto", "", b""));
    eventually("the call is there", || server.counters().calls == 1);
    drop(http);
    eventually("it is cancelled", || server.counters().cancelled == 1);
    eventually("the connection is gone", || server.counters().connections == 0);
}

#[test]
fn what_is_no_request_is_told_so_and_counted() {
    let server = serve(echo(), ServerConfig::default());
    let mut http = connect(&server);
    let answer = http.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
    assert!(http.is_closed());
    eventually("it counts", || server.counters().violations == 1);
    assert_eq!(server.counters().refused, 1);
}

#[test]
fn who_is_too_slow_is_closed_on() {
    let limits = Limits::new().handshake(Duration::from_millis(20)).stall(Duration::from_millis(20));
    let server = serve(echo(), ServerConfig::default().limits(limits));
    let mut late = connect(&server);
    assert_eq!(late.ask(b"POST / HT").status, 408);
    assert!(late.is_closed());
    let mut late = connect(&server);
    let request = post("test.Echo/Echo", "proto", "", b"abc");
    assert_eq!(late.ask(&request[..request.len() - 1]).status, 408);
    assert!(late.is_closed());
    let idle = WebSettings::new().idle(Duration::from_millis(20));
    let server = serve(echo(), ServerConfig::default().web(idle));
    let mut idle = connect(&server);
    assert_eq!(idle.ask(&request).body, b"abc");
    assert!(idle.is_closed());
    assert_eq!(server.counters().violations, 0);
}

#[test]
fn it_can_be_switched_off_and_grpc_be_left_on() {
    let server = serve(echo(), ServerConfig::default().web(None));
    let mut http = connect(&server);
    http.send(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n");
    eventually("it is closed on", || server.counters().violations == 1);
    let server = serve(echo(), ServerConfig::default().grpc(None));
    let mut http = connect(&server);
    assert_eq!(http.ask(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").status, 200);
    let mut grpc = connect(&server);
    grpc.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    eventually("it is closed on", || server.counters().violations == 1);
}

#[test]
fn without_descriptors_json_is_refused_with_what_to_do() {
    let server = serve(echo(), ServerConfig::default());
    let answer = connect(&server).post("test.Echo/Echo", "json", "", b"{}");
    assert_eq!(answer.status, 501);
    assert!(answer.text().contains("application/proto"), "{}", answer.text());
    let get = b"GET /test.Echo/Echo?encoding=proto&message= HTTP/1.1\r\nHost: here\r\n\r\n";
    let answer = connect(&server).ask(get);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[cfg(feature = "json")]
#[test]
fn json_is_made_of_messages_and_messages_of_json() {
    let method = |_: &Context, request: &[u8], reply: &mut Vec<u8>| {
        reply.extend_from_slice(request);
        Ok(())
    };
    let router =
        || Router::new().method("a.A/Change", method).method("a.A/Read", method).descriptors(nodes::descriptors());
    let small = serve(router(), ServerConfig::default().stack(greenwave_quanta::StackSize::MIN));
    let answer = connect(&small).post("a.A/Change", "json", "", b"{}");
    assert!(answer.status == 501 && answer.text().contains("ServerConfig::stack"), "{}", answer.text());
    for config in [ServerConfig::default(), ServerConfig::default().workers(1)] {
        let server = serve(router(), config);
        let mut http = connect(&server);
        let answer = http.post("a.A/Change", "json", "", br#"{"bigNumber": 7, "next": {}}"#);
        assert_eq!(
            (answer.text(), answer.header("content-type")),
            (r#"{"bigNumber":"7","next":{}}"#, Some("application/json"))
        );
        assert_eq!(http.post("a.A/Change", "proto", "", &[8, 7]).body, [8, 7]);
        let answer = http.post("a.A/Change", "grpc-web+json", "", &framed(br#"{"bigNumber":7}"#));
        assert!(answer.body.starts_with(&framed(br#"{"bigNumber":"7"}"#)));
        let answer = http.post("a.A/Change", "json", "", b"{");
        assert!(answer.status == 400 && answer.text().contains("invalid_argument"), "{}", answer.text());
        let deep = "{\"next\":".repeat(100) + "{}" + &"}".repeat(100);
        assert_eq!(http.post("a.A/Change", "json", "", deep.as_bytes()).status, 400);
        let deep = "{\"next\":".repeat(31) + "{}" + &"}".repeat(31);
        assert_eq!(http.post("a.A/Change", "json", "", deep.as_bytes()).text(), deep);
        let get = |method: &str, query: &str| format!("GET /a.A/{method}?{query} HTTP/1.1\r\nHost: here\r\n\r\n");
        let query = "connect=v1&encoding=json&message=%7B%22bigNumber%22%3A7%7D";
        assert_eq!(http.ask(get("Read", query).as_bytes()).text(), r#"{"bigNumber":"7"}"#);
        assert_eq!(http.ask(get("Read", "encoding=proto&message=CAc&base64=1").as_bytes()).body, [8, 7]);
        let answer = http.ask(get("Change", query).as_bytes());
        assert!(answer.status == 405 && answer.text().contains("NO_SIDE_EFFECTS"), "{}", answer.text());
    }
}
