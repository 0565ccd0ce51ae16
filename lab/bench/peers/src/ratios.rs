//! What is compared with what.

use clap::ValueEnum as _;
use greenwave_bench::benchmark::Named as _;
use greenwave_bench::ratios;

use crate::case::{Case, FEW_CONNECTIONS, Kind};
use crate::system::System;

/// A ratio of two systems' figures, or of one system's in two cases.
pub(crate) struct Ratio {
    /// As results have it.
    pub(crate) name: String,
    /// The figure.
    pub(crate) of: &'static str,
    /// What it's divided by.
    pub(crate) over: (Case, System),
}

/// All ratios of a system's figures in a case: our own over everybody else's.
pub(crate) fn of(case: Case, system: System) -> Vec<Ratio> {
    let ratio = |name: String, of, over| Ratio { name, of, over };
    let over = |other: System| {
        ["p50_us", "rate_per_s", "best_rate_per_s"].map(|of| ratio(ratios::name(of, &other.name()), of, (case, other)))
    };
    match (case.kind, system) {
        (Kind::Skew, System::GreenwaveStealing) => {
            vec![ratio("stealing_over_none".into(), "rate_per_s", (case, System::Greenwave))]
        }
        (Kind::Connections, System::Greenwave) if case != FEW_CONNECTIONS => {
            vec![ratio("rate_over_connections_16".into(), "rate_per_s", (FEW_CONNECTIONS, system))]
        }
        // There all call over channels, so what differs is the types alone.
        (Kind::Client { .. }, System::GreenwaveTyped) => over(System::Greenwave).into(),
        (Kind::Client { .. }, _) => Vec::new(),
        (_, own) if own.flavour().is_some() => {
            // Of our own the plain one is what others are compared with, and bytes are what types are.
            let counts = |other: &System| match other {
                System::Greenwave => own != *other,
                System::GreenwaveChannel => own == System::GreenwaveTyped,
                other => other.flavour().is_none(),
            };
            System::value_variants().iter().copied().filter(counts).flat_map(over).collect()
        }
        (_, System::GreenwaveGrpc) => ["p50_us", "rate_per_s", "rate_per_server_core"]
            .map(|of| ratio(ratios::name(of, &System::Tonic.name()), of, (case, System::Tonic)))
            .into(),
        _ => Vec::new(),
    }
}
