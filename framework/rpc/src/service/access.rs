//! Who decides who may call which of a router's methods.

use super::Router;
use crate::authorize::{Authorize, UnknownScope};
use crate::config::{Authorizer, ServerConfig};
use std::sync::Arc;

impl Router {
    /// Has this one asked who may call what, for all methods, whenever they are added, but for those that
    /// [`authorize_service`](Self::authorize_service) or [`authorize_method`](Self::authorize_method) has another one for. The
    /// last one that is said counts. A method for which nobody is asked is open to everybody who can connect, and pays nothing
    /// for this.
    ///
    /// It is asked before a call is admitted or anything is spent on it, and says no as `UNAUTHENTICATED` or
    /// `PERMISSION_DENIED`; interceptors and handlers run for those alone who may call. Once anybody is asked for anything,
    /// `greenwave.Meta` and reflection are closed unless somebody is asked for them, by name or as
    /// [`Authorize::covers_meta`] says. gRPC's health stays open unless somebody is asked for it by name.
    ///
    /// In a router that is merged into another it stands for that router's own methods.
    #[must_use]
    pub fn authorize(mut self, authorizer: impl Authorize + 'static) -> Self {
        self.rules.all(Arc::new(authorizer));
        self
    }

    /// Has this one asked for the methods of a service, `package.Service`, in place of whoever is asked for all. A server that has
    /// no method of it doesn't start.
    #[must_use]
    pub fn authorize_service(mut self, service: &str, authorizer: impl Authorize + 'static) -> Self {
        self.rules.narrower(service, Arc::new(authorizer));
        self
    }

    /// Has this one asked for a method, `package.Service/Method`, in place of whoever is asked for its service or for all. A server
    /// that has no such method doesn't start.
    #[must_use]
    pub fn authorize_method(mut self, method: &str, authorizer: impl Authorize + 'static) -> Self {
        self.rules.narrower(method, Arc::new(authorizer));
        self
    }

    /// Those who decide who may call what, each once.
    pub(crate) fn authorizers(&self, config: &ServerConfig) -> Vec<Arc<dyn Authorize>> {
        let server = config.authorizer.iter().map(|Authorizer(authorizer)| authorizer);
        let mut all: Vec<_> = server.chain(self.rules.authorizers()).cloned().collect();
        all.sort_by_key(|it| Arc::as_ptr(it).addr());
        all.dedup_by_key(|it| Arc::as_ptr(it).addr());
        all
    }

    /// Has each method know who decides on it, in a server that is set up so.
    pub(super) fn guard(&mut self, config: &ServerConfig) {
        let authorizer = config.authorizer.as_ref().map(|Authorizer(authorizer)| authorizer);
        for method in &mut self.methods {
            method.authorizer = self.rules.of(method.name, authorizer);
        }
    }

    /// Says whether there is something to decide on for all who decide who may call what.
    pub(crate) fn check_rules(&self) -> Result<(), UnknownScope> {
        self.rules.check(&self.names().collect::<Vec<_>>())
    }
}
