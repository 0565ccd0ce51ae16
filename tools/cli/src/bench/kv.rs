//! The mix of a kv service: GETs of rows that it has, and SCANs of all of them.

use std::time::Duration;

use greenwave_bench::classes::Class;
use greenwave_services::proto::kv;
use prost::Message;

use crate::problem::Problem;
use crate::samples::{self, SCAN};
use crate::schema;
use crate::server::Caller;

use super::reached::Load;

const PATIENCE: Duration = Duration::from_secs(5);

/// So many GETs of rows that the store was made with, by its own account.
///
/// # Errors
/// When the server isn't there, or is no kv service.
pub(super) fn gets(caller: &Caller, count: usize, seed: u64) -> Result<Vec<Vec<u8>>, Problem> {
    let request = kv::DescribeRequest {}.encode_to_vec();
    let reply = caller.ask(kv::DESCRIBE, request, PATIENCE);
    let reply = reply.map_err(|status| schema::failed(&status, kv::DESCRIBE, &caller.place()))?;
    let rows = kv::DescribeReply::decode(&*reply).map_err(Problem::failure)?.rows;
    Ok(samples::gets(rows, count, seed))
}

/// The two classes, with SCANs as so many percent of the requests.
pub(super) fn classes(scan_percent: f64, deadline: Duration) -> Result<Vec<Class>, Problem> {
    if !(scan_percent > 0.0 && scan_percent < 100.0) {
        let problem =
            Problem::wrong_use(format!("--scan-percent is {scan_percent}; allowed: more than 0, less than 100"));
        return Err(problem.remedy("call Kv/Get or Kv/Scan alone without it"));
    }
    Ok(vec![Class::new("get", 100.0 - scan_percent, deadline), Class::new(SCAN, scan_percent, deadline)])
}

/// The target, to which SCANs are sent by their own method.
///
/// # Errors
/// When the others wouldn't be GETs.
pub(super) fn scanning(target: Load, method: &str) -> Result<Load, Problem> {
    if method != kv::GET {
        let problem = Problem::wrong_use(format!("--scan-percent mixes SCANs with {}, not with {method}", kv::GET));
        return Err(problem.remedy("bench Kv/Get with --sample kv"));
    }
    Ok(target.calling(SCAN, kv::SCAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_both_kinds() {
        let classes = classes(0.5, PATIENCE).unwrap();
        assert_eq!((classes[0].share, classes[1].share), (99.5, 0.5));
        for percent in [0.0, 100.0, -1.0, f64::NAN] {
            assert!(super::classes(percent, PATIENCE).unwrap_err().to_string().contains("more than 0"));
        }
    }
}
