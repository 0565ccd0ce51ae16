//! gRPC's health checks (`grpc.health.v1.Health`), for probes and balancers that ask by them.
//!
//! A server that answers is healthy: one that is stuck doesn't answer in time. So `Check` says SERVING for the server and for
//! each service that it has methods of, and NOT_FOUND for others. `Watch` says so too, and NOT_SERVING when the server drains.

use super::protobuf::text_of;
use crate::promise::{Promise, promise};
use crate::service::Router;
use crate::status::{Code, Status};
use greenwave_quanta::critical;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The full names of the methods.
const CHECK: &str = "grpc.health.v1.Health/Check";
const WATCH: &str = "grpc.health.v1.Health/Watch";

/// `HealthCheckResponse`, with its status: SERVING, NOT_SERVING, SERVICE_UNKNOWN.
const SERVING: [u8; 2] = [1 << 3, 1];
const NOT_SERVING: [u8; 2] = [1 << 3, 2];
const UNKNOWN: [u8; 2] = [1 << 3, 3];

/// Who is to be told when the server drains.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<Watching>>);

#[derive(Default)]
struct Watching {
    is_draining: bool,
    next: u64,
    promises: HashMap<u64, Promise<()>>,
}

/// Somebody who watches, until it is dropped.
pub(super) struct Watcher<'a>(&'a Watchers, u64);

impl Watchers {
    fn change<R>(&self, change: impl FnOnce(&mut Watching) -> R) -> R {
        critical(|| change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The server takes no further calls.
    pub(super) fn drain(&self) {
        let promises = self.change(|watching| {
            watching.is_draining = true;
            std::mem::take(&mut watching.promises)
        });
        promises.into_values().for_each(|promise| promise.keep(()));
    }

    /// Keeps the promise when the server drains.
    pub(super) fn add(&self, promise: Promise<()>) -> Watcher<'_> {
        let (number, at_once) = self.change(|watching| {
            watching.next += 1;
            if watching.is_draining {
                return (watching.next, Some(promise));
            }
            watching.promises.insert(watching.next, promise);
            (watching.next, None)
        });
        if let Some(promise) = at_once {
            promise.keep(());
        }
        Watcher(self, number)
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let _promise = self.0.change(|watching| watching.promises.remove(&self.1));
    }
}

/// Adds the methods, unless there are some of these names.
pub(super) fn with_health(router: Router, watchers: &Watchers) -> Router {
    let has = |name| router.names().any(|own| own == name);
    let (has_check, has_watch) = (has(CHECK), has(WATCH));
    let services = router.names().filter_map(|name| name.split_once('/')).map(|(service, _)| service.to_owned());
    let services: Arc<HashSet<String>> = Arc::new(services.chain([String::new()]).collect());
    let with_check = |router: Router| {
        let services = Arc::clone(&services);
        router.method(CHECK, move |_, request, reply| {
            let service = service_of(request)?;
            if !services.contains(service) {
                return Err(Status::new(Code::NotFound, format!("there is no service {service} here")));
            }
            reply.extend_from_slice(&SERVING);
            Ok(())
        })
    };
    let with_watch = |router: Router| {
        let (services, watchers) = (Arc::clone(&services), watchers.clone());
        router.streaming(WATCH, move |context, incoming, mut outgoing| {
            let request = incoming.only(context)?;
            let is_known = services.contains(service_of(&request)?);
            let (promise, draining) = promise();
            let _watcher = watchers.add(promise);
            outgoing.send(context, if is_known { SERVING } else { UNKNOWN }.to_vec())?;
            draining.wait(context)?;
            if is_known {
                outgoing.send(context, NOT_SERVING.to_vec())?;
            }
            Err(Status::new(Code::Unavailable, "the server shuts down"))
        })
    };
    let router = if has_check { router } else { with_check(router) };
    if has_watch { router } else { with_watch(router) }
}

pub(super) fn service_of(request: &[u8]) -> Result<&str, Status> {
    let wrong = || Status::new(Code::InvalidArgument, "not a grpc.health.v1.HealthCheckRequest");
    text_of(request, 1).ok_or_else(wrong)
}
