//! Greenwave, split or not.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use greenwave::{CallQueue, ChannelConfig, ConnectionId, MethodId, Router, SendOrder, Sending, Server, ServerConfig};

use super::outcome::{Outcome, Part, Recording};
use super::{BULK, BULK_AT_ONCE, SMALL};

const SMALL_METHOD: MethodId = MethodId::of("flows.Flows/Small");
const BULK_METHOD: MethodId = MethodId::of("flows.Flows/Bulk");
/// What calls expect. Small ones expect less, so that handlers that give way give way to them.
const SMALL_WITHIN: Duration = Duration::from_secs(10);
const BULK_WITHIN: Duration = Duration::from_secs(60);
/// Large replies have this tag, small ones their number.
const BULK_TAG: u64 = u64::MAX;
/// After so many bytes the handler of a large reply gives way.
const PIECE: usize = 64 << 10;
/// How long the kernel may take to close what the server of an earlier round listened on.
const CLOSING: Duration = Duration::from_secs(5);

fn sending(split: bool) -> Sending {
    let order = if split { SendOrder::SmallestFirst } else { SendOrder::InOrder };
    Sending::default().order(order)
}

pub(super) fn serve(listen: SocketAddr, split: bool) -> anyhow::Result<()> {
    let start = || {
        let listen = vec![greenwave::Address::Tcp(listen)];
        Server::start(ServerConfig::default().listen(listen).sending(sending(split)), router())
    };
    let begin = Instant::now();
    let _server = loop {
        match start() {
            // The kernel closes the sockets of a process that was killed, and had an io_uring, when it gets to it.
            Err(error) if is_in_use(&error) && begin.elapsed() < CLOSING => std::thread::sleep(CLOSING / 100),
            started => break started?,
        }
    };
    crate::load::attend()
}

fn is_in_use(error: &(dyn Error + 'static)) -> bool {
    let is_it = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    error.downcast_ref().is_some_and(is_it) || error.source().is_some_and(is_in_use)
}

fn router() -> Router {
    let bulk = vec![7; BULK];
    Router::new()
        .method("flows.Flows/Small", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method("flows.Flows/Bulk", move |context, _, reply| {
            reply.reserve(bulk.len());
            for piece in bulk.chunks(PIECE) {
                reply.extend_from_slice(piece);
                context.checkpoint()?;
            }
            Ok(())
        })
}

pub(super) fn measure(to: SocketAddr, split: bool, apart: bool, time: Duration) -> anyhow::Result<Outcome> {
    let config = ChannelConfig::default().sending(sending(split));
    let address = greenwave::Address::Tcp(to);
    let mut stream = CallQueue::connect(&address, &config)?;
    let other = if apart { Some(stream.open(&address, &config)?) } else { None };
    crate::load::begin();
    let mut part = |part, time| ask(&mut stream, other, part, time);
    part(Part::WARM_UP, Part::WARM_UP_TIME)?;
    Ok(Outcome { idle: part(Part::IDLE, time)?, alone: part(Part::ALONE, time)?, both: part(Part::BOTH, time)? })
}

fn ask(stream: &mut CallQueue, other: Option<ConnectionId>, part: Part, time: Duration) -> anyhow::Result<Recording> {
    let mut recording = Recording::new();
    let (mut made, mut large) = (0, 0);
    loop {
        let now = Instant::now();
        let over = now - recording.begin >= time;
        while !over && part.small && recording.scheduled(made) <= now {
            stream.submit_within(SMALL_WITHIN, SMALL_METHOD, &[7; SMALL], made.into());
            made += 1;
        }
        while !over && part.bulk && large < BULK_AT_ONCE {
            match other {
                None => stream.submit_within(BULK_WITHIN, BULK_METHOD, &[], BULK_TAG),
                Some(other) => stream.submit_within_on(other, BULK_WITHIN, BULK_METHOD, &[], BULK_TAG),
            }
            large += 1;
        }
        if over && stream.in_flight() == 0 {
            return Ok(recording);
        }
        let next = if over || !part.small { now + Duration::from_millis(1) } else { recording.scheduled(made) };
        let Some(completion) = stream.take_timeout(next.saturating_duration_since(now)) else { continue };
        let reply = completion.result.map_err(|failure| failure.status)?;
        if completion.tag == BULK_TAG {
            large -= 1;
            recording.received(reply.body.len());
        } else {
            recording.answered(recording.scheduled(completion.tag as u32));
        }
        stream.recycle(reply);
    }
}
