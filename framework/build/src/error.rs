//! Why no code was made.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A place in a `.proto` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, as it would be imported.
    pub file: String,
    /// The line, from 1. 0 if unknown.
    pub line: u32,
    /// The column, from 1. 0 if unknown.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why no code was made. Errors in a `.proto` say where.
///
/// `Debug` is the same text as `Display`, because that is what cargo shows of an error that a `build.rs` returns.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// A file can't be found or read, or is not what protobuf allows.
    #[error("{}", described(.0))]
    Proto(protox::Error),
    /// Two things would have the same name in the generated code.
    #[error("{at}: {what} would generate `{name}`, which {taken_by} is called already: rename one of them")]
    NameTaken {
        /// Where the one that came later is declared.
        at: Location,
        /// What it is.
        what: String,
        /// The name in Rust.
        name: String,
        /// What else has it.
        taken_by: String,
    },
    /// There is nowhere to write to.
    #[error("OUT_DIR is not set: call this from a build.rs, or say where to write with `out_dir`")]
    NoOutDir,
    /// The generated code could not be written.
    #[error("can't write to {}: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What protox says in `Debug` begins with file, line and column; its `Display` leaves them out.
fn described(error: &protox::Error) -> String {
    format!("{error:?}")
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<protox::Error> for BuildError {
    fn from(error: protox::Error) -> Self {
        Self::Proto(error)
    }
}
