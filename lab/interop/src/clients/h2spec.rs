//! h2spec: conformance to HTTP/2 and HPACK, all of its cases, the strict ones too.
//!
//! Each section of the standards is a feature, and so is each case that fails.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Client, Outcome};
use crate::at::At;
use crate::program;
use crate::tools::{self, Found, Tool};

/// 147 cases, each of which may wait for 2 s.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) const CLIENT: Client = Client {
    name: "h2spec",
    tool: Ok(Tool::Go {
        name: "h2spec",
        package: "github.com/summerwind/h2spec/cmd/h2spec",
        version: "v2.2.1+incompatible",
        on_path: true,
    }),
    features: &[],
    is_secured: false,
    run,
};

fn run(found: &Found, at: &At, _: &[&'static str]) -> Vec<Outcome> {
    let report = tools::folder().join("h2spec.xml");
    // There need not be one.
    let _ = fs::remove_file(&report);
    let mut h2spec = Command::new(&found.path);
    h2spec.args(["--strict", "--host", &at.socket.ip().to_string(), "--port", &at.socket.port().to_string()]);
    // The path of a method that there is: what is asked for by GET is no gRPC all the same.
    h2spec.args(["--path", "/grpc.testing.TestService/EmptyCall", "--junit-report"]).arg(&report);
    let ended = program::run(&mut h2spec, PATIENCE);
    match fs::read_to_string(&report) {
        Ok(text) => outcomes(&text),
        Err(_) => vec![("all".to_owned(), Err(ended.why()))],
    }
}

/// What a report in JUnit's XML says: a section that passes, or the cases of it that don't.
fn outcomes(report: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for suite in report.split("<testsuite ").skip(1) {
        let section = attribute(suite, "package").unwrap_or_default();
        let cases: Vec<&str> = suite.split("<testcase ").skip(1).collect();
        let failed: Vec<&&str> = cases.iter().filter(|case| !passes(case)).collect();
        if failed.is_empty() && !cases.is_empty() {
            outcomes.push((format!("{section} ({} cases)", cases.len()), Ok(())));
        }
        for case in failed {
            let name = format!("{section}: {}", attribute(case, "classname").unwrap_or_default());
            outcomes.push((name, Err(text(case))));
        }
    }
    if outcomes.is_empty() { vec![("all".to_owned(), Err("the report has no cases".to_owned()))] } else { outcomes }
}

fn passes(case: &str) -> bool {
    !["<failure", "<error", "<skipped"].iter().any(|mark| case.contains(mark))
}

fn attribute(element: &str, name: &str) -> Option<String> {
    let (_, rest) = element.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| plain(value))
}

/// What is said in an element, in one line.
fn text(element: &str) -> String {
    let said = element.split('>').map(|part| part.split('<').next().unwrap_or_default());
    let words: Vec<String> = said.skip(1).map(|part| plain(part.trim())).filter(|part| !part.is_empty()).collect();
    program::shortened(&words.join(" ").replace('\n', "; "))
}

fn plain(text: &str) -> String {
    let marks = [("&#xA;", "; "), ("&#39;", "'"), ("&#34;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    marks.iter().fold(text.to_owned(), |text, (mark, is)| text.replace(mark, is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_sections_that_pass_and_cases_that_do_not() {
        let report = r#"<testsuites><testsuite name="4.1. Frames" package="http2/4.1" id="4.1" tests="2">
            <testcase package="http2/4.1" classname="Sends one" time="0.1"></testcase>
            <testcase package="http2/4.1" classname="Sends &lt;two&gt;" time="0.1"><failure>GOAWAY&#xA;timeout</failure>
            </testcase></testsuite>
            <testsuite name="4.2. Sizes" package="http2/4.2"><testcase classname="x" time="0"></testcase></testsuite>"#;
        let failed = ("http2/4.1: Sends <two>".to_owned(), Err("GOAWAY; timeout".to_owned()));
        assert_eq!(outcomes(report), [failed, ("http2/4.2 (1 cases)".to_owned(), Ok(()))]);
        assert!(outcomes("").iter().all(|(_, outcome)| outcome.is_err()));
    }
}
