//! Addresses at which no server can listen.

use crate::siege::Methods;
use greenwave_rpc::*;
use greenwave_verbs::{Address, VerbsError};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::TcpListener;

/// What a server says that doesn't start, and that nothing is left of it.
fn refusal(listen: &[&str]) -> String {
    let listen: Vec<Address> = listen.iter().map(|address| address.parse().unwrap()).collect();
    let config = ServerConfig::default().listen(listen);
    let error = Server::start(config, Methods::default().router()).map(|server| server.addresses().to_vec());
    let error = error.expect_err("it can't listen there");
    assert!(matches!(error, StartError::Verbs(VerbsError::Listen { .. })), "{error}");
    error.to_string()
}

fn says(said: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(said.contains(part), "no `{part}` in `{said}`"));
}

#[test]
fn an_address_in_use_is_named_and_the_others_are_free_again() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refusal(&[&format!("tcp://{free}"), &address]);
    says(&said, &[&address, "in use", "stop what listens there, or choose another port"]);
    TcpListener::bind(free).expect("nobody listens there any more");
}

#[test]
fn an_address_of_another_machine_is_named() {
    // Kept for documents, so that no machine has it.
    let said = refusal(&["tcp://192.0.2.1:7000"]);
    says(&said, &["tcp://192.0.2.1:7000", "assign", "choose one that `ip address` lists"]);
}

#[test]
fn a_port_for_the_privileged_is_named() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u32>().unwrap() < 2 {
        return eprintln!("passed over: here every port is for everybody");
    }
    // The privileges are this thread's, and of those that it starts.
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::NET_BIND_SERVICE);
    set_capabilities(None, sets).unwrap();
    let said = refusal(&["tcp://127.0.0.1:1"]);
    says(&said, &["tcp://127.0.0.1:1:", "ermission denied", "1024 or above", "CAP_NET_BIND_SERVICE"]);
}

#[test]
fn a_path_in_no_folder_is_named() {
    says(&refusal(&["unix:///no/such/folder/socket"]), &["unix:///no/such/folder/socket", "make the folder first"]);
}
