//! Where the services keep what they derive from a directory, and what they are given: indices and stores.

use std::path::{Path, PathBuf};

use greenwave_kv::Rows;
use xxhash_rust::xxh3::xxh3_64;

use crate::problem::Problem;

/// The folder for what `service` makes from `source`, below the user's cache: the same one for the same directory.
///
/// # Errors
/// When the user has no home.
pub(crate) fn folder(service: &str, source: &Path) -> Result<PathBuf, Problem> {
    let absolute = std::path::absolute(source).unwrap_or_else(|_| source.to_path_buf());
    let source = absolute.canonicalize().unwrap_or(absolute);
    let name = format!("{service}-{:016x}", xxh3_64(source.as_os_str().as_encoded_bytes()));
    Ok(cache()?.join("greenwave").join(name))
}

/// The folder for a store that is made with these rows, below the user's cache.
///
/// # Errors
/// When the user has no home.
pub(crate) fn store_of(rows: Rows) -> Result<PathBuf, Problem> {
    let Rows { count, value_bytes } = rows;
    Ok(cache()?.join("greenwave").join(format!("kv-{count}x{value_bytes}")))
}

/// The user's folder for what can be made again: `XDG_CACHE_HOME`, or `.cache` at home.
fn cache() -> Result<PathBuf, Problem> {
    let stated = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let nowhere = || Problem::failure("there is no folder for indices").at("neither XDG_CACHE_HOME nor HOME is set");
    stated.or_else(home).ok_or_else(|| nowhere().remedy("name one with --data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_has_a_folder_of_its_own_however_it_is_written() {
        let here = folder("search", Path::new(".")).unwrap();
        assert_eq!(here, folder("search", &std::env::current_dir().unwrap()).unwrap());
        assert_ne!(here, folder("search", Path::new("/")).unwrap());
        assert_ne!(here, folder("recommend", Path::new(".")).unwrap());
    }
}
