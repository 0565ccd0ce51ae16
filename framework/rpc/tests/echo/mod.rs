//! Methods that tests call: one that answers at once, and one that never does.

use greenwave_rpc::*;
use std::time::Duration;

pub(crate) const ECHO: MethodId = MethodId::of("test.Echo/Echo");
#[allow(dead_code, reason = "not all tests call it by its id")]
pub(crate) const NEVER: MethodId = MethodId::of("test.Echo/Never");
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Echoes; or answers only once it was cancelled.
pub(crate) fn echo() -> Router {
    Router::new()
        .method("test.Echo/Echo", |_, request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .method("test.Echo/Never", move |context, _, _| {
            while context.checkpoint().is_ok() {}
            context.checkpoint()
        })
}
