//! What the policies promise, as properties of whatever input they are given.

mod absolute;
mod admission;
mod any_input;
mod arithmetic;
mod backoff;
mod balance;
mod begin_limit;
mod credit;
mod d2p;
mod dispatch;
mod flow;
mod forward_delay;
mod guarded;
mod hedge;
mod margin;
mod outlier;
mod pace;
mod pacing;
mod ready_queue;
mod replication;
mod retry;
mod rotation;
mod service_time;
mod split;
mod steal;
mod strategies;
