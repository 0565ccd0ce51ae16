//! The server as a process of its own.
//!
//! Protocol: the child prints the address it listens on as one line and serves until it is killed, which the parent
//! does when it drops its handle, or until its standard input ends, which it does when the parent dies.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::{env, io, process, thread};

use anyhow::Context;

use crate::Cores;
use crate::system::System;

/// A server that ends with this handle.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    pub(crate) fn start(cores: Cores, system: System, variant: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(["serve", "--system", system.name(), "--variant", variant])
            .args(["--server-core", &cores.server.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line)).transpose();
        match line.trim().parse() {
            Ok(address) => Ok(Self { child, address }),
            Err(_) => {
                let status = child.wait()?;
                said.context("the server's output can't be read")?;
                anyhow::bail!("the server of {} ended before it listened: {status}", system.name())
            }
        }
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
pub(crate) fn announce(address: SocketAddr) {
    println!("{address}");
}

/// Ends this process when its standard input does.
pub(crate) fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        process::exit(0);
    });
}
