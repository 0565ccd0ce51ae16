//! What the command says when something is wrong: one line, `error: what; where; remedy`.

use std::fmt;
use std::process::ExitCode;

/// Why the command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Problem {
    fault: Fault,
    what: String,
    place: Option<String>,
    remedy: Option<String>,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The command line or a file of settings can't be meant.
    WrongUse,
    /// Anything else.
    Failure,
}

impl Problem {
    /// The command was asked for something that can't be meant.
    pub(crate) fn wrong_use(what: impl fmt::Display) -> Self {
        Self { fault: Fault::WrongUse, what: what.to_string(), place: None, remedy: None }
    }

    /// The command was asked for something that it couldn't do.
    pub(crate) fn failure(what: impl fmt::Display) -> Self {
        Self { fault: Fault::Failure, ..Self::wrong_use(what) }
    }

    /// Where it went wrong.
    #[must_use]
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { place: Some(place.to_string()), ..self }
    }

    /// What can be done about it.
    #[must_use]
    pub(crate) fn remedy(self, remedy: impl fmt::Display) -> Self {
        Self { remedy: Some(remedy.to_string()), ..self }
    }

    /// 2 for wrong use, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.fault {
            Fault::WrongUse => 2,
            Fault::Failure => 1,
        })
    }
}

impl From<clap::Error> for Problem {
    fn from(error: clap::Error) -> Self {
        Self::wrong_use(in_a_line(&error)).remedy("see --help")
    }
}

/// What clap has to say, without the usage: a line is read, a page is not.
pub(crate) fn in_a_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<_> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.join(" ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

/// What, where and remedy, as far as they are known.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [Some(&self.what), self.place.as_ref(), self.remedy.as_ref()];
        let parts: Vec<_> =
            parts.into_iter().flatten().map(|part| part.lines().collect::<Vec<_>>().join(" ")).collect();
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_of_what_where_and_remedy() {
        let problem = Problem::failure("it broke\nin two").at("tcp://127.0.0.1:1").remedy("mend it");
        assert_eq!(problem.to_string(), "it broke in two; tcp://127.0.0.1:1; mend it");
        assert_eq!(Problem::failure("it broke").to_string(), "it broke");
    }

    #[test]
    fn what_clap_says_becomes_a_line_without_the_usage() {
        let command = clap::Command::new("x").arg(clap::Arg::new("mode").long("mode").value_parser(["on", "off"]));
        let problem = Problem::from(command.try_get_matches_from(["x", "--mode", "maybe"]).unwrap_err());
        assert_eq!(
            problem.to_string(),
            "invalid value 'maybe' for '--mode <mode>' [possible values: on, off]; see --help"
        );
        assert_eq!(problem.exit_code(), ExitCode::from(2));
    }
}
