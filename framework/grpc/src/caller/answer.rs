//! What headers and trailers say of an answer.

use greenwave_http2::{Field, Fields, Name, Reason as ResetReason};
use greenwave_proto::compression::Encoding;
use greenwave_proto::receipt::Receipt;
use greenwave_proto::status::{Code, Origin, Status};
use greenwave_proto::wire::push_meta;
use greenwave_web::client::{binary, code_of_http, receipt, unescaped};
use std::sync::Arc;

/// Where a Greenwave server says where the time went.
const RECEIPT: &[u8] = b"greenwave-receipt-bin";

/// What came before an answer's messages.
#[derive(Debug)]
pub(super) struct Head {
    /// What was said, as entries on the wire, unless it was passed on.
    pub(super) leading: Option<Arc<[u8]>>,
    /// How messages are compressed that are.
    pub(super) encoding: Option<Encoding>,
}

/// How an answer ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) result: Result<(), Status>,
    pub(super) trailing: Option<Arc<[u8]>>,
    pub(super) receipt: Option<Receipt>,
}

/// Reads the headers behind which messages may come.
pub(super) fn head(fields: Fields<'_>) -> Result<Head, Status> {
    if fields.value(Name::GRPC_STATUS).is_none() {
        check_http(fields)?;
    }
    let named = fields.regular().find(|field| field.name == b"grpc-encoding").map(|field| field.value);
    let named = named.filter(|name| !name.eq_ignore_ascii_case(b"identity"));
    let encoding = named.and_then(Encoding::named);
    if let (Some(name), None) = (named, encoding) {
        let text = format!("it is compressed with `{}`, which was not asked for", String::from_utf8_lossy(name));
        return Err(foreign(Code::Internal, &text));
    }
    Ok(Head { leading: metadata(fields), encoding })
}

/// Whether this is an answer of gRPC's at all ("gRPC over HTTP/2", Responses).
fn check_http(fields: Fields<'_>) -> Result<(), Status> {
    let status = fields.status();
    let code = match status {
        200 => {
            let kind = fields.value(Name::CONTENT_TYPE).unwrap_or_default();
            if is_grpc(kind) {
                return Ok(());
            }
            let text = format!("it is no gRPC: its content-type is `{}`", String::from_utf8_lossy(kind));
            return Err(foreign(Code::Unknown, &text));
        }
        status => code_of_http(status),
    };
    Err(foreign(code, &format!("it has the status {status} of HTTP and none of gRPC")))
}

/// `application/grpc`, with a format of messages or without.
fn is_grpc(value: &[u8]) -> bool {
    let Some((family, rest)) = value.split_at_checked(b"application/grpc".len()) else { return false };
    family.eq_ignore_ascii_case(b"application/grpc") && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

fn foreign(code: Code, text: &str) -> Status {
    failed(code, format!("the answer can't be understood: {text}"))
}

/// What the other side said, or that it said nothing: the handler may have run.
fn failed(code: Code, text: String) -> Status {
    Status::new(code, text).by_handler()
}

/// Reads the headers with which an answer ends; `alone`: they are its first.
pub(super) fn end(fields: Fields<'_>, alone: bool) -> End {
    let receipt = fields.regular().find(|field| field.name == RECEIPT).and_then(|field| receipt(field.value));
    let Some(number) = fields.value(Name::GRPC_STATUS) else {
        let wrong = if alone { check_http(fields) } else { Ok(()) };
        let none = failed(Code::Unknown, "the answer ends without a status of gRPC".to_owned());
        return End { result: Err(wrong.err().unwrap_or(none)), trailing: metadata(fields), receipt };
    };
    let code = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).and_then(Code::from_u8);
    let message = fields.value(Name::GRPC_MESSAGE).map(unescaped).unwrap_or_default();
    let result = match code {
        Some(Code::Ok) => Ok(()),
        Some(code) => Err(failed(code, message)),
        None => {
            let number = String::from_utf8_lossy(number);
            Err(failed(Code::Unknown, format!("gRPC knows no status {number}: {message}")))
        }
    };
    End { result, trailing: metadata(fields), receipt }
}

/// An answer that ends without trailers.
pub(super) fn cut() -> Status {
    failed(Code::Internal, "the answer ends without trailers".to_owned())
}

/// A stream that the server has reset ("gRPC over HTTP/2", Errors).
pub(super) fn reset(reason: ResetReason) -> Status {
    let code = match reason {
        ResetReason::CANCEL => Code::Cancelled,
        ResetReason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        ResetReason::INADEQUATE_SECURITY => Code::PermissionDenied,
        ResetReason(code) if code <= 13 => Code::Internal,
        _ => Code::Unknown,
    };
    failed(code, format!("the server gave the call up: {reason}"))
}

/// What was said that is neither gRPC's nor HTTP's own business, as entries on the wire. What doesn't fit there is left out.
fn metadata(fields: Fields<'_>) -> Option<Arc<[u8]>> {
    let mut entries = Vec::new();
    for Field { id, name, value } in fields.regular() {
        let is_own = matches!(id, Name::CONTENT_TYPE | Name::GRPC_STATUS | Name::GRPC_MESSAGE | Name::CONTENT_LENGTH);
        // Not all of gRPC's names are: when to ask again is the caller's to know.
        let is_own = is_own || matches!(name, b"grpc-encoding" | b"grpc-accept-encoding" | RECEIPT);
        let Some(name) = std::str::from_utf8(name).ok().filter(|_| !is_own) else { continue };
        let _too_long = match name.ends_with("-bin") {
            false => push_meta(&mut entries, name, value),
            true => value.split(|byte| *byte == b',').try_for_each(|one| match binary(one) {
                Some(decoded) => push_meta(&mut entries, name, &decoded),
                None => Ok(()),
            }),
        };
    }
    (!entries.is_empty()).then(|| entries.into())
}

/// A message that is too much, or of which there is none.
pub(super) fn wrong_count(what: &str) -> Status {
    let status = failed(Code::Internal, format!("the answer has {what}, and the method has one"));
    debug_assert_eq!(status.origin, Origin::Handler);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_are_codes_as_grpc_has_it() {
        let code = |reason| reset(reason).code;
        assert_eq!(code(ResetReason::CANCEL), Code::Cancelled);
        assert_eq!(code(ResetReason::NO_ERROR), Code::Internal);
        assert_eq!(code(ResetReason::ENHANCE_YOUR_CALM), Code::ResourceExhausted);
        assert_eq!(code(ResetReason(999)), Code::Unknown);
    }
}
