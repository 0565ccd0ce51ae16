//! A replica that starts again after something was wrong with its disk.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use greenwave::{ChannelConfig, Context};
use greenwave_replica::runtime::FailureMark;
use greenwave_services::replicated::client::{Freshness, GroupClient};
use greenwave_services::replicated::member::{Member, MemberConfig, serve_member};
use greenwave_services::replicated::peers::Peers;

const LONG: Duration = Duration::from_secs(60);

fn start(directory: &Path, peers: &str) -> Member {
    let peers: Peers = peers.parse().unwrap();
    let mut config = MemberConfig::new(1, peers, directory.to_owned()).unwrap();
    // Short enough that there are snapshots, and that the log doesn't have all of it.
    config.log_bytes = Some(20_000);
    serve_member(config).unwrap()
}

fn client(member: &Member) -> GroupClient {
    GroupClient::new(member.server.addresses().to_vec(), ChannelConfig::default()).unwrap()
}

fn value(number: u32) -> Vec<u8> {
    number.to_string().repeat(40).into_bytes()
}

/// Rows that can't be trusted, and rows that can't be read, are made again from the snapshot and the log.
#[test]
fn rows_are_made_again_after_a_write_had_failed_and_when_they_are_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [&one, &other].map(|listener| listener.local_addr().unwrap().port());
    let peers = format!("1=tcp://127.0.0.1:{}/{}", ports[0], ports[1]);
    drop((one, other));

    let member = start(directory.path(), &peers);
    let mut rows = client(&member);
    for number in 0..400_u32 {
        rows.put(&Context::with_deadline(LONG), &number.to_le_bytes(), &value(number)).unwrap();
    }
    member.drain(LONG);

    let (log, store) = (directory.path().join("log"), directory.path().join("store"));
    assert!(log.join("identity").exists() && !FailureMark::of(&log).is_set());
    let spoil = || {
        for entry in fs::read_dir(&store).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            let mut bytes = fs::read(entry.path()).unwrap();
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            fs::write(entry.path(), bytes).unwrap();
        }
    };
    // What a start leaves that failed half way.
    let half_made = || {
        fs::remove_dir_all(&store).unwrap();
        fs::create_dir_all(store.join("keyspaces/1")).unwrap();
        fs::write(store.join("0.jnl"), "").unwrap();
    };
    // As a replica leaves it whose disk has failed.
    let mark = || fs::write(log.join("failed"), "").unwrap();
    for wrong in [&mark as &dyn Fn(), &spoil, &half_made] {
        wrong();
        let member = start(directory.path(), &peers);
        assert!(!FailureMark::of(&log).is_set(), "once is enough");
        let mut rows = client(&member);
        for number in 0..400_u32 {
            let found = rows.get(&Context::with_deadline(LONG), &number.to_le_bytes(), Freshness::Linearizable);
            assert_eq!(found.unwrap().as_deref(), Some(&value(number)[..]), "row {number}");
        }
        member.drain(LONG);
    }
}
