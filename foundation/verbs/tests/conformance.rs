//! What every completion queue does, whatever carries its connections.

mod hosts;

use std::sync::Arc;

use greenwave_verbs::{AcceptMode, Close, CloseReason, Run, VerbsError};
use hosts::site::{Site, over_every_carrier};
use hosts::{Host, Seen, connect, until};

over_every_carrier! {
    what_is_sent_comes_back
    chunks_posted_before_the_connection_is_up_arrive
    many_chunks_leave_in_one_write_and_arrive_one_by_one
    a_run_of_chunks_arrives_as_if_they_had_been_posted_one_by_one
    chunks_of_any_length_arrive_whole_and_in_order
    chunks_with_shared_parts_arrive_like_others
    a_shared_buffer_comes_back_once_it_is_written
    a_chunk_that_is_empty_or_too_long_is_not_posted
    the_end_of_a_peer_is_told_once
    where_nobody_listens_the_connection_is_refused
    a_flush_delivers_everything_before_it_closes
    after_an_abort_there_is_silence
    an_id_of_the_past_is_refused
    a_waker_ends_a_wait
    a_wait_ends_when_something_arrives
    a_connection_moves_to_the_queue_that_adopts_it
    a_detached_connection_that_is_dropped_is_closed
    a_closed_listener_accepts_no_more
    two_at_one_address_are_refused
    a_queue_that_is_dropped_closes_its_connections
    many_connections_are_kept_apart
}

fn what_is_sent_comes_back(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    for round in 1..100 {
        let question = format!("question {round}");
        client.queue.post_send(at_client, &[b"question ", round.to_string().as_bytes()]).unwrap();
        until([&mut server, &mut client], |[server, _]| server.chunks().len() == round);
        assert_eq!(*server.chunks().last().unwrap(), question.as_bytes());
        let answer = question.to_uppercase();
        server.queue.post_send(at_server, &[answer.as_bytes()]).unwrap();
        until([&mut server, &mut client], |[_, client]| client.chunks().len() == round);
        assert_eq!(*client.chunks().last().unwrap(), answer.as_bytes());
    }
    let (at_server, at_client) = (server.queue.stats(), client.queue.stats());
    assert_eq!((at_client.chunks_out, at_client.bytes_out), (at_server.chunks_in, at_server.bytes_in));
    assert_eq!((at_server.chunks_out, at_server.bytes_out), (at_client.chunks_in, at_client.bytes_in));
    assert_eq!(at_server.accepted, 1);
}

fn chunks_posted_before_the_connection_is_up_arrive(site: &Site, mut server: Host, mut client: Host) {
    let (_, address) = server.listen(&site.address);
    let endpoint = client.connect(&address);
    client.queue.post_send(endpoint, &[b"early"]).unwrap();
    client.queue.submit();
    client.queue.post_send(endpoint, &[b"bird"]).unwrap();
    until([&mut server, &mut client], |[server, client]| server.chunks().len() == 2 && client.is_connected(endpoint));
    assert_eq!(server.chunks(), [b"early".as_slice(), b"bird"]);
}

fn many_chunks_leave_in_one_write_and_arrive_one_by_one(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let writes = client.queue.stats().writes;
    for number in 0..200_u8 {
        client.queue.post_send(at_client, &[&[number; 10]]).unwrap();
    }
    client.queue.submit();
    assert_eq!(client.queue.stats().writes, writes + 1);
    until([&mut server, &mut client], |[server, _]| server.chunks().len() == 200);
    assert!(server.chunks().iter().enumerate().all(|(number, chunk)| **chunk == [number as u8; 10]));
}

