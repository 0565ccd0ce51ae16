//! How Connect says that a call failed ("Connect protocol", Error codes, Unary-Error).

use greenwave_proto::status::{Code, Status};
use std::fmt::Write as _;

/// The status of HTTP that goes with a code.
pub(crate) fn http_status(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}

/// The code's name, as Connect writes it.
pub(crate) fn name(code: Code) -> &'static str {
    match code {
        Code::Cancelled => "canceled",
        // No handler can succeed by failing.
        Code::Ok | Code::Internal => "internal",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

/// What a failure says to the client: a handler's own words, or what the framework refused the call for.
pub(crate) fn told(status: &Status) -> String {
    if status.reason.as_u8() == 0 { status.message.clone() } else { status.to_string() }
}

/// A failure as JSON.
pub(crate) fn failure(code: Code, text: &str) -> Vec<u8> {
    let mut json = format!("{{\"code\":\"{}\"", name(code));
    if !text.is_empty() {
        json.push_str(",\"message\":\"");
        for character in text.chars() {
            match character {
                '"' | '\\' => json.extend(['\\', character]),
                '\n' => json.push_str("\\n"),
                '\0'..=' ' if character != ' ' => {
                    // To write into memory doesn't fail.
                    let _ = write!(json, "\\u{:04x}", u32::from(character));
                }
                _ => json.push(character),
            }
        }
        json.push('"');
    }
    json.push('}');
    json.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_json_whatever_its_text() {
        let json = |code, text| String::from_utf8(failure(code, text)).unwrap();
        assert_eq!(json(Code::NotFound, ""), r#"{"code":"not_found"}"#);
        let text = "no \"row\"\\\n\u{1} ü 100 %";
        assert_eq!(json(Code::Cancelled, text), r#"{"code":"canceled","message":"no \"row\"\\\n\u0001 ü 100 %"}"#);
        assert!(Code::ALL.iter().all(|code| (http_status(*code) == 200) == (*code == Code::Ok)));
    }
}
