//! A DNS server of the test's own, over UDP and TCP, that says what it is told to.

use greenwave_rpc::{Channel, ChannelConfig};
use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is known of names; of one that isn't there, that there is none.
#[derive(Default)]
struct Zone {
    records: HashMap<(String, RecordType), Vec<(RData, u32)>>,
    silent: bool,
}

pub(crate) struct Dns {
    socket: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    queries: Arc<AtomicUsize>,
}

/// What a UDP answer holds here.
const UDP_MOST: usize = 1232;

impl Dns {
    pub(crate) fn start() -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let socket = udp.local_addr().unwrap();
        let (zone, queries) = (Arc::new(Mutex::new(Zone::default())), Arc::new(AtomicUsize::new(0)));
        let known = (Arc::clone(&zone), Arc::clone(&queries));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, from)) = udp.recv_from(&mut buffer) {
                let Some(answer) = answer(&known.0, &known.1, &buffer[..len], UDP_MOST) else { continue };
                let _nobody_may_wait = udp.send_to(&answer, from);
            }
        });
        let known = (Arc::clone(&zone), Arc::clone(&queries));
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let mut len = [0; 2];
                while stream.read_exact(&mut len).is_ok() {
                    let mut query = vec![0; u16::from_be_bytes(len).into()];
                    stream.read_exact(&mut query).unwrap();
                    let Some(answer) = answer(&known.0, &known.1, &query, usize::from(u16::MAX)) else { break };
                    let len = u16::try_from(answer.len()).unwrap().to_be_bytes();
                    stream.write_all(&[&len, &answer[..]].concat()).unwrap();
                }
            }
        });
        Self { socket, zone, queries }
    }

    /// How many queries came.
    pub(crate) fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }

    /// A name's addresses from now on, valid for so many seconds.
    pub(crate) fn addresses(&self, name: &str, ttl: u32, ips: impl IntoIterator<Item = IpAddr>) {
        let (four, six): (Vec<_>, Vec<_>) = ips.into_iter().partition(IpAddr::is_ipv4);
        let mut zone = self.zone.lock().unwrap();
        for (of, ips) in [(RecordType::A, four), (RecordType::AAAA, six)] {
            let data = ips.into_iter().map(|ip| match ip {
                IpAddr::V4(ip) => RData::A(A(ip)),
                IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
            });
            let records = data.map(|data| (data, ttl)).collect();
            zone.records.insert((name.to_owned(), of), records);
        }
    }

    /// A name's SRV records: priority, port and target of each.
    pub(crate) fn services(&self, name: &str, services: &[(u16, u16, &str)]) {
        let services = services.iter().map(|(priority, port, target)| {
            (RData::SRV(SRV::new(*priority, 1, *port, Name::from_utf8(target).unwrap())), 60)
        });
        self.zone.lock().unwrap().records.insert((name.to_owned(), RecordType::SRV), services.collect());
    }

    /// From now on there are no names.
    pub(crate) fn forget(&self) {
        self.zone.lock().unwrap().records.clear();
    }

    /// Whether it doesn't answer.
    pub(crate) fn silent(&self, silent: bool) {
        self.zone.lock().unwrap().silent = silent;
    }

    /// Where a name leads that is asked of this server.
    pub(crate) fn target(&self, name: &str) -> String {
        format!("dns://{}/{name}", self.socket)
    }

    /// A channel to a name, which is looked up often.
    pub(crate) fn channel(&self, name: &str) -> Channel {
        let config = ChannelConfig::default().refresh(Duration::from_millis(5), Duration::from_secs(60));
        Channel::to(self.target(name).parse().unwrap(), config).unwrap()
    }
}

fn answer(zone: &Mutex<Zone>, queries: &AtomicUsize, query: &[u8], most: usize) -> Option<Vec<u8>> {
    queries.fetch_add(1, Ordering::SeqCst);
    let query = Message::from_vec(query).unwrap();
    let asked = query.queries[0].clone();
    let zone = zone.lock().unwrap();
    if zone.silent {
        return None;
    }
    let name = asked.name().to_utf8().trim_end_matches('.').to_owned();
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.add_query(asked.clone());
    if !zone.records.keys().any(|(known, _)| *known == name) {
        answer.metadata.response_code = ResponseCode::NXDomain;
    }
    for (data, ttl) in zone.records.get(&(name, asked.query_type())).into_iter().flatten() {
        answer.add_answer(Record::from_rdata(asked.name().clone(), *ttl, data.clone()));
    }
    let bytes = answer.to_vec().unwrap();
    Some(if bytes.len() <= most { bytes } else { answer.truncate().to_vec().unwrap() })
}