fn a_run_of_chunks_arrives_as_if_they_had_been_posted_one_by_one(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let longest = site.config.chunk_bytes;
    let mut posted: Vec<Vec<u8>> = Vec::new();
    for round in 0..200 {
        until([&mut server, &mut client], |[_, client]| client.queue.send_room(at_client) > 0);
        let room = client.queue.send_room(at_client) - longest;
        let (mut run, mut count) = (Vec::new(), 0);
        // As long as the contract allows, or shorter.
        for length in [1, longest / 7, 40, longest, 3].into_iter().cycle().take(1 + round % 9) {
            if run.len() > room {
                break;
            }
            let chunk: Vec<u8> = (0..length).map(|at| (at + round) as u8).collect();
            run.extend_from_slice(&(length as u32).to_le_bytes());
            run.extend_from_slice(&chunk);
            posted.push(chunk);
            count += 1;
        }
        client.queue.post_run(at_client, Run::new(&run, count)).unwrap();
        if client.queue.send_room(at_client) > 0 {
            client.queue.post_send(at_client, &[b"between"]).unwrap();
            posted.push(b"between".to_vec());
        }
    }
    until([&mut server, &mut client], |[server, _]| server.chunks().len() == posted.len());
    assert!(server.chunks() == posted, "a chunk was changed on the way");
    let (at_server, at_client) = (server.queue.stats(), client.queue.stats());
    assert_eq!((at_client.chunks_out, at_client.bytes_out), (at_server.chunks_in, at_server.bytes_in));
}

fn chunks_of_any_length_arrive_whole_and_in_order(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let longest = site.config.chunk_bytes;
    let lengths = [longest, 1, longest, longest - 1, longest / 2, longest, 3, 2, 1, longest, longest, longest];
    let mut posted = Vec::new();
    for (number, length) in (0_u8..).zip(lengths.iter().cycle().copied().take(200)) {
        let chunk: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(31) ^ number).collect();
        until([&mut server, &mut client], |[_, client]| client.queue.send_room(at_client) > 0);
        assert!(client.queue.send_room(at_client) >= longest, "where there is room, there is room for a chunk");
        let (front, back) = chunk.split_at(length / 3);
        client.queue.post_send(at_client, &[front, &[], back]).unwrap();
        posted.push(chunk);
    }
    until([&mut server, &mut client], |[server, _]| server.chunks().len() == posted.len());
    assert!(server.chunks() == posted, "a chunk was changed on the way");
}

fn chunks_with_shared_parts_arrive_like_others(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let longest = site.config.chunk_bytes;
    let buffer: Arc<Vec<u8>> = Arc::new((0..longest * 3).map(|at| (at as u8).wrapping_mul(31)).collect());
    let mut posted = Vec::new();
    for (number, part) in [longest - 9, 1, 0, longest / 2, longest - 9, longest - 9].repeat(50).into_iter().enumerate()
    {
        // Nobody reads until there is no room, so that sockets are full and writes stop anywhere.
        if client.queue.send_room(at_client) == 0 {
            until([&mut server, &mut client], |[_, client]| client.queue.send_room(at_client) > 0);
        }
        let (head, tail) = ([number as u8; 5], [!number as u8; 4]);
        if number % 3 == 0 {
            posted.push(head.to_vec());
            client.queue.post_send(at_client, &[&head]).unwrap();
        } else {
            let range = number * 13 % longest..number * 13 % longest + part;
            posted.push([&head[..], &buffer[range.clone()], &tail].concat());
            client.queue.post_shared(at_client, [&head[..2], &head[2..]], (&buffer, range), &tail).unwrap();
        }
        client.queue.submit();
    }
    until([&mut server, &mut client], |[server, _]| server.chunks().len() == posted.len());
    assert!(server.chunks() == posted, "a chunk was changed on the way");
    let refused = client.queue.post_shared(at_client, [b"x", b""], (&buffer, 0..longest), b"").unwrap_err();
    assert!(matches!(refused, VerbsError::ChunkLength { len, .. } if len == longest + 1), "{refused}");
}

