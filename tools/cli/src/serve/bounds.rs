//! What a server holds for all of its clients together.

use clap::Args;
use greenwave::Bounds;
use serde::{Deserialize, Serialize};

use super::server::with;
use super::values::{ANY, Bound, Count};

/// How many connections there may be, for how long, and how many bytes of messages are held for them.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Bounds")]
pub(super) struct BoundsOptions {
    /// How many connections may be open at once; one more is closed before a byte of it is read [default: 16384]
    #[arg(long, value_name = "N")]
    pub(super) connections: Option<Count<1, ANY>>,
    /// How many of them from one address, so that nobody has them all; behind a proxy all clients have one [default: 8192]
    #[arg(long, value_name = "N")]
    pub(super) connections_each: Option<Count<1, ANY>>,
    /// How many MiB of messages are held for all clients, at least 16; calls beyond are refused with RESOURCE_EXHAUSTED [default: 1024]
    #[arg(long, value_name = "MIB")]
    pub(super) memory_mib: Option<Count<16, MOST_MIB>>,
    /// The same for each connection [default: 256, or as --memory-mib if that is less]
    #[arg(long, value_name = "MIB")]
    pub(super) connection_memory_mib: Option<Count<16, MOST_MIB>>,
    /// How long a connection may have no call before its client is told to connect anew, or off [default: 30m]
    #[arg(long, value_name = "TIME")]
    pub(super) idle: Option<Bound>,
    /// How old a connection may become before the client is told the same, or off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(super) age: Option<Bound>,
}

/// More than a machine has.
const MOST_MIB: u64 = 1 << 30;

impl BoundsOptions {
    /// What these options say, and the defaults.
    pub(super) fn bounds(&self) -> Bounds {
        let mib = |count: Count<16, MOST_MIB>| count.usize() << 20;
        let bounds = with(Bounds::new(), self.connections, |it, most| it.connections(most.usize()));
        let bounds = with(bounds, self.connections_each, |it, most| it.connections_each(most.usize()));
        let bounds = with(bounds, self.memory_mib, |it, count| it.memory(mib(count)));
        // One connection can't have more than all.
        let each = self.connection_memory_mib.or(self.memory_mib.filter(|all| all.usize() < USUAL_EACH_MIB));
        let bounds = with(bounds, each, |it, count| it.connection_memory(mib(count)));
        let bounds = with(bounds, self.idle, |it, Bound(idle)| it.idle(idle.unwrap_or(std::time::Duration::MAX)));
        with(bounds, self.age, |it, Bound(age)| it.age(age.unwrap_or(std::time::Duration::MAX)))
    }
}

/// What each connection may hold, if nobody says so, in MiB.
const USUAL_EACH_MIB: usize = 256;
