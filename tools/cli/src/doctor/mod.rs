//! `greenwave doctor`: what this machine offers, and what is lost without each.
//!
//! What is looked at is files of `/proc` and `/sys`, completion queues that are opened and closed again, and a thread that
//! is given a slice and ends. Nothing is changed. A file that is missing, unreadable or odd makes its line say so, and no other.

mod finding;
mod host;
mod limits;
mod machine;
mod processor;
mod queues;

use clap::Args;

use crate::problem::Problem;
use finding::Finding;
use machine::Machine;

/// Say what this machine offers, what is lost without each, and what to do about it
#[derive(Args)]
#[command(after_help = "\
A line for each: ok, limited or missing; what was found; what that costs; the remedy.
Ends with 0 if a server can run here, and with 1 if it can't.

Examples:
  greenwave doctor
  greenwave doctor --json | jq '.findings[] | select(.status != \"ok\")'")]
pub(crate) struct Doctor {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Problem> {
        let opened = queues::Opened::here();
        let findings = examine(&Machine::here(), &opened, &greenwave_host::boost::offered());
        if self.json {
            show!("{}", serde_json::json!({ "can_serve": opened.any(), "findings": findings }));
        } else {
            findings.iter().for_each(|finding| show!("{finding}"));
        }
        if opened.any() {
            return Ok(());
        }
        Err(Problem::failure("no server can run here: neither io_uring nor epoll can be had")
            .remedy("see the remedies of both above"))
    }
}

fn examine(machine: &Machine, opened: &queues::Opened, slices: &host::Slices) -> Vec<Finding> {
    let mut findings = queues::findings(machine, opened);
    findings.extend(processor::findings(machine));
    findings.extend(limits::findings(machine));
    findings.extend(host::findings(machine, slices));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use finding::Status;
    use greenwave_host::boost::Error;

    /// What is found on a machine where nothing can be had.
    fn examine_files(root: &std::path::Path) -> Vec<Finding> {
        let refused = Err(Error::Unsupported { found: "none".into() });
        examine(&Machine::at(root), &queues::Opened::default(), &refused)
    }

    #[test]
    fn a_machine_without_any_file_is_described_all_the_same() {
        let empty = tempfile::tempdir().unwrap();
        let findings = examine_files(empty.path());
        let named = |name: &str| findings.iter().find(|finding| finding.name == name).unwrap();
        assert_eq!(named("epoll").status, Status::Missing);
        assert!(findings.len() > 15 && findings.iter().all(|finding| finding.to_string().lines().count() == 1));
        for finding in findings.iter().filter(|finding| finding.status != Status::Ok) {
            assert!(finding.effect.is_some() && finding.remedy.is_some(), "{finding}");
        }
    }

    #[test]
    fn whatever_is_in_the_files_each_finding_is_one_line() {
        let numbers = "99999999999999999999 -1";
        for odd in
            ["", "\n\n", "\0\u{fffd}", numbers, "max\nmax", "4-1,x-,-", "flags:", "[", "Max open files", "a b c d e"]
        {
            let root = tempfile::tempdir().unwrap();
            for path in machine::READ {
                let path = root.path().join(path.trim_start_matches('/'));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, odd).unwrap();
            }
            for finding in examine_files(root.path()) {
                assert_eq!(finding.to_string().lines().count(), 1, "{finding}");
            }
        }
    }
}
