//! Batches and windows: the model against its source, what holds for it in any environment, and the controller.

mod any_input;
mod controller;
mod laws;
mod source;
