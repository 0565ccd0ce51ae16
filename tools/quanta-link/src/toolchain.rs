//! Whether the installed toolchain is one that this works with.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The major version of LLVM whose bitcode and functions this is made for.
const LLVM: u32 = 22;
/// The releases of Rust that contain it.
const RELEASES: &str = "1.95 and later releases with LLVM 22";
/// The only target so far: the probe is written in its assembly.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What `rustc -vV` says, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// `1.95.0`.
    pub(crate) release: String,
    pub(crate) host: String,
    llvm: u32,
}

impl Toolchain {
    /// Asks `rustc`.
    pub(crate) fn of(rustc: &Path) -> Result<Self> {
        let output =
            Command::new(rustc).arg("-vV").output().with_context(|| format!("can't run {}", rustc.display()))?;
        Self::parse(&String::from_utf8_lossy(&output.stdout))
            .with_context(|| format!("{} -vV says nothing of its release, host and LLVM", rustc.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let llvm = value("LLVM version")?.split('.').next()?.parse().ok()?;
        Some(Self { release: value("release")?.to_owned(), host: value("host")?.to_owned(), llvm })
    }

    /// Refuses a toolchain whose bitcode can't be read or whose target has no probe, and says which would do.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { release, host, llvm } = self;
        if *llvm != LLVM {
            bail!("rustc {release} has LLVM {llvm}, and cargo quanta needs LLVM {LLVM}: use Rust {RELEASES}");
        }
        if host != TARGET {
            bail!("cargo quanta works on {TARGET} so far, not on {host}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(release: &str, host: &str, llvm: &str) -> String {
        format!("rustc {release}\nbinary: rustc\nhost: {host}\nrelease: {release}\nLLVM version: {llvm}\n")
    }

    #[test]
    fn the_supported_toolchain_is_accepted() {
        let toolchain = Toolchain::parse(&said("1.95.0", TARGET, "22.1.2")).unwrap();
        assert_eq!(toolchain.release, "1.95.0");
        toolchain.check().unwrap();
    }

    #[test]
    fn others_are_refused_with_what_would_do() {
        let old = Toolchain::parse(&said("1.80.0", TARGET, "18.1.7")).unwrap().check().unwrap_err().to_string();
        assert!(old.contains("1.80.0 has LLVM 18") && old.contains("1.95"), "{old}");
        let mac = Toolchain::parse(&said("1.95.0", "aarch64-apple-darwin", "22.1.2")).unwrap();
        assert!(mac.check().unwrap_err().to_string().contains(TARGET));
        assert_eq!(Toolchain::parse("rustc of somebody else"), None);
    }
}