fn a_shared_buffer_comes_back_once_it_is_written(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let part = site.config.chunk_bytes;
    for round in 1..20 {
        let buffer = Arc::new(vec![7; 2 * part]);
        for range in [0..part, part..2 * part] {
            client.queue.post_shared(at_client, [b"", b""], (&buffer, range), b"").unwrap();
        }
        let mut back = Arc::into_inner(buffer);
        until([&mut server, &mut client], |[server, _]| server.chunks().len() == 2 * round);
        until([&mut client], |[client]| client.queue.send_room(at_client) > site.config.backlog_bytes);
        // One that was copied never left.
        while back.is_none() {
            client.turn();
            back = client.queue.reclaim();
        }
        assert_eq!(back.unwrap(), vec![7; 2 * part]);
        assert!(client.queue.reclaim().is_none());
    }
    let buffer = Arc::new(vec![7; part]);
    client.queue.post_shared(at_client, [b"", b""], (&buffer, 0..part), b"").unwrap();
    drop(buffer);
    client.queue.submit();
    // Whatever the kernel has of it.
    client.queue.close(at_client, Close::Abort);
    drop(client);
}

fn a_chunk_that_is_empty_or_too_long_is_not_posted(site: &Site, mut server: Host, mut client: Host) {
    let (_, at_client) = connect(&mut server, &mut client, &site.address);
    let limit = site.config.chunk_bytes;
    assert_eq!(client.queue.chunk_bytes(), limit);
    for parts in [vec![], vec![0; 0], vec![0; limit + 1]] {
        let refused = client.queue.post_send(at_client, &[&parts]).unwrap_err();
        assert!(matches!(refused, VerbsError::ChunkLength { len, .. } if len == parts.len()), "{refused}");
    }
    client.queue.post_send(at_client, &[b"fine"]).unwrap();
    until([&mut server, &mut client], |[server, _]| !server.chunks().is_empty());
    assert_eq!(server.chunks(), [b"fine"], "nothing of what was refused got through");
}

fn the_end_of_a_peer_is_told_once(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    client.queue.post_send(at_client, &[b"last words"]).unwrap();
    client.queue.close(at_client, Close::Flush);
    until([&mut server, &mut client], |[server, client]| {
        server.closed(at_server).is_some() && client.closed(at_client).is_some()
    });
    assert_eq!(server.closed(at_server), Some(CloseReason::PeerClosed));
    assert_eq!(client.closed(at_client), Some(CloseReason::Flushed));
    assert_eq!(server.chunks(), [b"last words"]);
    (0..100).for_each(|_| assert_eq!(server.turn() + client.turn(), 0, "nothing follows"));
    assert!(matches!(server.queue.post_send(at_server, &[b"x"]), Err(VerbsError::StaleEndpoint(_))));
}

fn where_nobody_listens_the_connection_is_refused(site: &Site, mut server: Host, mut client: Host) {
    let endpoint = client.connect(&site.deserted());
    until([&mut server, &mut client], |[_, client]| client.closed(endpoint).is_some());
    assert_eq!(client.closed(endpoint), Some(CloseReason::Refused));
}

fn a_flush_delivers_everything_before_it_closes(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    // Bytes on the way to a closing socket must not spoil what it has yet to deliver.
    server.queue.post_send(at_server, &[b"unread"]).unwrap();
    server.queue.submit();
    let mut posted = 0;
    while client.queue.send_room(at_client) > 0 {
        client.queue.post_send(at_client, &[&vec![1; site.config.chunk_bytes]]).unwrap();
        posted += 1;
    }
    client.queue.close(at_client, Close::Flush);
    assert_eq!(client.queue.send_room(at_client), 0);
    assert!(matches!(client.queue.post_send(at_client, &[b"x"]), Err(VerbsError::StaleEndpoint(_))));
    client.idle();
    until([&mut server, &mut client], |[server, client]| {
        server.closed(at_server).is_some() && client.closed(at_client).is_some()
    });
    assert_eq!(server.chunks().len(), posted);
    assert_eq!(client.closed(at_client), Some(CloseReason::Flushed));
    assert!(client.chunks().is_empty(), "a closing endpoint receives no more");
}

