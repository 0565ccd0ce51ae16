//! The replica group in virtual time, and what judges it.

mod judge;
mod leases;
mod schedules;
mod sizes;
