//! Results as they are kept: what benchmarks have written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a benchmark has written. Rows are looked up by case, system and metric.
#[derive(Deserialize)]
#[serde(from = "Written")]
pub(crate) struct Results {
    pub(crate) commit: String,
    pub(crate) time: String,
    pub(crate) machine: Machine,
    pub(crate) claims: Vec<Claim>,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) variants: Vec<Variant>,
    rows: HashMap<[String; 3], f64>,
    /// The cases and the systems, in their order.
    cases: Vec<String>,
    systems: Vec<String>,
}

#[derive(Deserialize)]
struct Written {
    commit: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    machine: Machine,
    #[serde(default)]
    claims: Vec<Claim>,
    #[serde(default)]
    versions: BTreeMap<String, String>,
    #[serde(default)]
    variants: Vec<Variant>,
    #[serde(default)]
    rows: Vec<AnyRow>,
}

/// Rows of interop say other things, and are shown by the command that writes them.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyRow {
    Figure(Row),
    Other(IgnoredAny),
}

/// The machine, as far as results of one campaign have to agree on it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: Option<String>,
    pub(crate) cores: Option<usize>,
    pub(crate) kernel: Option<String>,
}

impl Machine {
    /// This one.
    pub(crate) fn this() -> Self {
        let said = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = said("/proc/cpuinfo");
        let values = |wanted: &'static str| {
            cpuinfo.lines().filter_map(move |line| line.split_once(':').filter(|(key, _)| key.trim() == wanted))
        };
        let [kernel, release] = ["ostype", "osrelease"].map(|name| said(&format!("/proc/sys/kernel/{name}")));
        Self {
            cpu: values("model name").next().map(|(_, value)| value.trim().to_owned()),
            cores: Some(values("processor").count()),
            kernel: Some(format!("{} {}", kernel.trim(), release.trim())),
        }
    }

    /// Where results of machines of this kind are kept until there are all.
    pub(crate) fn folder(&self) -> String {
        let words = self.kind().to_lowercase();
        let words = words.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    }

    /// What machines are alike by: processor, cores, and the kernel's release, without what whoever built it has added.
    pub(crate) fn kind(&self) -> String {
        let said = |fact: &Option<String>| fact.clone().unwrap_or_default();
        let kernel = said(&self.kernel);
        let release = kernel.split('-').next().unwrap_or_default();
        format!("{} ({} cores, {release})", said(&self.cpu), self.cores.unwrap_or(0))
    }
}

/// What is claimed of a figure, and what that is.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Claim {
    pub(crate) what: String,
    pub(crate) case: String,
    pub(crate) system: String,
    pub(crate) metric: String,
    pub(crate) aim: String,
    pub(crate) measured: Option<f64>,
    pub(crate) holds: Option<bool>,
}

/// Which variant of a system was measured.
#[derive(Deserialize)]
pub(crate) struct Variant {
    pub(crate) case: String,
    pub(crate) system: String,
    pub(crate) variant: String,
}

#[derive(Deserialize)]
struct Row {
    case: String,
    system: String,
    metric: String,
    value: f64,
}

