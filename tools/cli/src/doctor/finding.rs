//! One line of what the doctor says.

use std::fmt;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// It is there, and not as it should be.
    Limited,
    Missing,
}

/// What was found of one thing, what that costs and what to do about it.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) status: Status,
    pub(super) found: String,
    pub(super) effect: Option<&'static str>,
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), effect: None, remedy: None }
    }

    pub(super) fn limited(
        name: &'static str,
        found: impl Into<String>,
        effect: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status: Status::Limited, effect: Some(effect), remedy: Some(remedy.into()), ..Self::ok(name, found) }
    }

    pub(super) fn missing(
        name: &'static str,
        found: impl Into<String>,
        effect: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status: Status::Missing, ..Self::limited(name, found, effect, remedy) }
    }

    /// Nothing can be said, because a file isn't there or isn't what it should be.
    pub(super) fn unknown(name: &'static str, path: &str, effect: &'static str) -> Self {
        let remedy = format!("look why {path} can't be read; in a container it may be hidden");
        Self::limited(name, "not known", effect, remedy)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Limited => "limited",
            Status::Missing => "missing",
        };
        let parts = [Some(self.found.as_str()), self.effect, self.remedy.as_deref()];
        let said = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        // What was found may come from a file, and one finding is one line.
        let said: String = said.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        write!(f, "{status:<8} {:<18} {}", self.name, said.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_of_status_name_found_effect_and_remedy() {
        let finding = Finding::limited("quota", "half\na core", "it stands still", "raise it");
        assert_eq!(finding.to_string(), "limited  quota              half a core; it stands still; raise it");
        assert_eq!(Finding::ok("epoll", "works").to_string(), "ok       epoll              works");
    }
}
