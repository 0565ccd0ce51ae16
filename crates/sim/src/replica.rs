//! A replica group in virtual time.
//!
//! [`history`]: what clients asked and were answered, and whether one machine could have answered so.

pub mod history;
