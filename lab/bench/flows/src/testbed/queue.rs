//! The one link that is slow, and who waits in front of it.
//!
//! Its rate is far below what the machine can forward, so that the queue is what is measured, not the processor. The
//! shaper is HTB, since every distribution's kernel has it; its classes are the bands.

use clap::ValueEnum;

use super::node::{Node, PORT_E, UPLINK};

/// DSCP EF, in its place in the byte that holds it: what the agent tags small flows with unless told otherwise.
pub const SMALL_TOS: u8 = 46 << 2;

/// Where flows meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bottleneck {
    /// The switch's port towards E: flows from several hosts.
    Switch,
    /// Host A's uplink: flows of its guests.
    Host,
}

/// Who is served first at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bands {
    /// In the order of arrival.
    Fifo,
    /// What is tagged as small whenever there is any.
    Strict,
    /// What is tagged as small gets nine tenths at most while others wait, so that it can't starve them.
    Weighted,
    /// `pfifo_fast`, whose three bands go by the priority of packets. That is the host's own, so a switch has to take it
    /// from the tag: `greenwave agent --trust`.
    PfifoFast,
    /// `fq`, whose three bands go by priority too, and are weighted, since Linux 6.7. Within a band flows take turns, new ones first.
    Fq,
    /// `fq_codel` (RFC 8290), which knows nothing of tags: flows take turns, those that have just begun first, and those whose
    /// packets wait for long are told to slow down.
    FqCodel,
    /// `cake`, which does the same by hosts and flows, and is the shaper as well.
    Cake,
}

/// The bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it is.
    pub at: Bottleneck,
    /// How fast it is, in Mbit/s.
    pub mbit: u32,
    /// How many bytes wait in front of it at most, in each band.
    pub queue: u32,
    /// Who is served first.
    pub bands: Bands,
}

impl Link {
    /// 200 Mbit/s, a third of a core to keep it busy. At the switch behind 256 KiB, a port's share of a small switch's
    /// memory: a wait of 10.5 ms when it's full. At the host behind what Linux has there unless told otherwise, a
    /// thousand packets: 60 ms.
    pub fn slow(at: Bottleneck, bands: Bands) -> Self {
        let queue = match at {
            Bottleneck::Switch => 256 << 10,
            Bottleneck::Host => 1000 * 1514,
        };
        Self { at, mbit: 200, queue, bands }
    }

    /// How many bytes it carries in a second.
    pub fn bytes_per_s(&self) -> f64 {
        f64::from(self.mbit) * 1e6 / 8.0
    }

    pub(super) fn interface(&self) -> (Node, &'static str) {
        match self.at {
            Bottleneck::Switch => (Node::Switch, PORT_E),
            Bottleneck::Host => (Node::HostA, UPLINK),
        }
    }

    /// The lines for `tc` that make it so, on an interface without any queue of its own.
    pub(super) fn lines(&self) -> Vec<String> {
        let (_, dev) = self.interface();
        let Self { mbit, queue, .. } = self;
        // Two packets: what HTB sends at once is what a small packet may have to wait for.
        let burst = "burst 3k cburst 3k";
        if self.bands == Bands::Cake {
            return vec![format!(
                "qdisc add dev {dev} root handle 1: cake bandwidth {mbit}mbit besteffort memlimit {queue}"
            )];
        }
        let mut lines = vec![format!("qdisc add dev {dev} root handle 1: htb default 20")];
        let leaf = match self.bands {
            Bands::Fifo => format!("bfifo limit {queue}"),
            Bands::PfifoFast => "pfifo_fast".to_owned(),
            Bands::Fq => format!("fq nopacing limit {}", queue / 1514),
            Bands::FqCodel => format!("fq_codel limit {}", queue / 1514),
            Bands::Strict | Bands::Weighted | Bands::Cake => {
                lines.extend(self.two_bands(dev, burst));
                return lines;
            }
        };
        lines.push(format!("class add dev {dev} parent 1: classid 1:20 htb rate {mbit}mbit {burst} quantum 3000"));
        lines.push(format!("qdisc add dev {dev} parent 1:20 handle 20: {leaf}"));
        lines
    }

    fn two_bands(&self, dev: &str, burst: &str) -> Vec<String> {
        let Self { mbit, queue, .. } = self;
        let share = |class: u32| match (self.bands, class) {
            (Bands::Weighted, 10) => format!("rate {}kbit", mbit * 900),
            (Bands::Weighted, _) => format!("rate {}kbit", mbit * 100),
            // Nothing is guaranteed, all is borrowed, and the first to borrow is the one with the lower number.
            (_, class) => format!("rate 1mbit prio {}", class / 10 - 1),
        };
        let mut lines = vec![format!(
            "class add dev {dev} parent 1: classid 1:1 htb rate {mbit}mbit ceil {mbit}mbit {burst} quantum 3000"
        )];
        for class in [10, 20] {
            let rate = share(class);
            let ceil = format!("ceil {mbit}mbit {burst} quantum 3000");
            lines.push(format!("class add dev {dev} parent 1:1 classid 1:{class} htb {rate} {ceil}"));
            lines.push(format!("qdisc add dev {dev} parent 1:{class} handle {class}: bfifo limit {queue}"));
        }
        let filter = |protocol: &str, number: u32, what: &str| {
            format!("filter add dev {dev} parent 1: protocol {protocol} prio {number} u32 match {what} flowid 1:10")
        };
        lines.push(filter("ip", 1, &format!("ip dsfield {SMALL_TOS:#x} 0xfc")));
        lines.push(filter("arp", 2, "u32 0 0"));
        lines
    }
}

impl Bands {
    /// Whether packets need a priority, their tag not being enough.
    pub fn go_by_priority(self) -> bool {
        matches!(self, Self::PfifoFast | Self::Fq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_bands_guarantee_nothing_and_weighted_ones_all_of_the_link() {
        let lines = |bands| Link::slow(Bottleneck::Switch, bands).lines().join("\n");
        let strict = lines(Bands::Strict);
        assert!(strict.contains("1:10 htb rate 1mbit prio 0 ceil 200mbit"), "{strict}");
        assert!(strict.contains("1:20 htb rate 1mbit prio 1 ceil 200mbit"), "{strict}");
        let weighted = lines(Bands::Weighted);
        assert!(weighted.contains("rate 180000kbit ceil") && weighted.contains("rate 20000kbit ceil"), "{weighted}");
        assert!(strict.contains("ip dsfield 0xb8 0xfc flowid 1:10"), "{strict}");
        assert!(!lines(Bands::Fifo).contains("filter"));
        for (bands, queue) in [(Bands::FqCodel, "fq_codel limit 173"), (Bands::Fq, "fq nopacing limit 173")] {
            let lines = lines(bands);
            assert!(lines.contains("htb rate 200mbit") && lines.contains(queue), "{lines}");
        }
        assert!(lines(Bands::Cake).contains("cake bandwidth 200mbit besteffort memlimit 262144"));
    }
}
