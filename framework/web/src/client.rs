//! What a client reads of an answer: the frames of gRPC-Web and of Connect's streams, trailers, and the codes that stand in them.
//!
//! No I/O, and no HTTP: whoever has a client of HTTP hands over what it brings. What is held is bounded, by the longest message
//! and by [`TRAILERS_MOST`].

mod frames;
mod trailers;

pub use frames::{Flags, Frame, FrameError, Frames, TRAILERS_MOST, framed};
pub use trailers::{Trailers, binary, receipt, unescaped};

use crate::connect;
use greenwave_proto::status::Code;

/// The code of this name, as Connect writes it: `not_found`.
pub fn code_named(name: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| *code != Code::Ok && connect::name(*code) == name)
}

/// The name under which Connect writes a code.
pub fn name_of(code: Code) -> &'static str {
    connect::name(code)
}

/// The code that a status of HTTP stands for where nothing else says it ("Connect protocol", HTTP to Error Code; gRPC's
/// doc/http-grpc-status-mapping.md has the same).
pub fn code_of_http(status: u16) -> Code {
    match status {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_but_ok_is_found_by_its_name() {
        for code in Code::ALL.into_iter().filter(|code| *code != Code::Ok) {
            assert_eq!(code_named(name_of(code)), Some(code));
        }
        assert_eq!(["", "ok", "NOT_FOUND", "cancelled"].map(code_named), [None; 4]);
    }
}
