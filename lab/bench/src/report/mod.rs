//! One self-contained page that shows what a benchmark found.
//!
//! The page needs nothing from outside: no scripts, no fonts, no pictures that aren't in it. It's legible on a phone,
//! on a dark screen and on paper (where all loads are printed one after another). Plots name their lines directly, the
//! colours are those of Okabe and Ito, which people with any colour vision can tell apart, and lines differ in their
//! dashes too.
//!
//! ```no_run
//! use greenwave_bench::measured::Measured;
//! use greenwave_bench::report::{Data, Run, Service, System, page};
//!
//! fn write(fifo: &Measured, edf: &Measured) -> std::io::Result<()> {
//!     let mut data = Data::new("A chain of three stages", "What order of service does to answers that are due.");
//!     data.systems = vec![
//!         System { name: "fifo".into(), about: "in order of arrival".into() },
//!         System { name: "edf".into(), about: "earliest deadline first".into() },
//!     ];
//!     data.services.push(Service {
//!         name: "chain".into(),
//!         about: "profile, history, recommendation".into(),
//!         capacity_per_s: 1200.0,
//!         runs: vec![Run::new("fifo", 0.9, fifo), Run::new("edf", 0.9, edf)],
//!     });
//!     std::fs::write("report.html", page(&data))
//! }
//! ```

mod bars;
mod curve;
mod data;
mod labels;
mod page;
mod panel;
mod plots;
mod scale;
mod sweep;
mod tables;
mod verdict;
mod waterfall;

pub use curve::Curve;
pub use data::{ClassRun, Data, Figures, Kind, Run, Service, StageRun, System};
pub use page::page;
pub use sweep::{MOST_LINES, Point, Sweep, Unit, sweeps};
