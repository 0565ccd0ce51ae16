//! Which authorizers stand for which methods.

use super::{Authorize, AuthorizeRequest, Denied, Grant};
use std::sync::Arc;

/// Who is to be asked, by what it stands for.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    all: Option<Arc<dyn Authorize>>,
    /// By the names of methods, and of services, which end with a slash; the last one counts.
    narrower: Vec<(String, Arc<dyn Authorize>)>,
}

/// Somebody is to be asked for methods that there are not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is to be authorized, and no method has this name; write package.Service, or package.Service/Method as it was added \
     (a hosted service is one as a whole)"
)]
pub(crate) struct UnknownScope(String);

/// What tells of the server itself.
const META: [&str; 3] =
    ["greenwave.Meta/", "grpc.reflection.v1.ServerReflection/", "grpc.reflection.v1alpha.ServerReflection/"];

/// What probes ask.
const HEALTH: &str = "grpc.health.v1.Health/";

/// Whether a method tells of the server itself.
pub(crate) fn is_meta(method: &str) -> bool {
    META.iter().any(|service| method.starts_with(service))
}

/// Whether a method takes a right of its own, which who may call all the others hasn't: it tells of the server itself, or is of a
/// service that is called Admin.
pub(crate) fn is_apart(method: &str) -> bool {
    let service = method.split('/').next().unwrap_or_default();
    is_meta(method) || service.rsplit('.').next() == Some("Admin")
}

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_none() && self.narrower.is_empty()
    }

    /// All of them.
    pub(crate) fn authorizers(&self) -> impl Iterator<Item = &Arc<dyn Authorize>> {
        self.all.iter().chain(self.narrower.iter().map(|(_, authorizer)| authorizer))
    }

    /// Has this one asked for all methods that nobody narrower is asked for.
    pub(crate) fn all(&mut self, authorizer: Arc<dyn Authorize>) {
        self.all = Some(authorizer);
    }

    /// Has this one asked for a method, `package.Service/Method`, or the methods of a service, `package.Service`.
    pub(crate) fn narrower(&mut self, scope: &str, authorizer: Arc<dyn Authorize>) {
        let scope = if scope.contains('/') { scope.to_owned() } else { format!("{scope}/") };
        self.narrower.push((scope, authorizer));
    }

    /// What else is said of some methods; `own`: the names of those that `other.all` stands for.
    pub(crate) fn merge<'a>(&mut self, other: Self, own: impl Iterator<Item = &'a str>) {
        if let Some(all) = other.all {
            // Those that it has somebody narrower for come after these, and so count.
            self.narrower.extend(own.map(|name| (name.to_owned(), Arc::clone(&all))));
        }
        self.narrower.extend(other.narrower);
    }

    /// Who is asked for a method, if anybody is. `server`: who is asked for all of the server's, besides.
    pub(crate) fn of(&self, method: &str, server: Option<&Arc<dyn Authorize>>) -> Option<Arc<dyn Authorize>> {
        let for_method = self.narrower.iter().rev().find(|(scope, _)| scope == method);
        let for_service =
            || self.narrower.iter().rev().find(|(scope, _)| scope.ends_with('/') && method.starts_with(&**scope));
        let narrower = for_method.or_else(for_service).map(|(_, authorizer)| Arc::clone(authorizer));
        // Who probes has no credentials, as a rule, and learns nothing but that the server lives.
        if method.starts_with(HEALTH) {
            return narrower;
        }
        // What tells of the server is not in what anybody may call unless that says so.
        let closed = is_meta(method) && narrower.is_none();
        let nobody = || Arc::new(Nobody) as Arc<dyn Authorize>;
        let unless_closed =
            |it: &Arc<dyn Authorize>| if closed && !it.covers_meta() { nobody() } else { Arc::clone(it) };
        let own = narrower.or_else(|| self.all.as_ref().map(unless_closed));
        match (server.map(unless_closed), own) {
            (Some(server), Some(own)) => Some(Arc::new(Both(server, own))),
            (None, None) if closed && !self.is_empty() => Some(nobody()),
            (server, own) => server.or(own),
        }
    }

    /// Says whether each of them stands for some of these methods.
    pub(crate) fn check(&self, names: &[&str]) -> Result<(), UnknownScope> {
        let is_for = |scope: &str, name: &str| name == scope || scope.ends_with('/') && name.starts_with(scope);
        match self.narrower.iter().find(|(scope, _)| !names.iter().any(|name| is_for(scope, name))) {
            None => Ok(()),
            Some((scope, _)) => Err(UnknownScope(scope.trim_end_matches('/').to_owned())),
        }
    }
}

