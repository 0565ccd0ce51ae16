//! The body of a response: the service's, or the text of a refusal.

use crate::context::Context;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context as Task, Poll};

pin_project_lite::pin_project! {
    /// The body of a response that went through one of this crate's layers.
    ///
    /// It is the service's own, byte for byte, or the short text of a refusal. A body that the service makes while it is
    /// sent, a stream of messages for instance, is made in the request's [`Context`], so that calls made for it inherit the
    /// deadline too.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project_lite::pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Served { #[pin] body: B, context: Option<Context> },
        Text { text: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    /// The service's, made in this context if there is one.
    pub(crate) const fn served(body: B, context: Option<Context>) -> Self {
        Self { kind: Kind::Served { body, context } }
    }

    /// The service's, if it isn't the text of a refusal.
    pub const fn inner(&self) -> Option<&B> {
        match &self.kind {
            Kind::Served { body, .. } => Some(body),
            Kind::Text { .. } => None,
        }
    }

    /// A text, or nothing if it is empty.
    pub(crate) fn text(text: String) -> Self {
        Self { kind: Kind::Text { text: (!text.is_empty()).then(|| text.into()) } }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Served { body, context: Some(context) } => context.clone().within(|| body.poll_frame(task)),
            KindProjection::Served { body, context: None } => body.poll_frame(task),
            KindProjection::Text { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Text { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Text { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::served(B::default(), None)
    }
}
