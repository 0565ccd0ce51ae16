//! What the doctor says of the machine that the tests run on.

use crate::process::run;

#[test]
fn the_doctor_says_a_line_for_each_thing_and_that_a_server_can_run() {
    let said = run(&["doctor"]);
    assert_eq!(said.status.code(), Some(0), "{}", said.err);
    let asked = ["io_uring", "epoll", "libfabric", "tsc", "preemption", "cpu quota", "open files", "kernel"];
    for name in asked.into_iter().chain(["short slices", "ebpf", "flow hooks", "priority bands"]) {
        let lines = said.out.lines().filter(|line| line.get(9..).is_some_and(|rest| rest.starts_with(name)));
        assert_eq!(lines.count(), 1, "{name} in {}", said.out);
    }
    let statuses = ["ok ", "limited ", "missing "];
    assert!(said.out.lines().all(|line| statuses.iter().any(|status| line.starts_with(status))), "{}", said.out);
}

#[test]
fn machines_are_told_the_same_as_people() {
    let said: serde_json::Value = serde_json::from_str(&run(&["doctor", "--json"]).out).unwrap();
    assert_eq!(said["can_serve"], true);
    let findings = said["findings"].as_array().unwrap();
    assert_eq!(findings.len(), run(&["doctor"]).out.lines().count());
    for finding in findings {
        let well = finding["status"] == "ok";
        assert!(finding["name"].is_string() && finding["found"].is_string(), "{finding}");
        assert_eq!((finding["effect"].is_null(), finding["remedy"].is_null()), (well, well), "{finding}");
    }
}

#[test]
fn where_no_server_can_run_the_doctor_says_so_and_fails() {
    // With so few descriptors there is none left for a completion queue.
    let limited = format!("ulimit -n 4; exec {} doctor", env!("CARGO_BIN_EXE_greenwave"));
    let said = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert_eq!(said.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("missing  epoll") && err.starts_with("error: no server can run here"), "{out}{err}");
    let queues = out.lines().filter(|line| line.contains("  io_uring ") || line.contains("  epoll "));
    for line in queues {
        assert!(line.contains("may have 4 files open; raise `ulimit -n`") && !line.contains("Linux 6.0"), "{line}");
    }
}
