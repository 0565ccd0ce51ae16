//! The proxy between real sockets: what arrives, in which order, and what takes longer than what. Times are only ever
//! compared with each other or from below, which holds on a busy machine too.

use greenwave_sim::{Bandwidth, LinkRule, Proxy, ProxyError, Seed};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Sends back what it gets, on every connection, and tells of each piece that it got and sent back.
fn echo() -> (SocketAddr, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let tell = tell.clone();
            thread::spawn(move || {
                let mut buffer = [0; 65536];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..read]).is_err() || tell.send(read).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, told)
}

fn proxy(target: SocketAddr, forth: LinkRule, back: LinkRule) -> Proxy {
    Proxy::start(anywhere(), target, forth, back, Seed::new(1)).unwrap()
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// How long it takes until `bytes` are back.
fn there_and_back(stream: &mut TcpStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    let mut writing = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || writing.write_all(bytes).unwrap());
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == bytes, "other bytes came back than were sent");
    });
    begun.elapsed()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// Everything arrives in order while rules change underneath, with loss and jitter.
#[test]
fn bytes_arrive_whole_and_in_order() {
    let (target, _told) = echo();
    let lossy = LinkRule { loss: 0.02, jitter: 2 * MS, ..LinkRule::delay(MS / 2) };
    let proxy = proxy(target, lossy, lossy);
    let mut streams: Vec<_> = (0..4).map(|_| connect(&proxy)).collect();
    thread::scope(|scope| {
        for stream in &mut streams {
            scope.spawn(|| there_and_back(stream, &pattern(300_000)));
        }
        for round in 0..10_u32 {
            thread::sleep(MS);
            proxy.change_forth(LinkRule { delay: MS * (round % 3), ..lossy }).unwrap();
            proxy.change_back(LinkRule { loss: 0.01 * f64::from(round % 2), ..lossy }).unwrap();
        }
    });
}

/// A round trip takes both delays at least, and more of it takes longer.
#[test]
fn delay_delays() {
    let (target, _told) = echo();
    let proxy = proxy(target, LinkRule::delay(20 * MS), LinkRule::delay(30 * MS));
    let mut stream = connect(&proxy);
    for _ in 0..3 {
        assert!(there_and_back(&mut stream, b"ping") >= 50 * MS);
    }
    proxy.change_back(LinkRule::delay(200 * MS)).unwrap();
    assert!(there_and_back(&mut stream, b"ping") >= 220 * MS);
    // Many at once don't add up: they are all on the way together.
    let together = there_and_back(&mut stream, &pattern(100_000));
    assert!(together >= 220 * MS);
}

/// Bytes take the time that the bandwidth has them take, for all connections together, and each direction for itself.
#[test]
fn bandwidth_is_shared_and_limited() {
    let (target, _told) = echo();
    let slow = LinkRule { bandwidth: Bandwidth::bytes_per_s(1_000_000), ..LinkRule::PERFECT };
    let proxy = proxy(target, slow, LinkRule::PERFECT);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| there_and_back(&mut connect(&proxy), &pattern(100_000)));
        }
    });
    assert!(begun.elapsed() >= 200 * MS, "200 kB at 1 MB/s in {:?}", begun.elapsed());
}

/// Who sends faster than the path carries is held up, and the proxy doesn't hold it all.
#[test]
fn senders_are_held_up() {
    let (target, _told) = echo();
    let slow = LinkRule { bandwidth: Bandwidth::bytes_per_s(10_000), ..LinkRule::PERFECT };
    let proxy = proxy(target, slow, LinkRule::PERFECT);
    let mut stream = connect(&proxy);
    stream.set_write_timeout(Some(500 * MS)).unwrap();
    let chunk = vec![0; 1 << 20];
    let sent = (0..256).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 64, "{sent} MiB were taken for a path of 10 kB/s");
}