fn after_an_abort_there_is_silence(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    server.queue.post_send(at_server, &[b"too late"]).unwrap();
    server.queue.submit();
    client.log.clear();
    client.queue.post_send(at_client, &[b"never mind"]).unwrap();
    client.queue.close(at_client, Close::Abort);
    client.queue.close(at_client, Close::Abort);
    until([&mut server, &mut client], |[server, _]| server.closed(at_server).is_some());
    client.idle();
    assert!(client.log.is_empty(), "{:?}", client.log);
}

fn an_id_of_the_past_is_refused(site: &Site, mut server: Host, mut client: Host) {
    let (listener, address) = server.listen(&site.address);
    let old = client.connect(&address);
    client.queue.close(old, Close::Abort);
    until([&mut server, &mut client], |[server, _]| server.accepted().is_some());
    server.idle();
    client.idle();
    let new = client.connect(&address);
    assert_ne!(old, new);
    until([&mut server, &mut client], |[_, client]| client.is_connected(new));
    assert!(matches!(client.queue.post_send(old, &[b"x"]), Err(VerbsError::StaleEndpoint(id)) if id == old));
    assert_eq!(client.queue.send_room(old), 0);
    client.queue.close(old, Close::Abort);
    client.queue.post_send(new, &[b"still here"]).unwrap();
    until([&mut server, &mut client], |[server, _]| !server.chunks().is_empty());

    server.queue.close_listener(listener);
    server.queue.close_listener(listener);
    assert!(matches!(server.queue.local_address(listener), Err(VerbsError::StaleListener(_))));
    assert!(matches!(server.queue.set_accept_mode(listener, AcceptMode::Keep), Err(VerbsError::StaleListener(_))));
}

fn a_waker_ends_a_wait(_: &Site, mut server: Host, _: Host) {
    let waker = server.queue.waker();
    waker.wake();
    server.queue.wait(server.now(), None);
    server.turn();
    assert!(server.is_woken(), "a wake before the wait is not lost");
    assert_eq!(server.turn(), 0, "it is told once");
    for _ in 0..100 {
        server.log.clear();
        let waker = waker.clone();
        let other = std::thread::spawn(move || waker.wake());
        while !server.is_woken() {
            server.queue.wait(server.now(), None);
            server.turn();
        }
        other.join().unwrap();
    }
}

fn a_wait_ends_when_something_arrives(site: &Site, mut server: Host, mut client: Host) {
    // Opened here and used there, which every queue allows.
    let (_, address) = server.listen(&site.address);
    let other = std::thread::spawn(move || {
        while server.chunks().is_empty() {
            server.queue.wait(server.now(), None);
            server.turn();
        }
        server.chunks().concat()
    });
    let at_client = client.connect(&address);
    until([&mut client], |[client]| client.is_connected(at_client));
    client.queue.post_send(at_client, &[b"knock"]).unwrap();
    client.queue.submit();
    assert_eq!(other.join().unwrap(), b"knock");
}

fn a_connection_moves_to_the_queue_that_adopts_it(site: &Site, mut server: Host, mut client: Host) {
    let mut other = site.host().unwrap();
    let (listener, address) = server.listen(&site.address);
    server.queue.set_accept_mode(listener, AcceptMode::Detach).unwrap();
    let at_client = client.connect(&address);
    client.queue.post_send(at_client, &[b"sent before the move"]).unwrap();
    until([&mut server, &mut client], |[server, _]| !server.log.is_empty());
    let Some(Seen::Detached(detached)) = server.log.pop() else { panic!("it is handed out, not kept") };
    let adopted = other.queue.adopt(detached).unwrap();
    other.queue.post_send(adopted, &[b"welcome"]).unwrap();
    until([&mut other, &mut client], |[other, client]| !other.chunks().is_empty() && !client.chunks().is_empty());
    assert_eq!(
        (other.chunks(), client.chunks()),
        (vec![b"sent before the move".as_slice()], vec![b"welcome".as_slice()])
    );
    client.queue.close(at_client, Close::Flush);
    until([&mut other, &mut client], |[other, _]| other.closed(adopted) == Some(CloseReason::PeerClosed));
    assert_eq!(server.turn(), 0, "the first queue has nothing to do with it any more");
}

