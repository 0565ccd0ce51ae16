//! Connections of HTTP, which are kept: over HTTP/1.1 one for each call that is under way, over HTTP/2 one for all.

use std::error::Error as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use greenwave::{Code, Reason, Status};
use http::Response;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::address::{Address, Version};
use super::request::Sent;
use super::tls::Tls;

/// Bytes of an answer's head beyond which it is refused; over HTTP/1.1 it may have 100 headers.
pub(super) const HEAD_MOST: u32 = 16 << 10;

type Body = Full<Bytes>;

/// The connections to a server.
pub(super) struct Connections {
    address: Address,
    tls: Option<Tls>,
    /// Those of HTTP/1.1 on which nothing is under way.
    idle: Mutex<Vec<http1::SendRequest<Body>>>,
    /// That of HTTP/2. Who makes it is waited for.
    shared: tokio::sync::Mutex<Option<http2::SendRequest<Body>>>,
    /// What the server speaks, once that is known.
    version: OnceLock<Version>,
}

/// A connection on which a request may be sent.
pub(super) struct Taken {
    sender: Sender,
    /// Whether it has carried a call before, so that the server may have closed it meanwhile.
    pub(super) is_used: bool,
}

enum Sender {
    One(http1::SendRequest<Body>),
    Many(http2::SendRequest<Body>),
}

/// A request that wasn't answered.
pub(super) struct Unsent {
    pub(super) status: Status,
    /// Whether the server has seen none of it.
    pub(super) never_left: bool,
}

impl Connections {
    pub(super) fn new(address: Address, tls: Option<Tls>) -> Self {
        let version = address.version.map_or_else(OnceLock::new, OnceLock::from);
        Self { address, tls, idle: Mutex::default(), shared: tokio::sync::Mutex::default(), version }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// A connection on which nothing is under way, or that carries many calls; a new one if there is none.
    pub(super) async fn take(&self) -> Result<Taken, Status> {
        if self.version.get() == Some(&Version::Http1) {
            return self.take_one().await;
        }
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Taken { sender: Sender::Many(sender.clone()), is_used: true });
        }
        // Meanwhile somebody may have found out.
        if self.version.get() == Some(&Version::Http1) {
            drop(shared);
            return self.take_one().await;
        }
        let sender = self.connect().await?;
        if let Sender::Many(sender) = &sender {
            *shared = Some(sender.clone());
        }
        Ok(Taken { sender, is_used: false })
    }

    async fn take_one(&self) -> Result<Taken, Status> {
        loop {
            let Some(mut sender) = self.idle().pop() else { break };
            if sender.ready().await.is_ok() {
                return Ok(Taken { sender: Sender::One(sender), is_used: true });
            }
        }
        Ok(Taken { sender: self.connect().await?, is_used: false })
    }

    /// A call on this connection is over, to its last byte.
    pub(super) fn give_back(&self, taken: Taken) {
        match taken.sender {
            Sender::One(sender) if !sender.is_closed() => self.idle().push(sender),
            _ => {}
        }
    }

    /// A connection is of no use.
    pub(super) async fn forget(&self, taken: Taken) {
        if let Sender::Many(_) = taken.sender {
            *self.shared.lock().await = None;
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<http1::SendRequest<Body>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Sender, Status> {
        let Address { host, port, version, .. } = &self.address;
        let unreachable = |error: std::io::Error| Status::refused(Reason::Unreachable, error.to_string());
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        match &self.tls {
            None => self.begin(stream, version.unwrap_or(Version::Http1)).await,
            #[cfg(feature = "tls")]
            Some(tls) => {
                let (stream, agreed) = tls.secure(stream, *version).await?;
                self.begin(stream, agreed).await
            }
            #[cfg(not(feature = "tls"))]
            Some(none) => match *none {},
        }
    }

    async fn begin<T>(&self, stream: T, version: Version) -> Result<Sender, Status>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
        TokioIo<T>: Read + Write,
    {
        let _known_already = self.version.set(version);
        let stream = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_header_size(HEAD_MOST as usize);
                let (sender, connection) = builder.handshake(stream).await.map_err(|error| broken(&error))?;
                // Who sends a request on it is told how it ended.
                tokio::spawn(async { drop(connection.await) });
                Ok(Sender::One(sender))
            }
            Version::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_header_list_size(HEAD_MOST);
                let (sender, connection) = builder.handshake(stream).await.map_err(|error| broken(&error))?;
                tokio::spawn(async { drop(connection.await) });
                Ok(Sender::Many(sender))
            }
        }
    }
}

impl Taken {
    pub(super) fn version(&self) -> Version {
        match self.sender {
            Sender::One(_) => Version::Http1,
            Sender::Many(_) => Version::Http2,
        }
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn send(&mut self, request: Sent) -> Result<Response<Incoming>, Unsent> {
        let answered = match &mut self.sender {
            Sender::One(sender) => sender.try_send_request(request).await,
            Sender::Many(sender) => sender.try_send_request(request).await,
        };
        answered.map_err(|mut error: TrySendError<Sent>| {
            let never_left = error.take_message().is_some();
            Unsent { status: broken(error.error()), never_left }
        })
    }
}

/// What a failure of a connection means for its calls.
pub(super) fn broken(error: &hyper::Error) -> Status {
    let told = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    if error.is_parse() {
        return Status::new(Code::Unknown, format!("the answer can't be understood: {told}"));
    }
    Status::refused(Reason::ConnectionLost, told)
}