/// One direction is cut: what goes there arrives, what comes back waits, and passes when the link is whole.
#[test]
fn cuts_are_one_way_and_heal() {
    let (target, told) = echo();
    let proxy = proxy(target, LinkRule::PERFECT, LinkRule::PERFECT);
    let mut stream = connect(&proxy);
    there_and_back(&mut stream, b"whole");
    assert_eq!(told.recv(), Ok(5));

    proxy.change_back(LinkRule { cut: true, ..LinkRule::PERFECT }).unwrap();
    stream.write_all(b"one way").unwrap();
    assert_eq!(told.recv(), Ok(7), "it arrived, and was answered");
    stream.set_read_timeout(Some(50 * MS)).unwrap();
    let mut answer = [0; 7];
    let kind = stream.read(&mut answer).map_err(|error| error.kind());
    assert!(matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{kind:?}");

    proxy.cut();
    stream.write_all(b"no way").unwrap();
    assert_eq!(told.recv_timeout(50 * MS), Err(mpsc::RecvTimeoutError::Timeout));

    proxy.heal();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut both = [0; 13];
    stream.read_exact(&mut both).unwrap();
    assert_eq!(&both, b"one wayno way");
}

/// Connections that are made while the link is cut lead on when it is whole.
#[test]
fn connections_wait_for_the_link() {
    let (target, told) = echo();
    let proxy = proxy(target, LinkRule::PERFECT, LinkRule::PERFECT);
    proxy.cut();
    let mut stream = connect(&proxy);
    stream.write_all(b"early").unwrap();
    assert_eq!(told.recv_timeout(50 * MS), Err(mpsc::RecvTimeoutError::Timeout));
    proxy.heal();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"early");
}

/// The end of a stream passes behind its bytes, and the other direction goes on.
#[test]
fn streams_end_one_direction_at_a_time() {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let proxy = proxy(listener.local_addr().unwrap(), LinkRule::delay(5 * MS), LinkRule::delay(5 * MS));
    let mut stream = connect(&proxy);
    stream.write_all(b"all there is").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let mut all = String::new();
    far.read_to_string(&mut all).unwrap();
    assert_eq!(all, "all there is");
    far.write_all(b"an answer").unwrap();
    drop(far);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "an answer");
}

/// A reset closes what is there, a target that isn't there closes what comes, and the proxy's end closes everything,
/// cut or not.
#[test]
fn what_ends_connections() {
    let (target, _told) = echo();
    let proxy_there = proxy(target, LinkRule::PERFECT, LinkRule::PERFECT);
    let ended = |stream: &mut TcpStream| matches!(stream.read(&mut [0]), Ok(0) | Err(_));
    let mut stream = connect(&proxy_there);
    there_and_back(&mut stream, b"open");
    proxy_there.reset();
    assert!(ended(&mut stream));
    let mut stream = connect(&proxy_there);
    there_and_back(&mut stream, b"open");
    proxy_there.cut();
    let mut early = connect(&proxy_there);
    drop(proxy_there);
    assert!(ended(&mut stream) && ended(&mut early));

    let nowhere = TcpListener::bind(anywhere()).unwrap().local_addr().unwrap();
    let proxy_nowhere = proxy(nowhere, LinkRule::PERFECT, LinkRule::PERFECT);
    assert!(ended(&mut connect(&proxy_nowhere)));
}

/// Rules that no stream can have are refused, and an address that is taken is named.
#[test]
fn impossible_proxies_are_refused() {
    let start = |rule| Proxy::start(anywhere(), anywhere(), LinkRule::PERFECT, rule, Seed::new(1));
    let unordered = LinkRule { ordered: false, ..LinkRule::PERFECT };
    assert!(matches!(start(unordered), Err(ProxyError::Unordered)));
    assert!(matches!(start(LinkRule { loss: 2.0, ..LinkRule::PERFECT }), Err(ProxyError::Rule(_))));
    let taken = TcpListener::bind(anywhere()).unwrap();
    let address = taken.local_addr().unwrap();
    let refused = Proxy::start(address, address, LinkRule::PERFECT, LinkRule::PERFECT, Seed::new(1));
    assert!(refused.unwrap_err().to_string().contains(&address.to_string()));
}
