//! A server that is connected to, and the load that is put on a method of it.

use greenwave_bench::load::{self, Plan};
use greenwave_bench::measured::Measured;
use greenwave_bench::progress::Progress;
use greenwave_bench::rpc::{Patience, RpcTarget};
use greenwave_bench::target::{Rotation, Target};

use super::requests::Requests;
use super::{Bench, kv};
use crate::problem::Problem;
use crate::samples::Mix;
use crate::schema::{self, PATIENCE, Schema};
use crate::server::{Caller, Server};
use crate::web::{self, WebTarget};

/// A server that is connected to, and the method that is called there.
pub(super) struct Reached {
    pub(super) method: String,
    /// What the server calls itself.
    pub(super) stage: String,
    target: Load,
    /// In the server's format.
    requests: Vec<Vec<u8>>,
    /// Whether some of the requests are SCANs.
    scans: bool,
}

/// What a method is called by.
pub(super) enum Load {
    Rpc(RpcTarget),
    Web(WebTarget),
}

impl Load {
    /// Requests of the class with this name call another method.
    #[must_use]
    pub(super) fn calling(self, class: &str, method: &str) -> Self {
        match self {
            Self::Rpc(target) => Self::Rpc(target.calling(class, method)),
            Self::Web(target) => Self::Web(target.calling(class, method)),
        }
    }

    fn target(&mut self) -> &mut dyn Target {
        match self {
            Self::Rpc(target) => target,
            Self::Web(target) => target,
        }
    }
}

impl Reached {
    /// Puts the load on.
    pub(super) fn measure(&mut self, plan: &Plan, progress: &mut Progress) -> Measured {
        let mut requests = Rotation::new(self.requests.clone());
        if self.scans {
            load::run(plan, self.target.target(), &mut Mix(requests), progress)
        } else {
            load::run(plan, self.target.target(), &mut requests, progress)
        }
    }
}

impl Bench {
    /// Finds a server's method and connects to it. Its requests are those that were made before, or those that its own account of
    /// itself makes.
    pub(super) fn reach(&self, server: &Server, requests: &mut Requests) -> Result<Reached, Problem> {
        let caller = server.caller("bench", &self.secured, MESSAGE_MOST)?;
        let schema = Schema::fetch(&caller, &self.described, PATIENCE)?;
        let method = schema.method(&self.method)?;
        if let (Caller::Web(client), (true, _) | (_, true)) = (&caller, method.streams()) {
            let what = format!(
                "{} is a stream of messages, which can't be measured by {}",
                method.name,
                client.address().spoken()
            );
            return Err(Problem::wrong_use(what).at(server).remedy("measure a method of one message and one answer"));
        }
        let requests = requests.of(method.format(caller.format()), &self.source, &method, &caller, self.seed)?;
        let patience = if self.patient { Patience::Observed } else { Patience::Enforced };
        let unreachable = |status| schema::failed(&status, &method.name, server);
        let mut target = match (caller, server) {
            (Caller::Web(client), _) => {
                let call = web::Call::new(&method.name, method.format(client.address().format));
                let target = WebTarget::new(client, call, &schema.server, patience);
                Load::Web(target.map_err(|error| Problem::failure(error).at(server))?)
            }
            (Caller::Channel(channel), Server::Channel(target)) => match target.address() {
                Some(address) => {
                    let config = self.secured.config_to("bench", target)?;
                    let target = RpcTarget::connect(address, &config, &method.name, &schema.server, patience);
                    Load::Rpc(target.map_err(unreachable)?)
                }
                None => {
                    let target = RpcTarget::by(&channel, &method.name, &schema.server, patience);
                    Load::Rpc(target.map_err(unreachable)?)
                }
            },
            (Caller::Channel(_), Server::Web(_)) => {
                return Err(Problem::failure("a channel leads elsewhere").at(server));
            }
        };
        let scans = self.scan_percent.is_some();
        if scans {
            target = kv::scanning(target, &method.name)?;
        }
        Ok(Reached { method: method.name, stage: schema.server, target, requests, scans })
    }
}

/// Bytes that a message of an answer may have.
const MESSAGE_MOST: usize = 16 << 20;
