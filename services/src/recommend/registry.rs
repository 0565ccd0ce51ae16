//! The crates of a directory, from their `Cargo.toml` files.
//!
//! A directory with a manifest that describes a package is a crate, and isn't looked into any further. What can't be
//! read or understood is counted and named, never fatal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use thiserror::Error;
use toml::{Table, Value};
use walkdir::WalkDir;
use xxhash_rust::xxh3::Xxh3;

/// A crate as its manifest describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its keywords.
    pub keywords: Vec<String>,
    /// Its categories.
    pub categories: Vec<String>,
    /// What it depends on, on any platform.
    pub dependencies: Vec<Dependency>,
    /// Its features, each with what it turns on.
    pub features: BTreeMap<String, Vec<String>>,
}

/// A dependency of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// What the crate calls it.
    pub alias: String,
    /// The name of the crate it is.
    pub name: String,
    /// What it is needed for.
    pub kind: Need,
    /// Whether a feature has to turn it on.
    pub optional: bool,
    /// The features of it that are on.
    pub features: Vec<String>,
}

/// What a dependency is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// For the crate itself.
    Use,
    /// For its build script.
    Build,
    /// For its tests and benchmarks.
    Tests,
}

/// The crates of a directory.
#[derive(Debug)]
pub struct Registry {
    /// The crates, by name and version.
    pub crates: Vec<Crate>,
    /// The manifests that were of no use, with the reasons.
    pub skipped: Vec<(PathBuf, ManifestError)>,
}

/// The manifests of a directory, found but not read yet.
#[derive(Debug)]
pub struct Manifests {
    root: PathBuf,
    paths: Vec<PathBuf>,
}

impl Manifests {
    /// Finds the manifests below `root`: the outermost ones.
    ///
    /// # Errors
    /// When the root isn't a directory or has no manifest.
    pub fn find(root: &Path) -> Result<Self, RegistryError> {
        if !root.is_dir() {
            return Err(RegistryError::NotADirectory { root: root.to_path_buf() });
        }
        let mut paths = Vec::new();
        let mut walk = WalkDir::new(root).max_depth(DEPTH).sort_by_file_name().into_iter();
        while let Some(entry) = walk.next() {
            // A directory that can't be listed holds no crates that could be read.
            let Ok(entry) = entry else { continue };
            let manifest = entry.path().join("Cargo.toml");
            if entry.file_type().is_dir() && manifest.is_file() {
                paths.push(manifest);
                walk.skip_current_dir();
            }
        }
        if paths.is_empty() {
            return Err(RegistryError::Empty { root: root.to_path_buf() });
        }
        Ok(Self { root: root.to_path_buf(), paths })
    }

    /// A hash over the names, sizes and times of change of the manifests.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        for path in &self.paths {
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            hash.update(name.as_os_str().as_encoded_bytes());
            hash.update(&[0]);
            if let Ok(metadata) = fs::metadata(path) {
                let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                hash.update(&metadata.len().to_le_bytes());
                hash.update(&modified.unwrap_or_default().as_nanos().to_le_bytes());
            }
        }
        hash.digest()
    }

    /// Reads them.
    ///
    /// # Errors
    /// When not one of them describes a crate.
    pub fn read(&self) -> Result<Registry, RegistryError> {
        let mut crates = Vec::new();
        let mut skipped = Vec::new();
        for path in &self.paths {
            let text = fs::read_to_string(path).map_err(|error| ManifestError::Unreadable(error.kind()));
            match text.and_then(|text| Crate::parse(&text)) {
                Ok(found) => crates.push(found),
                Err(why) => skipped.push((path.strip_prefix(&self.root).unwrap_or(path).to_path_buf(), why)),
            }
        }
        if crates.is_empty() {
            return Err(RegistryError::NoCrates { root: self.root.clone(), skipped: skipped.len() });
        }
        crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        crates.dedup_by(|a, b| (&a.name, &a.version) == (&b.name, &b.version));
        Ok(Registry { crates, skipped })
    }
}

/// How deep below the root a crate may lie: a registry, its index, the crate.
const DEPTH: usize = 4;

