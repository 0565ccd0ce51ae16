//! What clients saw: counted, written to a file, and put to the test, part by part, so that nothing of it has to be kept.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::checker::{Checker, Found};
use crate::history::{Call, Count};
use crate::load::Shared;

/// How long it may take to find out whether a part of a key's calls has an order.
const SEARCH: Duration = Duration::from_secs(20);

/// A run's calls so far.
pub(crate) struct Record {
    folder: PathBuf,
    history: BufWriter<File>,
    checker: Checker,
    count: Count,
    /// Keys for whose calls there is no order.
    violated: Vec<String>,
}

impl Record {
    /// Of a run whose files go to a folder.
    ///
    /// # Errors
    /// When a file can't be made there.
    pub(crate) fn new(folder: &Path) -> anyhow::Result<Self> {
        let path = history(folder);
        let history = BufWriter::new(File::create(&path).with_context(|| format!("can't write {}", path.display()))?);
        let (checker, count) = (Checker::default(), Count::default());
        Ok(Self { folder: folder.to_owned(), history, checker, count, violated: Vec::new() })
    }

    /// Takes the calls since the last time, of which none is open. Calls of keys that have no order go to a file.
    ///
    /// # Errors
    /// When files can't be written.
    pub(crate) fn take(&mut self, shared: &Shared, file: &str) -> anyhow::Result<()> {
        let calls = shared.take_calls();
        for call in &calls {
            self.count.add(&call.outcome);
            serde_json::to_writer(&mut self.history, call)?;
            self.history.write_all(b"\n")?;
        }
        self.history.flush()?;
        let mut keys = Vec::new();
        for violation in self.checker.take(&calls, SEARCH) {
            shared.find(format!(
                "{} is not linearizable: no order explains more than the first {} answers to its {} calls",
                violation.key, violation.explained, violation.calls
            ));
            keys.push(violation.key);
        }
        self.write_calls(&keys, file)?;
        self.violated.extend(keys);
        Ok(())
    }

    /// Takes the rest, and writes all calls of the keys that have no order.
    ///
    /// # Errors
    /// When files can't be written.
    pub(crate) fn end(&mut self, shared: &Shared) -> anyhow::Result<()> {
        const ALL: &str = "violated.txt";
        self.take(shared, ALL)?;
        self.write_calls(&self.violated, ALL)
    }

    /// How many calls came to what.
    pub(crate) fn count(&self) -> Count {
        self.count
    }

    /// How many keys have an order.
    pub(crate) fn keys(&self) -> Found {
        self.checker.found()
    }

    /// Writes what was asked of some keys, and answered, if there are any.
    fn write_calls(&self, keys: &[String], file: &str) -> anyhow::Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let path = self.folder.join(file);
        let mut file = BufWriter::new(File::create(&path).with_context(|| format!("can't write {}", path.display()))?);
        for line in BufReader::new(File::open(history(&self.folder))?).lines() {
            let line = line?;
            // Most calls are of other keys.
            if keys.iter().any(|key| line.contains(key)) {
                let call: Call = serde_json::from_str(&line)?;
                if keys.iter().any(|key| call.ask.concerns(key)) {
                    writeln!(file, "{call}")?;
                }
            }
        }
        Ok(file.flush()?)
    }
}

fn history(folder: &Path) -> PathBuf {
    folder.join("history.jsonl")
}
