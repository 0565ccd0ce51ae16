//! What those may call whose certificate has some name, found by the name: a list may have thousands.

use super::certificate::{NamePattern, SPIFFE};
use greenwave_proto::Peer;
use std::borrow::Cow;
use std::collections::HashMap;

/// Something for each of many names.
#[derive(Debug)]
pub(super) struct Names<T> {
    uris: HashMap<String, T>,
    /// By what SPIFFE IDs begin with, which ends with a slash.
    within: HashMap<String, T>,
    /// In lower case.
    hosts: HashMap<String, T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { uris: HashMap::new(), within: HashMap::new(), hosts: HashMap::new() }
    }
}

impl<T: Default> Names<T> {
    /// What there is for a name, to be changed; at first it is the type's default.
    pub(super) fn entry(&mut self, name: NamePattern) -> &mut T {
        let (names, name) = match name {
            NamePattern::Uri(uri) => (&mut self.uris, uri),
            NamePattern::Within(prefix) => (&mut self.within, prefix),
            NamePattern::Dns(host) => (&mut self.hosts, host.to_ascii_lowercase()),
        };
        names.entry(name).or_default()
    }
}

impl<T> Names<T> {
    /// What there is for the names of a peer, as [`NamePattern::is_of`] has it.
    pub(super) fn of<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = &'a T> {
        // A SPIFFE ID counts where it is the only URI.
        let id = peer.spiffe_id();
        let exact = id.and_then(|id| self.uris.get(id));
        let above = id.into_iter().flat_map(|id| id.match_indices('/').map(move |(at, _)| &id[..=at]));
        let within = above.filter_map(|prefix| self.within.get(prefix));
        let others = peer.uris().iter().filter(|uri| !uri.starts_with(SPIFFE)).filter_map(|uri| self.uris.get(uri));
        let hosts = peer.dns_names().iter().filter_map(|host| {
            let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
            let host = if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) };
            self.hosts.get(&*host)
        });
        exact.into_iter().chain(within).chain(others).chain(hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["spiffe://[ab]{1,2}(/[ab]{1,2}){1,3}", "https://[ab]{1,2}/", "[abAB]{1,2}\\.[abAB]",]
    }

    fn pattern() -> impl Strategy<Value = String> {
        prop_oneof![name(), "spiffe://[ab]{1,2}(/[ab]{1,2}){0,2}/\\*"]
    }

    proptest! {
        #[test]
        fn what_is_found_by_names_is_what_trying_each_pattern_finds(
            patterns in prop::collection::vec(pattern(), 0..20),
            uris in prop::collection::vec("(spiffe|https)://[ab]{1,2}/([ab]{1,2}/){0,2}[ab]{0,2}", 0..3),
            hosts in prop::collection::vec("[abAB]{1,2}\\.[abAB]", 0..3),
        ) {
            let peer = Peer::UNKNOWN.with_names(uris, hosts);
            let mut names: Names<Vec<usize>> = Names::default();
            let patterns: Vec<NamePattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
            patterns.iter().enumerate().for_each(|(at, pattern)| names.entry(pattern.clone()).push(at));
            let mut found: Vec<usize> = names.of(&peer).flatten().copied().collect();
            found.sort_unstable();
            found.dedup();
            let all = patterns.iter().enumerate();
            let tried: Vec<usize> = all.filter(|(_, pattern)| pattern.is_of(&peer)).map(|(at, _)| at).collect();
            prop_assert_eq!(found, tried);
        }
    }
}
