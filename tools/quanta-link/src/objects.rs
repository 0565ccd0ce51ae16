//! What is read of the files that are linked: the members of archives, and the symbols of machine code.

use anyhow::{Context, Result};
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::BTreeSet;

/// What a file is that is a module in LLVM's bitcode, alone or wrapped.
pub(crate) fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
}

/// What a file is that holds others.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n")
}

/// A member of an archive: its name and its bytes.
type Member<'a> = (String, &'a [u8]);

/// The members of an archive; `None` if it only names files that lie elsewhere.
pub(crate) fn members(archive: &[u8]) -> Result<Option<Vec<Member<'_>>>> {
    let file = ArchiveFile::parse(archive).context("it is no archive that can be read")?;
    if file.is_thin() {
        return Ok(None);
    }
    let members = file.members().map(|member| {
        let member = member.context("it is a broken archive")?;
        let data = member.data(archive).context("it is a broken archive")?;
        Ok((String::from_utf8_lossy(member.name()).into_owned(), data))
    });
    members.collect::<Result<_>>().map(Some)
}

/// What machine code has and takes.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// The mangled names of its thread-locals.
    pub(crate) thread_locals: BTreeSet<String>,
    /// The functions that it takes from others.
    pub(crate) foreign: BTreeSet<String>,
    /// The sections of its functions that call `syscall`.
    pub(crate) callers: BTreeSet<String>,
}

impl Symbols {
    /// Adds those of an object; nothing of a file that is no machine code.
    pub(crate) fn add(&mut self, object: &[u8]) -> Result<()> {
        let Ok(file) = ElfFile64::<LittleEndian>::parse(object) else { return Ok(()) };
        let mut syscall = None;
        for symbol in file.symbols() {
            let name = || symbol.name().map(str::to_owned);
            if symbol.is_undefined() {
                let name = name()?;
                syscall = syscall.or((name == "syscall").then(|| symbol.index()));
                self.foreign.insert(name);
            } else if symbol.kind() == SymbolKind::Tls {
                self.thread_locals.insert(name()?);
            }
        }
        for section in file.sections() {
            let is_syscall = |target| matches!(target, RelocationTarget::Symbol(one) if Some(one) == syscall);
            if section.relocations().any(|(_, relocation)| is_syscall(relocation.target())) {
                self.callers.insert(section.name()?.to_owned());
            }
        }
        Ok(())
    }
}

/// Reads bytes as a file that is linked.
///
/// # Panics
/// If a member has more than the file.
#[cfg(any(test, fuzzing))]
pub(crate) fn whatever_is_linked(bytes: &[u8]) {
    let mut symbols = Symbols::default();
    let _either = symbols.add(bytes);
    if let Ok(Some(members)) = members(bytes) {
        for (_, data) in members {
            assert!(data.len() <= bytes.len());
            let _either = symbols.add(data);
        }
    }
    let _either = (is_bitcode(bytes), is_archive(bytes));
}

#[cfg(test)]
#[path = "../../../lab/fuzz/replay.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_worth_trying_is_read_or_refused() {
        seeds::replay("link_input", whatever_is_linked);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            whatever_is_linked(&bytes);
            whatever_is_linked(&[b"!<arch>\n", &bytes[..]].concat());
            whatever_is_linked(&[b"\x7fELF\x02\x01\x01", &bytes[..]].concat());
        }
    }
}