fn a_detached_connection_that_is_dropped_is_closed(site: &Site, mut server: Host, mut client: Host) {
    let (listener, address) = server.listen(&site.address);
    server.queue.set_accept_mode(listener, AcceptMode::Detach).unwrap();
    let at_client = client.connect(&address);
    until([&mut server, &mut client], |[server, _]| !server.log.is_empty());
    server.log.clear();
    until([&mut server, &mut client], |[_, client]| client.closed(at_client).is_some());
}

fn a_closed_listener_accepts_no_more(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    let (listener, address) = match server.try_listen(&site.address) {
        Ok(second) => (second, server.queue.local_address(second).unwrap()),
        // A path is taken by the first listener.
        Err(VerbsError::Listen { .. }) => {
            let elsewhere = format!("{}-2", site.address).parse().unwrap();
            server.listen(&elsewhere)
        }
        Err(other) => panic!("{other}"),
    };
    server.queue.close_listener(listener);
    server.turn();
    let late = client.connect(&address);
    until([&mut server, &mut client], |[_, client]| client.closed(late).is_some());
    client.queue.post_send(at_client, &[b"accepted before"]).unwrap();
    until([&mut server, &mut client], |[server, _]| !server.chunks().is_empty());
    assert_eq!(server.closed(at_server), None);
}

fn two_at_one_address_are_refused(site: &Site, mut server: Host, mut client: Host) {
    let (listener, address) = server.listen(&site.address);
    let refused = client.try_listen(&address).unwrap_err();
    assert!(matches!(refused, VerbsError::Listen { .. }), "{refused}");
    server.queue.close_listener(listener);
    server.idle();
    client.try_listen(&address).expect("the address is free again");
}

fn a_queue_that_is_dropped_closes_its_connections(site: &Site, mut server: Host, mut client: Host) {
    let (at_server, at_client) = connect(&mut server, &mut client, &site.address);
    // More than the socket takes, so that the kernel holds on to a buffer of the queue.
    for _ in 0..1000 {
        while server.queue.send_room(at_server) > 0 {
            server.queue.post_send(at_server, &[&vec![1; site.config.chunk_bytes]]).unwrap();
        }
        server.turn();
    }
    drop(server);
    until([&mut client], |[client]| client.closed(at_client).is_some());
}

fn many_connections_are_kept_apart(site: &Site, mut server: Host, mut client: Host) {
    let (_, address) = server.listen(&site.address);
    let endpoints: Vec<_> = (0..100).map(|_| client.connect(&address)).collect();
    for (number, endpoint) in (0_u8..).zip(&endpoints) {
        for part in 0..3 {
            client.queue.post_send(*endpoint, &[&[number, part]]).unwrap();
        }
    }
    until([&mut server, &mut client], |[server, _]| server.chunks().len() == 300);
    let mut by_endpoint = std::collections::BTreeMap::<_, Vec<&[u8]>>::new();
    for seen in &server.log {
        if let Seen::Received(endpoint, chunk) = seen {
            by_endpoint.entry(*endpoint).or_default().push(chunk);
        }
    }
    assert_eq!(by_endpoint.len(), 100);
    for chunks in by_endpoint.values() {
        let number = chunks[0][0];
        assert_eq!(*chunks, [[number, 0], [number, 1], [number, 2]]);
    }
}
