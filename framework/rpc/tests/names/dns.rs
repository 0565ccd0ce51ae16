//! A DNS server: hickory's, over UDP and TCP, with the zone `test.`, whose records change as it is told.

use greenwave_rpc::{Channel, ChannelConfig};
use hickory_server::Server;
use hickory_server::net::runtime::{Time, TokioRuntimeProvider};
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Header, HeaderCounts, MessageType, Metadata};
use hickory_server::proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
use hickory_server::proto::rr::{LowerName, Name, RData, Record, RecordType, RrKey};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneType};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Runtime;

type Zone = InMemoryZoneHandler<TokioRuntimeProvider>;

pub(crate) struct Dns {
    socket: SocketAddr,
    zone: Arc<Zone>,
    asked: Arc<Asked>,
    runtime: Runtime,
}

/// Queries so far, and whether they are answered.
#[derive(Default)]
struct Asked {
    all: AtomicUsize,
    over_tcp: AtomicUsize,
    silent: AtomicBool,
}

struct Counted {
    catalog: Catalog,
    asked: Arc<Asked>,
}

/// As the trait's macro has it.
impl RequestHandler for Counted {
    fn handle_request<'me, 'request, 'answer, R, T>(
        &'me self,
        request: &'request Request,
        answer: R,
    ) -> Pin<Box<dyn Future<Output = ResponseInfo> + Send + 'answer>>
    where
        R: ResponseHandler + 'answer,
        T: Time + 'answer,
        'me: 'answer,
        'request: 'answer,
        Self: 'answer,
    {
        self.asked.all.fetch_add(1, Ordering::SeqCst);
        if request.protocol() == Protocol::Tcp {
            self.asked.over_tcp.fetch_add(1, Ordering::SeqCst);
        }
        if self.asked.silent.load(Ordering::SeqCst) {
            let metadata = Metadata::new(request.metadata.id, MessageType::Response, request.metadata.op_code);
            let nothing = ResponseInfo::from(Header { metadata, counts: HeaderCounts::default() });
            return Box::pin(std::future::ready(nothing));
        }
        self.catalog.handle_request::<R, T>(request, answer)
    }
}

fn name(text: &str) -> Name {
    Name::from_utf8(format!("{}.", text.trim_end_matches('.'))).unwrap()
}

fn key(of: &str, kind: RecordType) -> RrKey {
    RrKey::new(LowerName::new(&name(of)), kind)
}

impl Dns {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let zone = Zone::empty(name("test"), ZoneType::Primary, AxfrPolicy::Deny);
        let (zone, asked) = (Arc::new(zone), Arc::new(Asked::default()));
        let mut catalog = Catalog::new();
        catalog.upsert(LowerName::new(&name("test")), vec![Arc::clone(&zone) as _]);
        let counted = Counted { catalog, asked: Arc::clone(&asked) };
        let socket = runtime.block_on(async {
            let soa = SOA::new(name("ns.test"), name("admin.test"), 1, 60, 60, 60, 1);
            zone.upsert(Record::from_rdata(name("test"), 60, RData::SOA(soa)), 0).await;
            let (udp, tcp) = loop {
                let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                // The port may be taken for TCP: then another one is tried.
                if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                    break (udp, tcp);
                }
            };
            let socket = udp.local_addr().unwrap();
            let mut server = Server::new(counted);
            server.register_socket(udp);
            server.register_listener(tcp, Duration::from_secs(60), 64);
            tokio::spawn(async move { server.block_until_done().await });
            socket
        });
        Self { socket, zone, asked, runtime }
    }

    /// How many queries came.
    pub(crate) fn queries(&self) -> usize {
        self.asked.all.load(Ordering::SeqCst)
    }

    /// How many of them came over TCP.
    pub(crate) fn queries_over_tcp(&self) -> usize {
        self.asked.over_tcp.load(Ordering::SeqCst)
    }

    /// The records of a kind that a name has from now on, valid for so many seconds.
    fn set(&self, of: &str, kind: RecordType, ttl: u32, data: impl IntoIterator<Item = RData>) {
        self.runtime.block_on(async {
            self.zone.records_mut().await.remove(&key(of, kind));
            for data in data {
                self.zone.upsert(Record::from_rdata(name(of), ttl, data), 0).await;
            }
        });
    }

    /// A name's addresses from now on, valid for so many seconds. A name without any exists, too.
    pub(crate) fn addresses(&self, of: &str, ttl: u32, ips: impl IntoIterator<Item = IpAddr>) {
        let (mut four, mut six) = (Vec::new(), Vec::new());
        ips.into_iter().for_each(|ip| match ip {
            IpAddr::V4(ip) => four.push(RData::A(A(ip))),
            IpAddr::V6(ip) => six.push(RData::AAAA(AAAA(ip))),
        });
        self.set(of, RecordType::TXT, ttl, [RData::TXT(TXT::new(vec!["it exists".into()]))]);
        self.set(of, RecordType::A, ttl, four);
        self.set(of, RecordType::AAAA, ttl, six);
    }

    /// A name's SRV records: priority, port and target of each.
    pub(crate) fn services(&self, of: &str, services: &[(u16, u16, &str)]) {
        let services = services.iter();
        let services = services.map(|(priority, port, target)| RData::SRV(SRV::new(*priority, 1, *port, name(target))));
        self.set(of, RecordType::SRV, 60, services);
    }

    /// From now on a name is another one's.
    pub(crate) fn alias(&self, of: &str, target: &str) {
        self.set(of, RecordType::CNAME, 60, [RData::CNAME(CNAME(name(target)))]);
    }

    /// From now on there are no names.
    pub(crate) fn forget(&self) {
        let zone = key("test", RecordType::SOA);
        self.runtime.block_on(async { self.zone.records_mut().await.retain(|key, _| *key == zone) });
    }

    /// Whether it doesn't answer.
    pub(crate) fn silent(&self, silent: bool) {
        self.asked.silent.store(silent, Ordering::SeqCst);
    }

    /// Where a name leads that is asked of this server.
    pub(crate) fn target(&self, name: &str) -> String {
        format!("dns://{}/{name}", self.socket)
    }

    /// A channel to a name, which is looked up often.
    pub(crate) fn channel(&self, name: &str) -> Channel {
        Channel::to(self.target(name).parse().unwrap(), self.config()).unwrap()
    }

    /// Settings of a channel whose names are asked of this server, often.
    pub(crate) fn config(&self) -> ChannelConfig {
        ChannelConfig::default().dns(self.socket).refresh(Duration::from_millis(5), Duration::from_secs(60))
    }
}
