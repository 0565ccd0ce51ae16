//! The replica group in virtual time, and what judges it.

mod judge;
mod schedules;
mod sizes;
