//! Machine code by the hash of what it was made from.

use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use xxhash_rust::xxh3::Xxh3;

/// A folder of objects. Several linkers may use it at once.
pub(crate) struct Cache {
    folder: PathBuf,
    /// What goes into every hash: the options, and which program this is.
    salt: String,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf, salt: String) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        Ok(Self { folder, salt })
    }

    /// What `make` made, or has made before, from these bytes.
    pub(crate) fn get(&self, bytes: &[u8], make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let mut hash = Xxh3::new();
        hash.update(&(self.salt.len() as u64).to_le_bytes());
        hash.update(self.salt.as_bytes());
        hash.update(bytes);
        let path = self.folder.join(format!("{:032x}.o", hash.digest128()));
        if let Ok(known) = fs::read(&path) {
            return Ok(known);
        }
        let made = make()?;
        // Whole or not at all: a linker that is killed, or another one, must not find half of it.
        let cannot = || format!("can't write {}", path.display());
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).with_context(cannot)?;
        file.write_all(&made).with_context(cannot)?;
        file.persist(&path).with_context(cannot)?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_worked_on_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |salt: &str| Cache::new(folder.path().join("objects"), salt.to_owned()).unwrap();
        assert_eq!(cache("a").get(b"code", || Ok(vec![1])).unwrap(), [1]);
        assert_eq!(cache("a").get(b"code", || panic!("it is known")).unwrap(), [1]);
        assert_eq!(cache("b").get(b"code", || Ok(vec![2])).unwrap(), [2], "other options");
        assert_eq!(cache("a").get(b"other", || Ok(vec![3])).unwrap(), [3]);
        assert!(cache("a").get(b"broken", || anyhow::bail!("no")).is_err());
        assert_eq!(cache("a").get(b"broken", || Ok(vec![4])).unwrap(), [4], "a failure is not kept");
    }
}
