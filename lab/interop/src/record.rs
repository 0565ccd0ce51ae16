//! What was found: in a table, in `bench/interop.json` of the target folder, and in docs/interop.md.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use greenwave_bench::machine::{self, Machine};
use greenwave_bench::result::{bench_folder, write};
use greenwave_bench::table::{MISSING, Table};
use serde::{Deserialize, Serialize};

use crate::features::FEATURES;

/// What a run of the matrix found. Like the results of benchmarks, but what rows say is text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    bench: String,
    commit: String,
    machine: Machine,
    clients: Vec<Version>,
    #[serde(rename = "rows")]
    pub(crate) entries: Vec<Entry>,
}

/// Who called whom, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Column {
    /// A client of others called our server.
    #[default]
    Client,
    /// The same over TLS.
    ClientSecured,
    /// Our client called a server of others.
    Server,
    /// The same over TLS.
    ServerSecured,
}

impl Column {
    const ALL: [Self; 4] = [Self::Client, Self::Server, Self::ClientSecured, Self::ServerSecured];

    /// What is above its table.
    fn title(self) -> &'static str {
        match self {
            Self::Client => "Clients of others at our server",
            Self::Server => "Our client at servers of others",
            Self::ClientSecured => "Clients of others at our server, over TLS",
            Self::ServerSecured => "Our client at servers of others, over TLS",
        }
    }
}

/// Which version of a client or a server it was, or why it wasn't there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Version {
    client: String,
    #[serde(default)]
    column: Column,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// What came of a feature with a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    case: String,
    system: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub(crate) enum Outcome {
    Ok,
    /// It fails, and nobody knew.
    Fails {
        why: String,
    },
    /// It fails, as is known.
    Known {
        why: String,
        known: String,
    },
    /// It's said to fail, and doesn't.
    WorksAgain,
}

impl Outcome {
    fn shown(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fails { .. } => "FAILS",
            Self::Known { .. } => "not yet",
            Self::WorksAgain => "ok (!)",
        }
    }

    fn is_expected(&self) -> bool {
        matches!(self, Self::Ok | Self::Known { .. })
    }
}

impl Record {
    pub(crate) fn new() -> Self {
        let (commit, machine) = (machine::commit(), Machine::this());
        Self { bench: "interop".to_owned(), commit, machine, clients: Vec::new(), entries: Vec::new() }
    }

    pub(crate) fn version(&mut self, client: &str, column: Column, version: &str) {
        let (client, version) = (client.to_owned(), Some(version.to_owned()));
        self.clients.push(Version { client, column, version, missing: None });
    }

    pub(crate) fn missing(&mut self, client: &str, column: Column, why: &str) {
        let (client, missing) = (client.to_owned(), Some(why.to_owned()));
        self.clients.push(Version { client, column, version: None, missing });
    }

    pub(crate) fn add(&mut self, client: &str, feature: &str, outcome: Outcome) {
        self.entries.push(Entry { case: feature.to_owned(), system: client.to_owned(), outcome });
    }

