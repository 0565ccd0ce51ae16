//! The methods that every server has, about itself.
//!
//! - `greenwave.Meta/Methods`: the names of its methods, one a line, after its own name.
//! - `greenwave.Meta/Descriptors`: a protobuf `FileDescriptorSet`, if the services were made from .proto files.
//! - `greenwave.Meta/Counters`: names and values, one pair a line.
//! - `greenwave.Meta/Recorded`: what calls took, method by method, since somebody began to ask for it ([`recording`]); TOML.
//!
//! [`recording`]: super::recording

use super::recording::Recording;
use crate::counters::Counters;
use crate::service::Router;
use std::fmt::Write as _;
use std::sync::Arc;

/// The full name of the method that lists methods.
pub(crate) const METHODS: &str = "greenwave.Meta/Methods";
/// The full name of the method that gives descriptors.
pub(crate) const DESCRIPTORS: &str = "greenwave.Meta/Descriptors";
/// The full name of the method that gives counters.
pub(crate) const COUNTERS: &str = "greenwave.Meta/Counters";

/// The full name of the method that tells what calls took.
pub(crate) const RECORDED: &str = "greenwave.Meta/Recorded";

pub(super) fn with_meta(
    router: Router,
    name: &str,
    counters: &Arc<[Arc<Counters>]>,
    recording: &Arc<Recording>,
) -> Router {
    let mut methods = format!("{name}\n");
    methods.extend(router.names().flat_map(|name| [name, "\n"]));
    // Those of services that are added later are the server's own.
    let names: Vec<&'static str> = router.names().collect();
    // Protobuf messages merge when they are concatenated, and descriptor sets are lists of files.
    let descriptors: Vec<u8> = router.descriptor_sets().concat();
    let (counters, recording) = (Arc::clone(counters), Arc::clone(recording));
    router
        .method(METHODS, move |_, _, reply| {
            reply.extend_from_slice(methods.as_bytes());
            Ok(())
        })
        .method(DESCRIPTORS, move |_, _, reply| {
            reply.extend_from_slice(&descriptors);
            Ok(())
        })
        .method(COUNTERS, move |_, _, reply| {
            let mut text = String::new();
            for (name, value) in super::snapshot(&counters).entries() {
                let _writing_to_a_string_never_fails = writeln!(text, "{name} {value}");
            }
            reply.extend_from_slice(text.as_bytes());
            Ok(())
        })
        .method(RECORDED, move |_, _, reply| {
            let text = recording.ask(crate::clock::monotonic(), |method| names.get(method).copied());
            reply.extend_from_slice(text.as_bytes());
            Ok(())
        })
}
