//! The servers: each echoes bytes that nobody looks into, which is less work than protobuf would be, and the same for all.

pub(crate) mod go;
pub(crate) mod greenwave;
pub(crate) mod tonic;

/// Windows that the messages of no case ever fill.
const WINDOW: u32 = 4 << 20;
/// The largest message in few frames.
const FRAME: u32 = 1 << 20;
/// As many streams as any case has in flight.
const STREAMS: u32 = 1024;
