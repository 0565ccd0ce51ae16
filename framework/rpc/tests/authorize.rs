//! Who may call what: decided before anything is spent on a call, by each protocol, for calls and streams.

#![cfg(feature = "tls")]

mod certificates;
mod secured_http;

use certificates::{Authority, Certified};
use greenwave_rpc::*;
use greenwave_verbs::Address;
use secured_http::post;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const OPEN: Method = Method::named("test.Door/Open");
const WATCH: Method = Method::named("test.Door/Watch");
const KNOCK: Method = Method::named("test.Bell/Knock");
const META: Method = Method::named("greenwave.Meta/Methods");
const HEALTH: Method = Method::named("grpc.health.v1.Health/Check");
const HOUR: Duration = Duration::from_secs(3600);
const ADA: &str = "spiffe://shop.example/people/ada";
const EVE: &str = "spiffe://elsewhere.example/people/eve";

/// Methods that say who calls, and how often any of them ran.
fn doors() -> (Router, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let (here, there, bell) = (Arc::clone(&ran), Arc::clone(&ran), Arc::clone(&ran));
    let router = Router::new()
        .method(OPEN.name().unwrap(), move |context, _, reply| {
            here.fetch_add(1, SeqCst);
            reply.extend_from_slice(context.peer().principal().unwrap_or("nobody").as_bytes());
            Ok(())
        })
        .streaming(WATCH.name().unwrap(), move |context, _, mut outgoing| {
            there.fetch_add(1, SeqCst);
            outgoing.send(context, context.peer().principal().unwrap_or("nobody").as_bytes().to_vec())
        })
        .method(KNOCK.name().unwrap(), move |context, _, reply| {
            bell.fetch_add(1, SeqCst);
            reply.extend_from_slice(context.peer().principal().unwrap_or("nobody").as_bytes());
            Ok(())
        });
    (router, ran)
}

fn start(config: ServerConfig, router: Router) -> ServerHandle {
    Server::start(config.listen(["tcp://127.0.0.1:0".parse::<Address>().unwrap()]), router).unwrap()
}

fn secured(authority: &Authority, router: Router) -> ServerHandle {
    start(ServerConfig::default().tls(authority.server()), router)
}

fn channels(server: &ServerHandle, authority: &Authority, own: &Certified) -> [Channel; 2] {
    let socket = server.addresses()[0].socket().unwrap();
    [Address::Tcp(socket), Address::Grpcs(socket)]
        .map(|address| Channel::new(address, ChannelConfig::default().tls(authority.client(Some(own)))).unwrap())
}

fn plain(server: &ServerHandle) -> [Channel; 2] {
    let socket = server.addresses()[0].socket().unwrap();
    [Address::Tcp(socket), Address::Grpc(socket)]
        .map(|address| Channel::new(address, ChannelConfig::default()).unwrap())
}

fn saying(token: &str) -> Context {
    let context = Context::with_deadline(HOUR);
    if token.is_empty() { context } else { context.with_metadata("authorization", format!("Bearer {token}")).unwrap() }
}

