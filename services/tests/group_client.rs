//! The client of the replicated store against servers that answer as replicas in trouble do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenwave::{
    Address, ChannelConfig, Code, Context, Router, Server, ServerConfig, ServerHandle, StartError, Status,
};
use greenwave_services::proto::replicated as proto;
use greenwave_services::replicated::client::{Freshness, GroupClient, StoreClientError};

const LONG: Duration = Duration::from_secs(60);

/// What a replica does with the next request that isn't an opening of a session.
#[derive(Clone)]
enum Do {
    Done,
    Fail(Code, String),
    /// It is done, and the answer doesn't come.
    Hang,
}

/// A replica that does as it is told, and notes each request's session and who asked for what.
#[derive(Default)]
struct Scripted {
    script: Mutex<VecDeque<Do>>,
    opening: Mutex<VecDeque<Do>>,
    seen: Mutex<Vec<(u64, u64)>>,
    opened: Mutex<Vec<u64>>,
}

impl Scripted {
    fn next(&self, context: &Context, script: &Mutex<VecDeque<Do>>) -> Result<(), Status> {
        match script.lock().unwrap().pop_front().unwrap_or(Do::Done) {
            Do::Done => Ok(()),
            Do::Fail(code, message) => Err(Status::new(code, message)),
            Do::Hang => loop {
                context.checkpoint()?;
            },
        }
    }

    fn noted(&self, context: &Context, session: Option<proto::Session>) -> Result<(), Status> {
        let session = session.unwrap();
        self.seen.lock().unwrap().push((session.client, session.sequence));
        self.next(context, &self.script)
    }
}

impl proto::Store for Scripted {
    fn open(&self, context: &Context, request: proto::OpenRequest) -> Result<proto::OpenReply, Status> {
        self.next(context, &self.opening)?;
        self.opened.lock().unwrap().push(request.session.unwrap().client);
        Ok(proto::OpenReply {})
    }

    fn put(&self, context: &Context, request: proto::PutRequest) -> Result<proto::PutReply, Status> {
        self.noted(context, request.session).map(|()| proto::PutReply {})
    }

    fn delete(&self, context: &Context, request: proto::DeleteRequest) -> Result<proto::DeleteReply, Status> {
        self.noted(context, request.session).map(|()| proto::DeleteReply { found: true })
    }

    fn compare_and_swap(
        &self,
        context: &Context,
        request: proto::CompareAndSwapRequest,
    ) -> Result<proto::CompareAndSwapReply, Status> {
        self.noted(context, request.session).map(|()| proto::CompareAndSwapReply::default())
    }

    fn get(&self, context: &Context, _: proto::GetRequest) -> Result<proto::GetReply, Status> {
        self.next(context, &self.script).map(|()| proto::GetReply { value: Some("value".into()) })
    }

    fn range(&self, context: &Context, _: proto::RangeRequest) -> Result<proto::RangeReply, Status> {
        self.next(context, &self.script).map(|()| proto::RangeReply::default())
    }

    fn describe(&self, _: &Context, _: proto::DescribeRequest) -> Result<proto::DescribeReply, Status> {
        Ok(proto::DescribeReply::default())
    }
}

struct Running {
    replica: Arc<Scripted>,
    server: ServerHandle,
}

impl Running {
    fn start() -> Result<Self, StartError> {
        let replica = Arc::new(Scripted::default());
        let router: Router = proto::StoreServer::new(Arc::clone(&replica)).into_router();
        let listen = vec!["tcp://127.0.0.1:0".parse().unwrap()];
        let server = Server::start(ServerConfig::default().listen(listen), router)?;
        Ok(Self { replica, server })
    }

    fn address(&self) -> Address {
        self.server.addresses()[0].clone()
    }

    fn script(&self, steps: &[Do]) {
        self.replica.script.lock().unwrap().extend(steps.iter().cloned());
    }

    fn seen(&self) -> Vec<(u64, u64)> {
        self.replica.seen.lock().unwrap().clone()
    }
}

fn group(replicas: &[&Running]) -> GroupClient {
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address()).collect();
    GroupClient::new(addresses, ChannelConfig::default()).unwrap()
}

fn long() -> Context {
    Context::with_deadline(LONG)
}