    /// What ended otherwise than expected.
    pub(crate) fn unexpected(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.outcome.is_expected())
    }

    /// A line for each feature, a column for each client or server; a table for each kind of those.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let of = |column| {
            let columns = self.columns(column);
            let mut table = Table::new(["feature"].into_iter().chain(columns.iter().copied()));
            self.rows(&columns).into_iter().for_each(|row| table.row(row));
            (!columns.is_empty()).then_some(table)
        };
        Column::ALL.into_iter().filter_map(of).collect()
    }

    /// What can't be read off the table: versions, what is missing, why things fail.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Version { client, version, missing, .. } in &self.clients {
            let told = match (version, missing) {
                (_, Some(why)) => format!("not available: {why}"),
                (version, None) => format!("{}{}", version.as_deref().unwrap_or_default(), self.tally(client)),
            };
            lines.push(format!("{client}: {told}"));
        }
        for Entry { case, system, outcome } in &self.entries {
            match outcome {
                Outcome::Ok => {}
                Outcome::Fails { why } => lines.push(format!("{system}, {case} fails: {why}")),
                Outcome::Known { why, known } => lines.push(format!("{system}, {case}: {known} ({why})")),
                Outcome::WorksAgain => {
                    lines.push(format!(
                        "{system}, {case} works: it is to be taken from the list of what is known to fail"
                    ));
                }
            }
        }
        lines
    }

    /// How many cases a client has of its own that pass.
    fn tally(&self, client: &str) -> String {
        let own = self.entries.iter().filter(|entry| entry.system == client && !is_shared(&entry.case));
        let (passed, failed): (Vec<&Entry>, Vec<&Entry>) = own.partition(|entry| entry.outcome == Outcome::Ok);
        match (passed.len(), failed.len()) {
            (0, 0) => String::new(),
            (passed, failed) => format!("; {passed} sections pass, {failed} cases fail"),
        }
    }

    fn columns(&self, column: Column) -> Vec<&str> {
        let has_shared = |client: &&str| self.entries.iter().any(|it| it.system == *client && is_shared(&it.case));
        let all = self.clients.iter().filter(|it| it.column == column).map(|it| it.client.as_str());
        all.filter(has_shared).collect()
    }

    fn rows(&self, columns: &[&str]) -> Vec<Vec<String>> {
        let cell = |feature: &str, client: &str| {
            let entry = self.entries.iter().find(|entry| entry.system == client && entry.case == feature);
            entry.map_or(MISSING, |entry| entry.outcome.shown()).to_owned()
        };
        let row = |(feature, _): (&str, &str)| {
            let cells = columns.iter().map(|client| cell(feature, client));
            [feature.to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
        };
        FEATURES.into_iter().map(row).filter(|row| row[1..].iter().any(|cell| cell != MISSING)).collect()
    }

    /// Writes `bench/interop.json` in the target folder.
    pub(crate) fn write(&self) -> anyhow::Result<PathBuf> {
        let path = bench_folder().join("interop.json");
        write(&path, &self.text()?)?;
        Ok(path)
    }

    /// JSON with a line for each client and each row, as results have it.
    fn text(&self) -> serde_json::Result<String> {
        let Self { bench, commit, machine, clients, entries } = self;
        let fields = [
            ("bench", serde_json::to_string(bench)?),
            ("commit", serde_json::to_string(commit)?),
            ("machine", serde_json::to_string(machine)?),
            ("clients", lines(clients)?),
            ("rows", lines(entries)?),
        ];
        let fields = fields.map(|(name, value)| format!("  \"{name}\": {value}"));
        Ok(format!("{{\n{}\n}}\n", fields.join(",\n")))
    }

    /// The tables of docs/interop.md.
    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("Found at {} on {}.\n\n", self.commit, self.machine.describe());
        text += "| client, or server | version |\n|---|---|\n";
        for Version { client, version, missing, .. } in &self.clients {
            let told = match missing {
                Some(why) => format!("not available: {why}"),
                None => format!("{}{}", version.as_deref().unwrap_or_default(), self.tally(client)),
            };
            text += &line(&[client.clone(), escaped(&told)]);
        }
        for column in Column::ALL {
            let columns = self.columns(column);
            if columns.is_empty() {
                continue;
            }
            text += &format!("\n## {}\n\n| feature | | {} |\n|---|---|", column.title(), columns.join(" | "));
            text += &format!("{}\n", "---|".repeat(columns.len()));
            for row in self.rows(&columns) {
                let what = FEATURES.into_iter().find(|(name, _)| *name == row[0]).map_or("", |(_, what)| what);
                let mut cells = vec![row[0].clone(), what.to_owned()];
                cells.extend(row[1..].iter().cloned());
                text += &line(&cells);
            }
        }
        let mut told =
            "\n## What fails\n\n| client, or server | feature or case | fails because | as it was seen |\n|---|---|---|---|\n".to_owned();
        let head = told.len();
        for Entry { case, system, outcome } in &self.entries {
            match outcome {
                Outcome::Ok | Outcome::WorksAgain => {}
                Outcome::Fails { why } => told += &line(&[system.clone(), escaped(case), "?".into(), escaped(why)]),
                Outcome::Known { why, known } => {
                    told += &line(&[system.clone(), escaped(case), escaped(known), escaped(why)]);
                }
            }
        }
        if told.len() > head { text + &told } else { text + "\nNothing fails.\n" }
    }
}

