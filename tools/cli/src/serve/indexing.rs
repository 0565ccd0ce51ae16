//! How far an index is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use greenwave_services::kept::Outcome;
use greenwave_services::search::index::{Contents, Progress};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows on standard error how a directory is indexed, if it has to be: a bar on a terminal, a line elsewhere.
pub(crate) struct Indexing {
    directory: PathBuf,
    began: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Indexing {
    /// Nothing was read yet.
    pub(crate) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf(), began: Instant::now(), bar: OnceLock::new() }
    }

    /// So many files were read.
    pub(crate) fn show(&self, progress: Progress) {
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::new(progress.of as u64);
            if bar.is_hidden() {
                tell!("indexing {} files below {}", progress.of, self.directory.display());
            }
            let style = ProgressStyle::with_template("{bar:32.green/dim} {pos} of {len} files  {wide_msg} {eta} left");
            bar.set_style(style.expect("the template is fixed and well-formed").progress_chars("━━─"));
            bar.set_message(format!("indexing {}", self.directory.display()));
            bar
        });
        bar.set_position(progress.files as u64);
    }

    /// The index is there.
    pub(super) fn finish(self, contents: &Contents, outcome: Outcome, kept: &Path) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
        let Contents { sections, files, bytes, skipped, beyond, .. } = contents;
        let mib = *bytes as f64 / f64::from(1 << 20);
        let left_out = match (skipped, beyond) {
            (0, 0) => String::new(),
            (skipped, 0) => format!(", {skipped} not readable"),
            (0, beyond) => format!(", {beyond} beyond the limit"),
            (skipped, beyond) => format!(", {skipped} not readable, {beyond} beyond the limit"),
        };
        let shards = sections.len();
        let how = described(outcome, self.began.elapsed());
        tell!("index of {files} files, {mib:.1} MiB in {shards} shards{left_out}: {how} ({})", kept.display());
        for (file, why) in contents.named.iter().take(3) {
            tell!("  not readable: {file}: {why}");
        }
    }
}

/// How derived data came to be what it is.
pub(super) fn described(outcome: Outcome, took: Duration) -> String {
    match outcome {
        Outcome::Reused => "as it was".to_owned(),
        Outcome::Built => format!("made in {took:.1?}"),
        Outcome::RebuiltAfterChange => format!("made anew after a change, in {took:.1?}"),
        Outcome::RebuiltAfterInterruption => format!("made anew after an interruption, in {took:.1?}"),
        Outcome::RebuiltAfterDamage => format!("made anew after damage, in {took:.1?}"),
    }
}