impl From<Written> for Results {
    fn from(written: Written) -> Self {
        let Written { commit, time, machine, claims, versions, variants, rows } = written;
        let figure = |row| match row {
            AnyRow::Figure(row) => Some(row),
            AnyRow::Other(_) => None,
        };
        let rows: Vec<Row> = rows.into_iter().filter_map(figure).collect();
        let (mut cases, mut systems): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for row in &rows {
            for (names, name) in [(&mut cases, &row.case), (&mut systems, &row.system)] {
                // Rows of one mostly stand together.
                if names.last() != Some(name) && !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        let rows = rows.into_iter().map(|row| ([row.case, row.system, row.metric], row.value)).collect();
        Self { commit, time, machine, claims, versions, variants, rows, cases, systems }
    }
}

impl Results {
    /// What a file says.
    ///
    /// # Errors
    /// When it can't be read, or has no results.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} has no results", path.display()))
    }

    /// A figure.
    pub(crate) fn value(&self, case: &str, system: &str, metric: &str) -> Option<f64> {
        self.rows.get(&[case, system, metric].map(str::to_owned)).copied()
    }

    /// The cases of a [pattern](fits).
    pub(crate) fn cases(&self, pattern: &str) -> impl Iterator<Item = &str> {
        self.cases.iter().map(String::as_str).filter(move |case| fits(pattern, case))
    }

    /// Whether there is a figure of the cases of a pattern, by this system and of this metric where these are given.
    pub(crate) fn has(&self, cases: &str, system: Option<&str>, metric: Option<&str>) -> bool {
        let is_one = |wanted: Option<&str>, name: &str| wanted.is_none_or(|wanted| wanted == name);
        self.rows.keys().any(|[case, of, what]| is_one(system, of) && is_one(metric, what) && fits(cases, case))
    }

    /// The systems.
    pub(crate) fn systems(&self) -> impl Iterator<Item = &str> {
        self.systems.iter().map(String::as_str)
    }
}

/// Whether a case is one of a pattern's, whose parts, between slashes, are `*` for whatever, or names with `|` between them.
fn fits(pattern: &str, case: &str) -> bool {
    let is_one = |(part, name): (&str, &str)| part == "*" || part.split('|').any(|one| one == name);
    pattern.split('/').count() == case.split('/').count() && pattern.split('/').zip(case.split('/')).all(is_one)
}

/// All results that are kept, by the names of their files.
pub(crate) struct Kept(BTreeMap<String, Results>);

impl Kept {
    /// Reads all of a folder.
    ///
    /// # Errors
    /// When one can't be read.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut kept = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))? {
            let path = entry?.path();
            if let (Some(name), Some("json")) =
                (path.file_stem().and_then(|name| name.to_str()), path.extension().and_then(|it| it.to_str()))
            {
                kept.insert(name.to_owned(), Results::read(&path)?);
            }
        }
        Ok(Self(kept))
    }

    #[cfg(test)]
    pub(crate) fn of(name: &str, json: &str) -> Self {
        Self(BTreeMap::from([(name.to_owned(), serde_json::from_str(json).unwrap())]))
    }

    pub(crate) fn file(&self, name: &str) -> Option<&Results> {
        self.0.get(name)
    }

    /// In what results don't belong together: they are of several codes (by `code` of their commits) or machines, of files
    /// that no commit has, or don't say when they were made (which those of interop needn't, as they hold nothing that
    /// depends on it).
    pub(crate) fn discord(&self, code: impl Fn(&str) -> String) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut several = |what: &str, of: &dyn Fn(&Results) -> String| {
            let all: BTreeSet<String> = self.0.values().map(of).collect();
            if all.len() > 1 {
                wrong.push(format!(
                    "results are of {} {what}: {}",
                    all.len(),
                    all.into_iter().collect::<Vec<_>>().join(", ")
                ));
            }
        };
        several("codes", &|results| code(&results.commit));
        several("kinds of machines", &|results| results.machine.kind());
        for (name, results) in &self.0 {
            if results.commit.len() < 7 || !results.commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                wrong.push(format!("{name}.json is of no commit: {}", results.commit));
            }
            if results.time.is_empty() && name != "interop" {
                wrong.push(format!("{name}.json doesn't say when it was measured"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"commit":"0123456789ab","time":"2026-01-01T00:00:00Z","rows":[
        {"case":"chain/load-0.9","system":"fifo","metric":"p50_ms","value":1.5},
        {"case":"unit/load-0.9","system":"fifo","metric":"p50_ms","value":2.5}]}"#;

    #[test]
    fn rows_are_found_and_cases_by_their_pattern() {
        let results: Results = serde_json::from_str(TWO).unwrap();
        assert_eq!(results.value("chain/load-0.9", "fifo", "p50_ms"), Some(1.5));
        assert_eq!(results.value("chain/load-0.9", "edf", "p50_ms"), None);
        assert_eq!(results.cases("*/load-0.9").count(), 2);
        assert_eq!(results.cases("unit|put/*").collect::<Vec<_>>(), ["unit/load-0.9"]);
        assert_eq!(results.cases("*").count(), 0);
    }

    #[test]
    fn machines_are_alike_whoever_built_their_kernels() {
        let of = |kernel: &str, cores| {
            Machine { cpu: Some("CPU".to_owned()), cores: Some(cores), kernel: Some(kernel.to_owned()) }.kind()
        };
        assert_eq!(of("Linux 6.18.44-fc-v509", 2), "CPU (2 cores, Linux 6.18.44)");
        assert_eq!(of("Linux 6.18.44-fc-v509", 2), of("Linux 6.18.44-fc-v669", 2));
        assert_ne!(of("Linux 6.18.44", 2), of("Linux 6.18.45", 2));
        assert_ne!(of("Linux 6.18.44", 2), of("Linux 6.18.44", 1));
        let this = Machine::this();
        assert!(this.cores.is_some_and(|cores| cores > 0) && this.kind().contains("Linux"), "{}", this.kind());
    }

    #[test]
    fn results_of_several_codes_do_not_belong_together() {
        let mut kept = Kept::of("one", TWO);
        assert!(kept.discord(str::to_owned).is_empty());
        let other = TWO.replace("0123456789ab", "0123456789ac-dirty").replace("2026-01-01T00:00:00Z", "");
        kept.0.insert("two".to_owned(), serde_json::from_str(&other).unwrap());
        let wrong = kept.discord(str::to_owned);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("results are of 2 codes: ") && wrong[1].contains("-dirty"), "{wrong:?}");
    }
}