fn call(channel: &Channel, context: &Context, method: Method) -> Result<String, Code> {
    let reply = channel.call(context, method, b"").map_err(|status| status.code)?;
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

fn watch(channel: &Channel, context: &Context) -> Result<String, Code> {
    let (outgoing, mut incoming) = channel.open(context, WATCH).map_err(|status| status.code)?;
    drop(outgoing);
    let first = incoming.next(context).map_err(|status| status.code)?;
    Ok(String::from_utf8_lossy(&first.unwrap()).into_owned())
}

#[test]
fn who_has_the_name_may_call_and_who_has_another_or_none_is_refused_by_each_protocol() {
    let authority = Authority::new();
    let (ada, eve, unnamed) =
        (authority.certify(&[ADA], &[]), authority.certify(&[EVE], &[]), authority.certify(&[], &[]));
    let (router, ran) = doors();
    let router = router.authorize(CertificateNames::new(["spiffe://shop.example/people/*"]).unwrap());
    let server = secured(&authority, router);
    let denied = Err(Code::PermissionDenied);
    for channel in channels(&server, &authority, &ada) {
        assert_eq!(call(&channel, &saying(""), OPEN), Ok(ADA.to_owned()));
        assert_eq!(watch(&channel, &saying("")), Ok(ADA.to_owned()));
    }
    let before = ran.load(SeqCst);
    for own in [&eve, &unnamed] {
        for channel in channels(&server, &authority, own) {
            assert_eq!(call(&channel, &saying(""), OPEN), denied);
            assert_eq!(watch(&channel, &saying("")), denied);
        }
    }
    let socket = server.addresses()[0].socket().unwrap();
    let by_http = |own| post(socket, &authority.pem(), Some(own), "test.Door/Open", &[]);
    assert!(by_http(&eve).starts_with("HTTP/1.1 403"), "{}", by_http(&eve));
    assert_eq!(ran.load(SeqCst), before, "no handler ran for who was refused");
    assert!(by_http(&ada).ends_with(ADA));
    let counters = server.counters();
    assert!(counters.permission_denied >= 9 && counters.unauthenticated == 0, "{counters:?}");
}

#[test]
fn a_secret_opens_and_names_its_owner_and_a_wrong_one_or_none_is_refused() {
    let (router, ran) = doors();
    let server = start(
        ServerConfig::default(),
        router.authorize(BearerTokens::new().token("ada", "s3cret").token("bob", "other")),
    );
    for channel in plain(&server) {
        assert_eq!(call(&channel, &saying("s3cret"), OPEN), Ok("ada".to_owned()));
        assert_eq!(call(&channel, &saying("other"), OPEN), Ok("bob".to_owned()));
        assert_eq!(watch(&channel, &saying("s3cret")), Ok("ada".to_owned()));
        let before = ran.load(SeqCst);
        for wrong in ["", "s3cre", "s3crets", "S3cret"] {
            assert_eq!(call(&channel, &saying(wrong), OPEN), Err(Code::Unauthenticated), "{wrong}");
            assert_eq!(watch(&channel, &saying(wrong)), Err(Code::Unauthenticated), "{wrong}");
        }
        assert_eq!(ran.load(SeqCst), before);
    }
    let [channel, _] = plain(&server);
    let refused = channel.call(&saying(""), OPEN, b"").unwrap_err();
    assert!(refused.never_ran() && refused.reason == Reason::Unauthenticated);
    assert!(refused.message.contains("authorization: Bearer"), "it says what it wants: {}", refused.message);
}

#[test]
fn workers_and_other_heads_serve_the_subject_of_the_token_too() {
    for (clusters, workers) in [(1, 2), (2, 0)] {
        let (router, _) = doors();
        let tokens = BearerTokens::new().token("ada", "a").token("bob", "b");
        let server = start(ServerConfig::default().clusters(clusters).workers(workers), router.authorize(tokens));
        let [channel, _] = plain(&server);
        for _ in 0..50 {
            assert_eq!(call(&channel, &saying("a"), OPEN), Ok("ada".to_owned()));
            assert_eq!(call(&channel, &saying("b"), OPEN), Ok("bob".to_owned()));
        }
    }
}

#[test]
fn the_narrowest_decides_and_meta_takes_a_right_of_its_own_while_health_is_open() {
    let (router, _) = doors();
    let router = router
        .authorize(BearerTokens::new().token("ada", "a"))
        .authorize_service("test.Bell", |_: &AuthorizeRequest<'_>| Ok(Grant::to_peer()))
        .authorize_service("greenwave.Meta", BearerTokens::new().token("operator", "o"));
    let server = start(ServerConfig::default(), router);
    for channel in plain(&server) {
        assert_eq!(call(&channel, &saying(""), OPEN), Err(Code::Unauthenticated));
        assert_eq!(call(&channel, &saying(""), KNOCK), Ok("nobody".to_owned()));
        assert_eq!(call(&channel, &saying("a"), META), Err(Code::Unauthenticated));
        assert!(call(&channel, &saying("o"), META).unwrap().contains("test.Door/Open"));
        assert!(call(&channel, &saying(""), HEALTH).is_ok());
    }
    let (router, _) = doors();
    let server = start(ServerConfig::default(), router.authorize_service("test.Door", BearerTokens::new()));
    for channel in plain(&server) {
        assert_eq!(call(&channel, &saying("a"), META), Err(Code::PermissionDenied), "nobody has it");
        assert_eq!(call(&channel, &saying(""), KNOCK), Ok("nobody".to_owned()), "nobody is asked");
    }
}

#[test]
fn a_rule_for_what_is_not_there_stops_the_server_at_start() {
    for scope in ["test.Dor", "test.Door/Opn"] {
        let (router, _) = doors();
        let router = if scope.contains('/') {
            router.authorize_method(scope, BearerTokens::new())
        } else {
            router.authorize_service(scope, BearerTokens::new())
        };
        let listen = ["tcp://127.0.0.1:0".parse::<Address>().unwrap()];
        let error = Server::start(ServerConfig::default().listen(listen), router).err().unwrap();
        assert!(error.to_string().contains(&format!("`{scope}`")), "{error}");
    }
}

#[test]
fn one_that_panics_refuses_the_call_and_the_server_goes_on() {
    let (router, ran) = doors();
    let router = router.authorize_method(OPEN.name().unwrap(), |_: &AuthorizeRequest<'_>| -> Result<Grant, Denied> {
        panic!("as the test would have it")
    });
    let server = start(ServerConfig::default(), router);
    for channel in plain(&server) {
        assert_eq!(call(&channel, &saying(""), OPEN), Err(Code::Internal));
        assert_eq!(call(&channel, &saying(""), KNOCK), Ok("nobody".to_owned()));
    }
    assert_eq!((ran.load(SeqCst), server.counters().threads_died), (2, 0));
}

/// Calls until the answer is this one; a list is read again by a thread of its own, in its own time.
fn until(channel: &Channel, server: &ServerHandle, expected: &Result<String, Code>) {
    let begun = std::time::Instant::now();
    while call(channel, &saying(""), OPEN) != *expected {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never was {expected:?}");
        server.refresh();
        std::thread::yield_now();
    }
}

#[test]
fn an_allow_list_that_changes_counts_for_connections_that_live_and_a_broken_one_does_not() {
    let authority = Authority::new();
    let ada = authority.certify(&[ADA], &[]);
    let file = std::env::temp_dir().join(format!("greenwave-allow-{}", std::process::id()));
    let allowed = format!("{ADA} test.Door/*");
    fs::write(&file, &allowed).unwrap();
    let list = Arc::new(AllowList::open(&file).unwrap());
    struct Shared(Arc<AllowList>);
    impl Authorize for Shared {
        fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
            self.0.authorize(call)
        }
        fn refresh(&self) {
            self.0.refresh();
        }
    }
    let (router, _) = doors();
    let config = ServerConfig::default().tls(authority.server()).authorize(Shared(Arc::clone(&list)));
    let server = start(config, router);
    let [channel, _] = channels(&server, &authority, &ada);
    let (may, may_not) = (Ok(ADA.to_owned()), Err(Code::PermissionDenied));
    until(&channel, &server, &may);
    fs::write(&file, "# nobody any more").unwrap();
    until(&channel, &server, &may_not);
    fs::write(&file, &allowed).unwrap();
    until(&channel, &server, &may);
    fs::write(&file, "what is this").unwrap();
    let begun = std::time::Instant::now();
    while list.fault().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the fault is never found");
        server.refresh();
    }
    assert!(list.fault().unwrap().to_string().contains("line 1"));
    assert_eq!(call(&channel, &saying(""), OPEN), may, "the old one holds");
    fs::write(&file, "# mended").unwrap();
    until(&channel, &server, &may_not);
    assert_eq!((list.fault(), server.counters().accepted), (None, 1));
    fs::remove_file(file).unwrap();
}
