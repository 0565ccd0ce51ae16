//! The server as a process of its own.
//!
//! Protocol: the child prints the address it listens on as one line, and behind it the authority of its certificate if it
//! has one, and serves until it is killed, which the parent
//! does when it drops its handle, or until its standard input ends, which it does when the parent dies.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::{io, process, thread};

use anyhow::Context;

use crate::pin;

/// A server that ends with this handle.
pub struct ServerProcess {
    child: Child,
    /// Where it listens, as it said.
    pub address: String,
    /// The authority of its certificate, in the PEM format, if it has one.
    pub authority: Option<String>,
}

impl ServerProcess {
    /// Starts `command`, the server of the system that is called `name`, on a core and waits until it listens.
    ///
    /// # Errors
    /// When it can't be started, or ends before it listens.
    pub fn start(mut command: Command, core: usize, name: &str) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pin::spawn(&mut command, core)?;
        let mut line = String::new();
        let said = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line)).transpose();
        match line.trim() {
            "" => {
                let status = child.wait()?;
                said.context("the server's output can't be read")?;
                anyhow::bail!("the server of {name} ended before it listened: {status}")
            }
            address => {
                let (address, authority) = match address.split_once(' ') {
                    Some((address, authority)) => (address, Some(authority.replace('|', "\n"))),
                    None => (address, None),
                };
                Ok(Self { address: address.to_owned(), authority, child })
            }
        }
    }

    /// Where it listens, if that is a socket.
    ///
    /// # Errors
    /// When it isn't.
    pub fn socket(&self) -> anyhow::Result<SocketAddr> {
        self.address.parse().with_context(|| format!("the server says that it listens on {}", self.address))
    }

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It has nothing to finish; should it be gone already, all the better.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints where this process listens, for its parent.
pub fn announce(address: impl Display) {
    println!("{address}");
}

/// [`announce`], with the authority of this process's certificate, in the PEM format.
pub fn announce_with(address: impl Display, authority: &str) {
    println!("{address} {}", authority.replace('\n', "|"));
}

/// Ends this process when its standard input does.
pub fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        process::exit(0);
    });
}