#[test]
fn a_client_goes_to_the_leader_that_it_is_told_of_and_stays() {
    let [follower, leader] = [(); 2].map(|()| Running::start().unwrap());
    // Only the follower is named: the leader is found by what it says.
    let away = Do::Fail(Code::Unavailable, format!("replica 1 doesn't lead; replica 2 leads, at {}", leader.address()));
    follower.replica.opening.lock().unwrap().push_back(away);
    let mut client = group(&[&follower]);
    for _ in 0..3 {
        client.put(&long(), b"key", b"value").unwrap();
    }
    assert!(client.delete(&long(), b"key").unwrap());
    let sequences: Vec<_> = leader.seen().iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    assert!(follower.seen().is_empty());
}

#[test]
fn a_write_that_is_sent_again_has_the_same_session_and_number() {
    let [one, two] = [(); 2].map(|()| Running::start().unwrap());
    let lost = Do::Fail(Code::Aborted, "the lead was lost on the way; no leader is known".into());
    let busy = Do::Fail(Code::ResourceExhausted, "too many wait".into());
    for replica in [&one, &two] {
        replica.script(&[lost.clone(), busy.clone(), lost.clone(), Do::Done, Do::Done]);
    }
    let mut client = group(&[&one, &two]);
    client.put(&long(), b"key", b"value").unwrap();
    let seen = [one.seen(), two.seen()].concat();
    assert!(seen.len() >= 4, "{seen:?}");
    assert!(seen.iter().all(|request| *request == seen[0]) && seen[0].1 == 1, "{seen:?}");
}

#[test]
fn a_replica_that_hangs_does_not_take_all_of_the_time() {
    let [hangs, answers] = [(); 2].map(|()| Running::start().unwrap());
    hangs.script(&[Do::Hang, Do::Hang, Do::Hang]);
    let mut client = group(&[&hangs, &answers]);
    for _ in 0..2 {
        assert_eq!(client.get(&long(), b"key", Freshness::Linearizable).unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_replica_that_is_gone_is_passed_over() {
    let [gone, there] = [(); 2].map(|()| Running::start().unwrap());
    let mut client = group(&[&gone, &there]);
    gone.server.drain(Duration::ZERO);
    for _ in 0..4 {
        client.put(&long(), b"key", b"value").unwrap();
    }
    assert_eq!(there.seen().len(), 4);
}

#[test]
fn a_session_that_was_forgotten_is_opened_anew_unless_the_command_may_be_done() {
    let replica = Running::start().unwrap();
    let forgotten = Do::Fail(Code::FailedPrecondition, "the session isn't open".into());
    replica.script(std::slice::from_ref(&forgotten));
    let mut client = group(&[&replica]);
    client.put(&long(), b"key", b"value").unwrap();
    let seen = replica.seen();
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0].0, seen[1].0, "another client's number");
    assert_eq!(replica.replica.opened.lock().unwrap().len(), 2);

    let lost = Do::Fail(Code::Aborted, "the lead was lost".into());
    replica.script(&[lost, forgotten]);
    let error = client.put(&long(), b"key", b"value").unwrap_err();
    assert!(matches!(error, StoreClientError::Uncertain { .. }), "{error}");
}

#[test]
fn what_comes_to_nothing_says_whether_it_may_be_done() {
    let replica = Running::start().unwrap();
    let mut client = group(&[&replica]);
    let wrong = Do::Fail(Code::InvalidArgument, "a key has 0 bytes".into());
    replica.script(&[wrong]);
    let error = client.put(&long(), b"", b"value").unwrap_err();
    assert!(matches!(error, StoreClientError::Refused(_)) && error.to_string().contains("a key has 0 bytes"));

    let short = || Context::with_deadline(Duration::from_millis(300));
    let nobody = vec![Do::Fail(Code::Unavailable, "replica 1 doesn't lead; no leader is known".into()); 10_000];
    replica.script(&nobody);
    let error = client.put(&short(), b"key", b"value").unwrap_err();
    assert!(matches!(error, StoreClientError::Unavailable { .. }), "{error}");
    replica.replica.script.lock().unwrap().clear();

    let lost = vec![Do::Fail(Code::Aborted, "the lead was lost".into()); 10_000];
    replica.script(&lost);
    let error = client.put(&short(), b"key", b"value").unwrap_err();
    assert!(matches!(error, StoreClientError::Uncertain { .. }), "{error}");
    let error = GroupClient::new([] as [Address; 0], ChannelConfig::default()).err().unwrap();
    assert!(matches!(error, StoreClientError::Nobody));
}
