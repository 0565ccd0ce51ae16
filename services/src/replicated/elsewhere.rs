//! How a replica says that a command has to go elsewhere, or once more: as a status, which people and clients read.
//!
//! | code | what it means for a command | what a client does |
//! |---|---|---|
//! | `UNAVAILABLE` | this replica doesn't lead; nothing was done | asks the one that does, if it is named, or another one |
//! | `ABORTED` | the lead was lost on the way; it may be applied or not | sends it again, in its session |
//! | `RESOURCE_EXHAUSTED` | too many wait; nothing was done | waits, and sends it again |
//! | `DEADLINE_EXCEEDED` | too late, or it would be | gives up |
//! | `FAILED_PRECONDITION` | its session isn't open | opens another one, if it was never sent before |
//! | `OUT_OF_RANGE` | it was applied, or never will be, and the answer is forgotten | gives up |
//! | `INVALID_ARGUMENT` | it makes no sense | gives up |

use greenwave::{Code, Status};
use greenwave_replica::Place;

/// Goes before the address of a leader, at the end of a status.
const LEADS_AT: &str = " leads, at ";

/// Nothing was done, as this replica doesn't lead.
pub fn not_leader(replica: u64, leader: Option<(u64, &str)>) -> Status {
    Status::new(Code::Unavailable, format!("replica {replica} doesn't lead; {}", who(leader)))
}

/// The lead was lost after a command was proposed.
pub fn uncertain(leader: Option<(u64, &str)>) -> Status {
    let what = "the lead was lost on the way, and the command may be applied or not; send it again in its session";
    Status::new(Code::Aborted, format!("{what}; {}", who(leader)))
}

/// Where the leader is that a status names.
pub fn leader_in(status: &Status) -> Option<Place> {
    let (_, address) = status.message.rsplit_once(LEADS_AT)?;
    address.parse().ok()
}

fn who(leader: Option<(u64, &str)>) -> String {
    match leader {
        Some((leader, address)) => format!("replica {leader}{LEADS_AT}{address}"),
        None => "no leader is known, ask another replica or later".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_the_address_that_a_replica_names() {
        let address: Place = "tcp://127.0.0.1:7402".parse().unwrap();
        let status = not_leader(1, Some((2, "tcp://127.0.0.1:7402")));
        assert_eq!(status.message, "replica 1 doesn't lead; replica 2 leads, at tcp://127.0.0.1:7402");
        assert_eq!(leader_in(&status), Some(address.clone()));
        assert_eq!(leader_in(&uncertain(Some((2, "tcp://127.0.0.1:7402")))), Some(address));
        assert_eq!(leader_in(&not_leader(1, None)), None);
        assert_eq!(leader_in(&not_leader(1, Some((2, "nonsense")))), None);
    }
}
