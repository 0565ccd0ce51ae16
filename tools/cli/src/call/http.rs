//! A call by Connect or gRPC-Web.

use std::time::Instant;

use greenwave::{Code, Status};

use super::{Call, print, tell_metadata};
use crate::problem::Problem;
use crate::schema::{self, Method, Schema};
use crate::server::Server;
use crate::web::{self, Client, Format, Protocol};

impl Call {
    /// Calls, and prints the answer: each message of a stream as it comes.
    pub(super) fn over_http(
        &self,
        client: &Client,
        schema: &Schema,
        method: &Method,
        server: &Server,
    ) -> Result<(), Problem> {
        let format = method.format(client.address().format);
        let (takes, streams) = method.streams();
        if takes {
            let what = format!(
                "{} takes a stream of messages, which {} can't send from here",
                method.name,
                client.address().spoken()
            );
            return Err(Problem::wrong_use(what).at(server).remedy("call a method that takes one message"));
        }
        let metadata = web::metadata(&self.metadata).map_err(Problem::wrong_use)?;
        let call = web::Call { streams, metadata, ..web::Call::new(&method.name, format) };
        let message = method.request(format, &self.json()?)?;
        let mut printed = Ok(());
        let mut unread: Option<Problem> = None;
        let begun = Instant::now();
        let end = client.call(&call, message, self.deadline, &mut |message| match method.reply(format, &message) {
            Ok(text) if printed.is_ok() => printed = print(&text),
            Ok(_) => {}
            Err(problem) => unread = unread.take().or(Some(problem)),
        });
        let total = begun.elapsed();
        if self.show_metadata {
            for (place, entries) in [("before", &end.leading), ("behind", &end.trailing)] {
                entries.iter().for_each(|(name, value)| tell_metadata(place, name, value));
            }
        }
        match end.result {
            Ok(()) => {
                printed?;
                unread.map_or(Ok(()), Err)?;
                self.receipt_of(end.receipt.as_ref(), total, None, &schema.server);
                Ok(())
            }
            Err(status) => {
                self.receipt_of_failure(end.receipt.as_ref(), &schema.server);
                Err(failed(&status, client, streams, &method.name, server))
            }
        }
    }
}

/// A call that failed, with what can be done about it here.
fn failed(status: &Status, client: &Client, streams: bool, method: &str, server: &Server) -> Problem {
    let problem = schema::failed(status, method, server);
    let web::Address { protocol, format, .. } = client.address();
    // A server that doesn't know the kind of message says one of these.
    let streams = streams && matches!(status.code, Code::InvalidArgument | Code::Unimplemented | Code::Unknown);
    match (protocol, streams) {
        // What Greenwave's own servers have of streams.
        (Protocol::Connect, true) => {
            problem.remedy("a server that has no streams by Connect may have them by grpc-web+http://")
        }
        (Protocol::GrpcWeb, true) if *format == Format::Json => {
            problem.remedy("a server that has no streams in JSON may have them in protobuf: grpc-web+http://")
        }
        _ => problem,
    }
}
