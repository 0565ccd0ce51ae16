//! What is called over HTTP: Connect and gRPC-Web, to whichever server speaks them.
//!
//! The address says all ([`Address`]), a call becomes a [request](request), connections are [kept](connection), and an
//! [answer](answer) is read as it comes. HTTP itself is hyper's. What is held is bounded: a head by 16 KiB, a message by what it may
//! have, a failure's text by 64 KiB; and no call takes longer than its time.

mod address;
mod answer;
mod connection;
mod failure;
mod load;
mod request;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use greenwave::{Check, Code, Reason, Status};
use http::HeaderValue;
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout_at};

pub(crate) use address::{Address, Format, Protocol};
use answer::Answer;
pub(crate) use answer::End;
use connection::Connections;
pub(crate) use load::WebTarget;
pub(crate) use request::{Call, metadata};
pub(crate) use tls::Tls;

use crate::problem::Problem;

/// A server that is called by a thread, one call after the other.
pub(crate) struct Client {
    /// Until it is dropped.
    runtime: Option<Runtime>,
    caller: Arc<Caller>,
}

/// A server that is called by tasks.
struct Caller {
    connections: Connections,
    /// Bytes that a message of an answer may have.
    most: usize,
    /// Who calls, as a header says it.
    authorization: Option<HeaderValue>,
}

/// When a call is given up, of which the server is told; `None`: never.
type Until = Option<Instant>;

impl Client {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// There can be no runtime.
    pub(crate) fn new(address: &Address, tls: Option<Tls>, most: usize) -> Result<Self, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Problem::failure(error).at(address))?;
        let caller = Caller { connections: Connections::new(address.clone(), tls), most, authorization: None };
        Ok(Self { runtime: Some(runtime), caller: Arc::new(caller) })
    }

    /// The same, whose calls say so who makes them. Before the first.
    pub(crate) fn bringing(mut self, authorization: &str) -> Result<Self, Problem> {
        let mut value = HeaderValue::from_str(authorization)
            .map_err(|_| Problem::wrong_use("a token is printable ASCII").at(self.address()))?;
        value.set_sensitive(true);
        if let Some(caller) = Arc::get_mut(&mut self.caller) {
            caller.authorization = Some(value);
        }
        Ok(self)
    }

    /// Where the server is.
    pub(crate) fn address(&self) -> &Address {
        self.caller.connections.address()
    }

    /// Calls, and hands over the messages of the answer as they come. A method whose answer is one message has one of them if it
    /// succeeds. The server is told how much time there is.
    pub(crate) fn call(
        &self,
        call: &Call,
        message: Vec<u8>,
        time: Duration,
        sink: &mut (dyn FnMut(Vec<u8>) + Send),
    ) -> End {
        let Some(runtime) = &self.runtime else { return End::failed(Status::new(Code::Internal, "no runtime")) };
        let until = Instant::now().checked_add(time);
        runtime.block_on(self.caller.call(call, message.into(), until, sink))
    }

    /// The one message of an answer.
    pub(crate) fn ask(&self, call: &Call, message: Vec<u8>, time: Duration) -> Result<Vec<u8>, Status> {
        let mut answer = Vec::new();
        self.call(call, message, time, &mut |message| answer = message).result.map(|()| answer)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A name may still be asked for.
            runtime.shutdown_background();
        }
    }
}

impl Caller {
    async fn call(&self, call: &Call, message: Bytes, until: Until, sink: &mut (dyn FnMut(Vec<u8>) + Send)) -> End {
        let Some(at) = until else { return self.answered(call, &message, None, sink).await };
        if at <= Instant::now() {
            return End::failed(Status::refused(Reason::Expired(Check::Send), ""));
        }
        match timeout_at(at, self.answered(call, &message, Some(at), sink)).await {
            Ok(end) => end,
            Err(_) => End::failed(Status::refused(Reason::Expired(Check::Wait), "")),
        }
    }

    async fn answered(
        &self,
        call: &Call,
        message: &Bytes,
        at: Option<Instant>,
        sink: &mut (dyn FnMut(Vec<u8>) + Send),
    ) -> End {
        let (protocol, most) = (self.connections.address().protocol, self.most);
        let (taken, response) = match self.sent(call, message, at).await {
            Ok(sent) => sent,
            Err(status) => return End::failed(status),
        };
        let mut answer = Answer::begin(response, call, protocol, most);
        let mut messages = 0_usize;
        while let Some(message) = answer.next().await {
            messages += 1;
            if messages > 1 && !call.streams {
                return End::failed(failure::foreign(
                    Code::Internal,
                    "it has more than one message, and the method has one",
                ));
            }
            sink(message);
        }
        let (mut end, reusable) = answer.finish();
        if end.result.is_ok() && messages == 0 && !call.streams {
            end.result = Err(failure::foreign(Code::Internal, "it has no message, and the method has one"));
        }
        if reusable {
            self.connections.give_back(taken);
        }
        end
    }

    /// Sends the call, over another connection if the server has closed one meanwhile.
    async fn sent(
        &self,
        call: &Call,
        message: &Bytes,
        at: Option<Instant>,
    ) -> Result<(connection::Taken, http::Response<hyper::body::Incoming>), Status> {
        loop {
            let mut taken = self.connections.take().await?;
            let left = at.map(|at| at.saturating_duration_since(Instant::now()));
            let mut request = call.request(self.connections.address(), taken.version(), message, left)?;
            if let Some(value) = &self.authorization {
                request.headers_mut().insert(http::header::AUTHORIZATION, value.clone());
            }
            match taken.send(request).await {
                Ok(response) => return Ok((taken, response)),
                // Each time there is one connection less that may have been closed.
                Err(unsent) if unsent.never_left && taken.is_used => self.connections.forget(taken).await,
                Err(unsent) => return Err(unsent.status),
            }
        }
    }
}

/// Whether a text is JSON, of whatever kind.
///
/// # Errors
/// Where it isn't.
pub(crate) fn json(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).map(|_| ())
}