/// Whether several clients may try it.
fn is_shared(case: &str) -> bool {
    FEATURES.iter().any(|(name, _)| *name == case)
}

fn lines(items: &[impl Serialize]) -> serde_json::Result<String> {
    let items = items.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[\n    {}\n  ]", items.join(",\n    ")))
}

/// A port says nothing, and differs from run to run.
fn escaped(text: &str) -> String {
    let mut words = text.replace('|', "\\|").replace(['<', '>'], "'");
    while let Some(at) = words.find("127.0.0.1:") {
        let digits = words[at + 10..].chars().take_while(char::is_ascii_digit).count();
        words.replace_range(at..at + 10 + digits, "the server");
    }
    words
}

const BEGIN: &str = "<!-- written by `cargo xtask interop document` -->\n";
const END: &str = "<!-- end -->";

/// Writes the tables of docs/interop.md anew.
pub(crate) fn document() -> anyhow::Result<()> {
    let docs = docs();
    let (page, result) = (docs.join("interop.md"), docs.join("results/interop.json"));
    let text = fs::read_to_string(&page).with_context(|| format!("can't read {}", page.display()))?;
    let found = read(&result)?;
    fs::write(&page, replaced(&text, &found.markdown()).context("docs/interop.md has no place for tables")?)?;
    println!("wrote {}", page.display());
    Ok(())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(path: &Path) -> anyhow::Result<Record> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no record", path.display()))
}

/// A page with these tables in the place of those that it has.
fn replaced(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{tables}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut record = Record::new();
        record.version("one", Column::Client, "1.0");
        record.missing("two", Column::Client, "install it");
        record.version("to-three", Column::ServerSecured, "3.0");
        record.add("to-three", "large_unary", Outcome::Ok);
        record.add("one", "empty_unary", Outcome::Ok);
        record.add("one", "ping_pong", Outcome::Known { why: "UNIMPLEMENTED".into(), known: "no streams".into() });
        record.add("one", "http2/5.1: Sends | x", Outcome::Fails { why: "127.0.0.1:123 is gone".into() });
        record
    }

    #[test]
    fn a_record_survives_json_with_a_line_for_each_row() {
        let record = record();
        let text = record.text().expect("plain data");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("as written"), record);
        assert!(text.contains(r#"{"case":"empty_unary","system":"one","outcome":"ok"}"#), "{text}");
    }

    #[test]
    fn only_what_nobody_knew_is_unexpected() {
        let mut record = record();
        assert_eq!(record.unexpected().map(|it| it.case.as_str()).collect::<Vec<_>>(), ["http2/5.1: Sends | x"]);
        record.add("one", "empty_stream", Outcome::WorksAgain);
        assert_eq!(record.unexpected().count(), 2);
    }

    #[test]
    fn a_page_has_the_tables_in_their_place() {
        let page = replaced(&format!("a\n{BEGIN}old\n{END}\nb"), &record().markdown()).expect("there is a place");
        assert!(page.contains("| empty_unary | a call without a payload | ok |"), "{page}");
        assert!(page.contains("over TLS\n\n| feature | | to-three |"), "{page}");
        assert!(page.contains("| large_unary | 270 KB there, 310 KB back | ok |"), "{page}");
        assert!(page.contains("| two | not available: install it |"), "{page}");
        assert!(page.contains(r"| one | http2/5.1: Sends \| x | ? | the server is gone |"), "{page}");
        assert!(page.starts_with("a\n") && page.ends_with("\nb") && !page.contains("old"));
        assert_eq!(replaced("no place", ""), None);
    }

    #[test]
    fn the_page_in_the_repository_says_what_the_result_does() {
        let page = fs::read_to_string(docs().join("interop.md")).expect("there is a page");
        let found = read(&docs().join("results/interop.json")).expect("there is a result");
        let remedy = "write it anew: cargo xtask interop document";
        assert_eq!(replaced(&page, &found.markdown()).expect("it has a place"), page, "{remedy}");
    }
}
