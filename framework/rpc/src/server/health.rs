//! gRPC's health checks (`grpc.health.v1.Health`), for probes and balancers that ask by them.
//!
//! A server that answers is healthy: one that drains tells its clients to go, and one that is stuck doesn't answer in time. So
//! `Check` says SERVING for the server and for each service that it has methods of, and NOT_FOUND for others.

use crate::service::Router;
use crate::status::{Code, Status};
use std::collections::HashSet;

/// The full name of the method.
const CHECK: &str = "grpc.health.v1.Health/Check";

/// `HealthCheckResponse { status: SERVING }`.
const SERVING: [u8; 2] = [1 << 3, 1];

/// Adds the method, unless there is one.
pub(super) fn with_health(router: Router) -> Router {
    if router.names().any(|name| name == CHECK) {
        return router;
    }
    let mut services: HashSet<String> =
        router.names().filter_map(|name| name.split_once('/')).map(|(service, _)| service.to_owned()).collect();
    services.insert(String::new());
    router.method(CHECK, move |_, request, reply| {
        let wrong = || Status::new(Code::InvalidArgument, "not a grpc.health.v1.HealthCheckRequest");
        let service = service_of(request).ok_or_else(wrong)?;
        if !services.contains(service) {
            return Err(Status::new(Code::NotFound, format!("there is no service {service} here")));
        }
        reply.extend_from_slice(&SERVING);
        Ok(())
    })
}

/// The string in field 1, the last if there are several; other fields are for later versions.
fn service_of(mut message: &[u8]) -> Option<&str> {
    let mut service = "";
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let len = match key & 7 {
            0 => {
                varint(&mut message)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, rest) = message.split_at_checked(len)?;
        message = rest;
        if key == 1 << 3 | 2 {
            service = std::str::from_utf8(value).ok()?;
        }
    }
    Some(service)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_found_among_fields_of_any_kind_and_nonsense_is_none() {
        assert_eq!(service_of(&[]), Some(""));
        assert_eq!(service_of(b"\x0a\x03a.A"), Some("a.A"));
        assert_eq!(service_of(b"\x10\x96\x01\x0a\x01x\x0a\x03a.A\x1a\x00\x25abcd\x29abcdefgh"), Some("a.A"));
        let nonsense: [&[u8]; 6] = [b"\x0a", b"\x0a\x03a", b"\x0a\x01\xff", b"\x0b", b"\x80", &[0xff; 12]];
        assert!(nonsense.iter().all(|bytes| service_of(bytes).is_none()));
    }
}
