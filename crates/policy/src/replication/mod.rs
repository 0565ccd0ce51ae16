//! Batches and windows of a replica group that size themselves.

mod bandwidth;
mod controller;
mod environment;
mod estimate;
mod instance;
mod measure;
mod peer;
mod pilot;
mod predict;
mod recommend;
mod setting;

pub use bandwidth::{Bandwidth, NoBandwidth};
pub use controller::Controller;
pub use environment::{Cpu, Disk, Environment, EnvironmentError, Limit, Network, Sizes};
pub use peer::PeerId;
pub use predict::predict;
pub use recommend::{Curve, recommend};
pub use setting::{Aim, Bottleneck, Load, Prediction, Setting, SettingError, Utilisation};
