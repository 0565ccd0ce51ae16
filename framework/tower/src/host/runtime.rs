//! A future that needs a runtime of tokio's around it.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

pin_project_lite::pin_project! {
    /// A future that is polled, and dropped, within a runtime, if one is given.
    pub(super) struct InRuntime<F> {
        runtime: Option<Handle>,
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for InRuntime<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.runtime.as_ref().map(Handle::enter);
            this.future.set(None);
        }
    }
}

impl<F> InRuntime<F> {
    pub(super) const fn new(runtime: Option<Handle>, future: F) -> Self {
        Self { runtime, future: Some(future) }
    }
}

impl<F: Future> Future for InRuntime<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = this.runtime.as_ref().map(Handle::enter);
        this.future.as_pin_mut().map_or(Poll::Pending, |future| future.poll(task))
    }
}