/// Both have to agree.
struct Both(Arc<dyn Authorize>, Arc<dyn Authorize>);

impl Authorize for Both {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        Ok(self.0.authorize(call)?.and(self.1.authorize(call)?))
    }

    fn refresh(&self) {
        self.0.refresh();
        self.1.refresh();
    }
}

/// Nobody was given this right.
struct Nobody;

impl Authorize for Nobody {
    fn authorize(&self, call: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
        Err(Denied::not_allowed(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave_proto::Peer;

    /// Lets everybody pass, under its own name.
    fn named(name: &'static str, covers_meta: bool) -> Arc<dyn Authorize> {
        struct Named(&'static str, bool);
        impl Authorize for Named {
            fn authorize(&self, _: &AuthorizeRequest<'_>) -> Result<Grant, Denied> {
                Ok(Grant::to_subject(self.0))
            }

            fn covers_meta(&self) -> bool {
                self.1
            }
        }
        Arc::new(Named(name, covers_meta))
    }

    /// Who decides on a method; `-`: nobody is asked, `!`: it is refused.
    fn decides(rules: &Rules, method: &str, server: Option<&Arc<dyn Authorize>>) -> String {
        let Some(authorizer) = rules.of(method, server) else { return "-".to_owned() };
        match authorizer.authorize(&AuthorizeRequest::new(&Peer::UNKNOWN, method, &[])) {
            Ok(grant) => grant.subject.unwrap().to_string(),
            Err(_) => "!".to_owned(),
        }
    }

    #[test]
    fn the_narrowest_counts_and_of_those_the_last() {
        let mut rules = Rules::default();
        rules.narrower("a.A/One", named("method", false));
        rules.narrower("a.A", named("old", false));
        rules.narrower("a.A", named("service", false));
        let says = |rules: &Rules| ["a.A/One", "a.A/Two", "a.AB/One"].map(|method| decides(rules, method, None));
        assert_eq!(says(&rules), ["method", "service", "-"]);
        rules.all(named("all", false));
        assert_eq!(says(&rules), ["method", "service", "all"]);
    }

    #[test]
    fn what_tells_of_the_server_takes_a_right_of_its_own_and_health_none() {
        let meta = "greenwave.Meta/Methods";
        let health = "grpc.health.v1.Health/Check";
        let mut rules = Rules::default();
        assert_eq!(decides(&rules, meta, None), "-", "nobody is asked for anything");
        assert_eq!(decides(&rules, meta, Some(&named("server", false))), "!");
        assert_eq!(decides(&rules, meta, Some(&named("server", true))), "server");
        rules.narrower("a.A", named("service", false));
        assert_eq!(decides(&rules, meta, None), "!");
        rules.all(named("all", false));
        assert_eq!(decides(&rules, meta, None), "!");
        rules.narrower("greenwave.Meta", named("operators", false));
        assert_eq!(decides(&rules, meta, None), "operators");
        assert_eq!(decides(&rules, health, Some(&named("server", true))), "-");
        rules.narrower("grpc.health.v1.Health", named("probes", false));
        assert_eq!(decides(&rules, health, None), "probes");
    }

    #[test]
    fn what_administers_takes_a_right_of_its_own() {
        for method in ["greenwave.replicated.Admin/Change", "Admin/Stop", "greenwave.Meta/Methods"] {
            assert!(is_apart(method), "{method}");
        }
        for method in ["shop.Administrators/List", "shop.Admin.Cart/Add", "shop.Cart/Admin", ""] {
            assert!(!is_apart(method), "{method}");
        }
    }

    #[test]
    fn a_routers_rules_stay_its_own_when_it_is_merged_and_the_servers_come_first() {
        let (mut rules, mut other) = (Rules::default(), Rules::default());
        rules.all(named("all", false));
        other.all(named("theirs", false));
        other.narrower("b.B/Two", named("two", false));
        rules.merge(other, ["b.B/One", "b.B/Two"].into_iter());
        let says = ["a.A/One", "b.B/One", "b.B/Two"].map(|method| decides(&rules, method, None));
        assert_eq!(says, ["all", "theirs", "two"]);
        let nobody: Arc<dyn Authorize> = Arc::new(Nobody);
        assert_eq!(decides(&rules, "b.B/One", Some(&nobody)), "!");
        assert_eq!(rules.check(&["b.B/One", "b.B/Two"]), Ok(()));
        assert_eq!(rules.check(&["b.B/One"]), Err(UnknownScope("b.B/Two".to_owned())));
    }
}
