//! The inputs that are kept in git: as few as cover what all of a target's inputs cover.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use super::build::program;
use super::target::Target;
use crate::step::{root, target};

/// What is kept of a target, at most: an input's bytes, inputs, and the bytes of all.
const INPUT_MOST: u64 = 4096;
const SEEDS: usize = 300;
const SEED_BYTES: u64 = 300 << 10;

/// Makes the seeds of some targets anew.
pub(super) fn minimise(targets: &[Target]) -> Result<()> {
    for target in targets {
        minimise_one(target)?;
    }
    Ok(())
}

fn minimise_one(of: &Target) -> Result<()> {
    let merged = target().join("fuzz/merged").join(of.name());
    if merged.exists() {
        fs::remove_dir_all(&merged).with_context(|| format!("can't empty {}", merged.display()))?;
    }
    for folder in [&merged, &of.corpus(), &of.seeds()] {
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    }
    let mut command = Command::new(program(of));
    command.args(["-set_cover_merge=1".to_owned(), format!("-max_len={INPUT_MOST}")]);
    let said = command.arg(&merged).args([of.corpus(), of.seeds()]).current_dir(root()).output();
    let said = said.with_context(|| format!("can't run {}", program(of).display()))?;
    if !said.status.success() {
        bail!("the inputs of {} can't be merged: {}", of.name(), String::from_utf8_lossy(&said.stderr));
    }
    let mut inputs = files(&merged)?;
    // The shortest ones first: they are the best to begin with.
    inputs.sort_by_key(|(bytes, _)| *bytes);
    let mut left = SEED_BYTES;
    inputs.truncate(SEEDS);
    inputs.retain(|(bytes, _)| left.checked_sub(*bytes).map(|less| left = less).is_some());
    // Those with names that say what they are were written by hand, and stay.
    for (_, path) in files(&of.seeds())?.iter().filter(|(_, path)| is_hash(path)) {
        fs::remove_file(path).with_context(|| format!("can't remove {}", path.display()))?;
    }
    let kept = files(&of.seeds())?.len();
    for (_, path) in inputs.iter().take(SEEDS.saturating_sub(kept)) {
        fs::copy(path, of.seeds().join(path.file_name().unwrap_or_default()))?;
    }
    println!("{}: {} seeds", of.name(), files(&of.seeds())?.len());
    Ok(())
}

/// Whether libFuzzer has named a file, by its hash.
fn is_hash(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() == 40 && name.iter().all(u8::is_ascii_hexdigit)
}

fn files(folder: &Path) -> Result<Vec<(u64, std::path::PathBuf)>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        if entry.file_type().is_file() {
            files.push((entry.metadata()?.len(), entry.into_path()));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_by_hand_is_told_from_what_was_found() {
        assert!(is_hash(Path::new("seeds/frame/0a4d55a8d778e5022fab701977c5d840bbc486d0")));
        assert!(!is_hash(Path::new("seeds/frame/hello")) && !is_hash(Path::new("seeds/frame/call-long")));
    }
}
