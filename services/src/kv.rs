//! The kv service: GET, PUT and SCAN on a store of keys and values (`greenwave-kv`).
//!
//! A GET takes about a microsecond and a SCAN of all rows hundreds, so that a GET that has to wait for a SCAN takes
//! hundreds of times as long. Where the server preempts its handlers nothing need be done about that. Where it doesn't,
//! a SCAN passes a checkpoint every so many rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use greenwave::{Code, Context, Server, ServerConfig, ServerHandle, Status};
use greenwave_kv::{Kv, KvConfig, KvError, Rows};

use crate::proto::kv as proto;
use crate::serving::ServeError;

/// How a store is served.
#[derive(Clone, Debug)]
pub struct KvServiceConfig {
    /// The store.
    pub store: KvConfig,
    /// Rows that a SCAN reads between two checkpoints; none if 0.
    pub checkpoint_rows: u32,
    /// The server.
    pub server: ServerConfig,
}

impl KvServiceConfig {
    /// About 20 us of work: a checkpoint costs a hundredth of that.
    pub const CHECKPOINT_ROWS: u32 = 64;
}

/// Serves a store, which is made first if it isn't there.
///
/// # Errors
/// When the store is open elsewhere or was made with other rows, or the server can't start.
pub fn serve_kv(config: KvServiceConfig) -> Result<ServerHandle, ServeError> {
    let KvServiceConfig { store, checkpoint_rows, server } = config;
    let service = Service { kv: Kv::open(&store)?, checkpoint_rows };
    Ok(Server::start(server, proto::KvServer::new(Arc::new(service)))?)
}

struct Service {
    kv: Kv,
    checkpoint_rows: u32,
}

impl proto::Kv for Service {
    fn get(&self, _context: &Context, request: proto::GetRequest) -> Result<proto::GetReply, Status> {
        let Some(value) = self.kv.get(request.key.as_bytes()).map_err(|error| refused(&error))? else {
            return Ok(proto::GetReply::default());
        };
        let text = std::str::from_utf8(&value);
        let text = text.map_err(|_| Status::new(Code::DataLoss, "the value is no text; read it in process"))?;
        Ok(proto::GetReply { found: true, value: text.to_owned() })
    }

    fn put(&self, _context: &Context, request: proto::PutRequest) -> Result<proto::PutReply, Status> {
        self.kv.put(request.key.as_bytes(), request.value.as_bytes()).map_err(|error| refused(&error))?;
        Ok(proto::PutReply {})
    }

    fn scan(&self, context: &Context, request: proto::ScanRequest) -> Result<proto::ScanReply, Status> {
        let mut stopped = Ok(());
        let row = |read: u64| {
            if self.checkpoint_rows > 0 && read.is_multiple_of(self.checkpoint_rows.into()) {
                stopped = context.checkpoint();
            }
            if stopped.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let scanned = self.kv.scan_while(request.prefix.as_bytes(), row).map_err(|error| refused(&error))?;
        stopped.map(|()| proto::ScanReply { rows: scanned.rows, bytes: scanned.bytes, digest: scanned.digest })
    }

    fn describe(&self, _context: &Context, _request: proto::DescribeRequest) -> Result<proto::DescribeReply, Status> {
        let Rows { count, value_bytes } = self.kv.made_with();
        Ok(proto::DescribeReply { rows: count, value_bytes })
    }
}

fn refused(error: &KvError) -> Status {
    let code = match error {
        KvError::Key { .. } | KvError::Value { .. } => Code::InvalidArgument,
        KvError::Locked { .. } | KvError::OtherRows { .. } | KvError::Unknown { .. } | KvError::Engine { .. } => {
            Code::Internal
        }
    };
    Status::new(code, error.to_string())
}
