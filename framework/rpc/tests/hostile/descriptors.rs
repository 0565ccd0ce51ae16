//! Servers that may have no more files open than they have.

use crate::raw::{self, Raw};
use crate::siege::Bystander;
use crate::site::{Plan, Site};
use greenwave_proto::wire::Frame;
use std::time::{Duration, Instant};

const FILES: u64 = 64;
const CLIENTS: usize = 200;

#[test]
fn a_server_without_descriptors_serves_those_that_it_has_and_then_those_that_waited() {
    holds_out_over("auto");
}

#[test]
fn a_server_over_epoll_without_descriptors_does_too() {
    holds_out_over("epoll");
}

fn holds_out_over(backend: &'static str) {
    let mut site = Site::start(&Plan { backend, files: FILES, ..Plan::default() }).unwrap();
    let bystander = Bystander::paced(&site.address, Duration::from_millis(5));
    let clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(&site.address)).collect();
    site.comes_to("starved", 1);
    let most = site.counter("connections");
    assert!(most > FILES / 2, "{most}");

    // At the limit it is told once, and not busy with trying again.
    let (begun, worked) = (Instant::now(), site.worked());
    while begun.elapsed() < Duration::from_secs(2) {
        bystander.is_served();
    }
    let (share, all) = (site.worked() - worked, begun.elapsed());
    assert!(share < all / 2, "it worked for {share:?} of {all:?}, most of it for nothing");
    assert_eq!((site.counter("starved"), site.counter("warnings"), site.counter("connections")), (1, 1, most));

    // They came in one after the other, and are let in as others leave.
    let mut waiting = clients;
    while !waiting.is_empty() {
        let mut let_in: Vec<Raw> = waiting.drain(..waiting.len().min(most as usize - 1)).collect();
        for client in &mut let_in {
            client.send(&Frame::Hello(raw::hello()));
            let theirs = client.read().expect("a HELLO");
            assert!(matches!(Frame::parse(&theirs, false), Ok(Frame::Hello(_))));
        }
        bystander.is_served();
    }
    site.comes_to("accepted", 1 + CLIENTS as u64);
    site.comes_to("connections", 1);
    bystander.leaves();
}

#[test]
fn a_server_that_has_no_descriptors_to_start_with_says_which_limit_to_raise() {
    let mut refused = 0;
    for files in 3.. {
        match Site::start(&Plan { files, ..Plan::default() }) {
            Ok(_) => break,
            Err(said) => {
                let limit = format!("may have {files} files open; raise `ulimit -n`");
                assert!(said.contains(&limit) && !said.contains("Linux"), "{said}");
                refused += 1;
            }
        }
    }
    // A bell, a ring, a listener.
    assert!(refused >= 3, "{refused}");
}