impl Crate {
    /// Understands the text of a manifest; what it inherits from a workspace counts as not said.
    ///
    /// # Errors
    /// When it isn't TOML, or describes no package with a name.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let manifest: Table = text
            .parse()
            .map_err(|error: toml::de::Error| ManifestError::NotToml { why: error.message().to_owned() })?;
        let package = manifest.get("package").and_then(Value::as_table).ok_or(ManifestError::NoPackage)?;
        let text = |key: &str| package.get(key).and_then(Value::as_str).map(str::to_owned);
        let strings = |key: &str| package.get(key).map(list).unwrap_or_default();
        let features = manifest.get("features").and_then(Value::as_table);
        Ok(Self {
            name: text("name").ok_or(ManifestError::NoPackage)?,
            version: text("version").unwrap_or_default(),
            keywords: strings("keywords"),
            categories: strings("categories"),
            dependencies: dependencies_of(&manifest),
            features: features.into_iter().flatten().map(|(name, on)| (name.clone(), list(on))).collect(),
        })
    }

    /// What a feature turns on, directly or through other features of this crate; the feature itself included.
    pub fn turned_on_by<'a>(&'a self, feature: &'a str) -> BTreeSet<&'a str> {
        let mut on = BTreeSet::new();
        let mut next = vec![feature];
        while let Some(name) = next.pop() {
            if on.insert(name) {
                next.extend(self.features.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        on
    }
}

/// Why a manifest is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// The system refused to read it, or it isn't UTF-8.
    #[error("unreadable ({0})")]
    Unreadable(io::ErrorKind),
    /// It isn't TOML.
    #[error("not TOML: {why}")]
    NotToml {
        /// What the parser said.
        why: String,
    },
    /// It describes no package: a workspace, for example.
    #[error("describes no package with a name")]
    NoPackage,
}

/// Why there are no crates.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The root is missing or is a file.
    #[error("{} is not a directory that can be read; name one that holds crates", root.display())]
    NotADirectory {
        /// What was named.
        root: PathBuf,
    },
    /// No manifest in it.
    #[error("no Cargo.toml within {DEPTH} levels of {}; name a directory that holds crates", root.display())]
    Empty {
        /// What was walked.
        root: PathBuf,
    },
    /// Manifests, but not one that describes a crate.
    #[error("none of the {skipped} Cargo.toml files in {} describes a crate; name another directory", root.display())]
    NoCrates {
        /// What was walked.
        root: PathBuf,
        /// How many manifests there are.
        skipped: usize,
    },
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn dependencies_of(manifest: &Table) -> Vec<Dependency> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let everywhere = std::iter::once(manifest).chain(targets.into_iter().flatten().filter_map(|(_, it)| it.as_table()));
    let mut found = Vec::new();
    for table in everywhere {
        for (key, kind) in
            [("dependencies", Need::Use), ("build-dependencies", Need::Build), ("dev-dependencies", Need::Tests)]
        {
            let listed = table.get(key).and_then(Value::as_table).into_iter().flatten();
            found.extend(listed.map(|(alias, value)| dependency(alias, value, kind)));
        }
    }
    found.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    found.dedup_by(|a, b| (&a.name, a.kind) == (&b.name, b.kind));
    found
}

fn dependency(alias: &str, value: &Value, kind: Need) -> Dependency {
    Dependency {
        alias: alias.to_owned(),
        name: value.get("package").and_then(Value::as_str).unwrap_or(alias).to_owned(),
        kind,
        optional: value.get("optional").and_then(Value::as_bool).unwrap_or(false),
        features: value.get("features").map(list).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
        [package]
        name = "ring"
        version = "1.2.0"
        keywords = ["queue", "lock-free"]
        categories.workspace = true
        [dependencies]
        loom = "0.7"
        serde = { version = "1", optional = true, features = ["derive"] }
        [dependencies.renamed]
        package = "real"
        version = "2"
        [target.'cfg(unix)'.dependencies]
        libc = "0.2"
        [dev-dependencies]
        proptest = "1"
        [features]
        default = ["std"]
        std = ["serde?/std"]
        full = ["default", "dep:serde", "loop"]
        loop = ["full"]
    "#;

    #[test]
    fn a_manifest_is_understood() {
        let found = Crate::parse(MANIFEST).unwrap();
        assert_eq!((found.name.as_str(), found.version.as_str()), ("ring", "1.2.0"));
        assert_eq!(found.keywords, ["queue", "lock-free"]);
        assert!(found.categories.is_empty());
        let dependencies: Vec<_> =
            found.dependencies.iter().map(|it| (it.name.as_str(), it.kind, it.optional)).collect();
        assert_eq!(
            dependencies,
            [
                ("libc", Need::Use, false),
                ("loom", Need::Use, false),
                ("proptest", Need::Tests, false),
                ("real", Need::Use, false),
                ("serde", Need::Use, true)
            ]
        );
        assert_eq!(found.dependencies[4].features, ["derive"]);
    }

    #[test]
    fn a_feature_turns_on_others_and_a_loop_of_them_ends() {
        let found = Crate::parse(MANIFEST).unwrap();
        let on: Vec<_> = found.turned_on_by("full").into_iter().collect();
        assert_eq!(on, ["default", "dep:serde", "full", "loop", "serde?/std", "std"]);
    }

    #[test]
    fn what_describes_no_crate_is_refused_with_the_reason() {
        assert_eq!(Crate::parse("[workspace]"), Err(ManifestError::NoPackage));
        assert_eq!(Crate::parse("[package]\nname = 1"), Err(ManifestError::NoPackage));
        assert!(matches!(Crate::parse("not = = toml"), Err(ManifestError::NotToml { .. })));
    }

    #[test]
    fn useless_manifests_are_named_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [("index/good", MANIFEST.as_bytes()), ("index/broken", b"[["), ("index/latin", b"caf\xe9")]
        {
            fs::create_dir_all(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("Cargo.toml"), text).unwrap();
        }
        fs::create_dir_all(root.path().join("index/good/inner")).unwrap();
        fs::write(root.path().join("index/good/inner/Cargo.toml"), MANIFEST).unwrap();
        let registry = Manifests::find(root.path()).unwrap().read().unwrap();
        assert_eq!(registry.crates.len(), 1);
        let skipped: Vec<_> = registry.skipped.iter().map(|(path, why)| (path.to_str().unwrap(), why)).collect();
        assert!(matches!(skipped[0], ("index/broken/Cargo.toml", ManifestError::NotToml { .. })));
        assert_eq!(skipped[1], ("index/latin/Cargo.toml", &ManifestError::Unreadable(io::ErrorKind::InvalidData)));
    }

    #[test]
    fn a_directory_without_crates_is_refused_with_a_remedy() {
        let root = tempfile::tempdir().unwrap();
        let error = Manifests::find(root.path()).unwrap_err();
        assert!(error.to_string().contains("name a directory that holds crates"), "{error}");
        assert!(matches!(Manifests::find(Path::new("/nowhere")), Err(RegistryError::NotADirectory { .. })));
    }
}
