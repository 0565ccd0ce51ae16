//! Messages that are compressed: the end says so, and leaves them as they are.

use super::{Pair, framed, message, said, streaming};
use crate::message::prefix_of;
use bytes::Bytes;
use greenwave_policy::Deadline;
use greenwave_proto::compression::{Encoding, Encodings};
use greenwave_proto::connection::{Answer, Arrival, CalleeEvent, Extra, StreamMessage};
use greenwave_proto::limits::Limits;
use greenwave_proto::receipt::Receipt;

/// A compressed message arrives as it is, with a word on what it is compressed with; so does an answer go out.
#[test]
fn compressed_messages_arrive_and_go_out_as_what_they_are() {
    let Some(gzip) = Encoding::named(b"gzip") else { return };
    let mut pair = Pair::new(Limits::new());
    let packed = |message: &[u8]| Bytes::from([&prefix_of(message.len(), Some(gzip))[..], message].concat());
    let headers = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "identity,gzip")];
    for (sent, request) in [(packed(b"abc"), Some(gzip)), (framed(b"abc"), None)] {
        for compressed in [Some(gzip), None] {
            let (mut response, mut stream) = pair.open(&headers);
            stream.send_data(sent.clone(), true).unwrap();
            pair.run();
            let Arrival { call, coding, body, .. } = pair.arrived().unwrap();
            assert_eq!((coding.request(), coding.answer(), &body[..]), (request, gzip.into(), &b"abc"[..]));
            pair.callee.answer(Answer {
                call,
                result: Ok(b"xyz".to_vec()),
                receipt: Receipt::default(),
                deadline: Deadline::NEVER,
                extra: compressed.map(|_| Box::new(Extra { compressed, ..Extra::default() })),
            });
            pair.run();
            let (head, body, trailers) = pair.outcome(&mut response);
            let encoding = head.headers().get("grpc-encoding").map(|value| value.to_str().unwrap());
            assert_eq!(encoding, compressed.map(Encoding::name));
            assert_eq!(said(head.headers(), "grpc-accept-encoding"), Encodings::BUILT_IN.list());
            assert_eq!(body, if compressed.is_some() { packed(b"xyz") } else { framed(b"xyz") });
            assert_eq!(said(&trailers, "grpc-status"), "0");
        }
    }
}

#[test]
fn what_is_said_falsely_of_compression_is_refused() {
    let mut pair = Pair::new(Limits::new());
    let mut call = |headers: &[(&str, &str)]| {
        let (mut response, mut stream) = pair.open(headers);
        stream.send_data(Bytes::from_static(&[1, 0, 0, 0, 1, 7]), true).unwrap();
        pair.run();
        pair.failed_with(&mut response)
    };
    assert_eq!(call(&[]), "13");
    assert_eq!(call(&[("grpc-encoding", "identity")]), "13");
    assert_eq!(call(&[("grpc-encoding", "snappy")]), "12");
}

#[test]
fn each_message_of_a_stream_says_whether_it_is_compressed() {
    let Some(gzip) = Encoding::named(b"gzip") else { return };
    let mut pair = streaming(Limits::new());
    let packed = |message: &[u8]| [&prefix_of(message.len(), Some(gzip))[..], message].concat();
    let (mut response, mut stream) = pair.open(&[("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip")]);
    stream.send_data([packed(b"one"), framed(b"two").to_vec()].concat().into(), true).unwrap();
    pair.run();
    let call = pair.arrived().unwrap().call;
    let came = pair.events.drain(..).filter_map(|event| match event {
        CalleeEvent::Message(_, message) => Some((message.body, message.compressed)),
        _ => None,
    });
    assert_eq!(came.collect::<Vec<_>>(), [(b"one".to_vec(), Some(gzip)), (b"two".to_vec(), None)]);
    pair.callee.begin_answer(call, &[]);
    pair.callee.send(call, message(b"plain"));
    pair.callee.send(call, StreamMessage { compressed: Some(gzip), ..message(b"less") });
    pair.callee.answer(Answer {
        call,
        result: Ok(Vec::new()),
        receipt: Receipt::default(),
        deadline: Deadline::NEVER,
        extra: Some(Box::new(Extra { streamed: true, ..Extra::default() })),
    });
    pair.run();
    let (head, body, _) = pair.outcome(&mut response);
    assert_eq!(said(head.headers(), "grpc-encoding"), "gzip");
    assert_eq!(body, [framed(b"plain").to_vec(), packed(b"less")].concat());
}
