//! A disk in memory that knows what was synced.
//!
//! As strict as POSIX allows: a file's bytes and length are durable once the file was synced, a name once its folder was.
//! After a power cut there is what was durable; of the rest nothing, or some: of bytes any of the blocks, each whole or by
//! sectors, of names those up to some change of their folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// The number of the folder that all is in.
pub(super) const ROOT: u64 = 1;

/// Bytes that are written as a whole or not, unless they are torn.
const BLOCK: usize = 4096;

/// Bytes that are never torn.
const SECTOR: usize = 512;

/// How many blocks a disk claims to have.
pub(super) const BLOCKS: u64 = 1 << 20;

/// Why something isn't done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Exists,
    NotEmpty,
    IsFolder,
    NoFolder,
    Full,
    Io,
}

/// What a power cut keeps of that which wasn't synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing.
    Nothing,
    /// What a seed says.
    Some(u64),
}

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ills {
    /// There is no room for more than it has.
    pub(crate) full: bool,
    /// Syncs fail, and forget the bytes that they were to write, as Linux does: the next one succeeds without them.
    pub(crate) sync_fails: bool,
    /// A sync takes so long.
    pub(crate) sync_takes: Duration,
}

/// What is on a disk.
#[derive(Default)]
pub(super) struct Volume {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    pub(super) ills: Ills,
}

struct Node {
    kind: Inside,
    /// How often the kernel has been told of it, and hasn't forgotten it since.
    known: u64,
}

enum Inside {
    File(File),
    Folder(Folder),
}

#[derive(Default)]
struct File {
    live: Contents,
    durable: Contents,
    /// Blocks that differ, or may.
    unsynced: BTreeSet<u64>,
    /// Blocks that differ, and that no sync will write any more: one has failed.
    forgotten: BTreeSet<u64>,
    /// Up to here there is room, however full the disk is.
    reserved: u64,
}

#[derive(Default)]
struct Contents {
    /// Those that were synced are the same bytes in both contents of a file.
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
    length: u64,
}

/// Names, and what they are of; `None` takes one away. What belongs together happens at once.
type Change = Vec<(OsString, Option<u64>)>;

#[derive(Default)]
struct Folder {
    live: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
    unsynced: Vec<Change>,
}

/// What there is to know of a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) node: u64,
    pub(super) is_folder: bool,
    pub(super) length: u64,
}

impl Volume {
    /// An empty one.
    pub(super) fn new() -> Self {
        let root = Node { kind: Inside::Folder(Folder::default()), known: 1 };
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1, ills: Ills::default() }
    }

    pub(super) fn about(&self, node: u64) -> Result<About, Refusal> {
        let found = self.nodes.get(&node).ok_or(Refusal::NotFound)?;
        let (is_folder, length) = match &found.kind {
            Inside::File(file) => (false, file.live.length),
            Inside::Folder(_) => (true, 0),
        };
        Ok(About { node, is_folder, length })
    }

    /// What is under a name. The kernel knows it from now on.
    pub(super) fn look_up(&mut self, folder: u64, name: &OsStr) -> Result<About, Refusal> {
        let node = *self.folder(folder)?.live.get(name).ok_or(Refusal::NotFound)?;
        self.know(node);
        self.about(node)
    }

    /// The kernel has forgotten it so many times.
    pub(super) fn forget(&mut self, node: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.known = node.known.saturating_sub(times);
        }
    }

    /// The names in a folder.
    pub(super) fn list(&self, folder: u64) -> Result<Vec<(OsString, About)>, Refusal> {
        let names = &self.folder(folder)?.live;
        names.iter().map(|(name, node)| Ok((name.clone(), self.about(*node)?))).collect()
    }

    /// Makes a file or a folder, which the kernel knows from now on.
    pub(super) fn make(&mut self, folder: u64, name: &OsStr, is_folder: bool) -> Result<About, Refusal> {
        if self.folder(folder)?.live.contains_key(name) {
            return Err(Refusal::Exists);
        }
        if self.ills.full {
            return Err(Refusal::Full);
        }
        let node = self.next;
        self.next += 1;
        let kind = if is_folder { Inside::Folder(Folder::default()) } else { Inside::File(File::default()) };
        self.nodes.insert(node, Node { kind, known: 1 });
        self.folder_mut(folder)?.change(vec![(name.to_owned(), Some(node))]);
        self.about(node)
    }

    pub(super) fn remove(&mut self, folder: u64, name: &OsStr, a_folder: bool) -> Result<(), Refusal> {
        let node = *self.folder(folder)?.live.get(name).ok_or(Refusal::NotFound)?;
        match (&self.nodes.get(&node).ok_or(Refusal::NotFound)?.kind, a_folder) {
            (Inside::File(_), true) => return Err(Refusal::NoFolder),
            (Inside::Folder(_), false) => return Err(Refusal::IsFolder),
            (Inside::Folder(inner), true) if !inner.live.is_empty() => return Err(Refusal::NotEmpty),
            _ => {}
        }
        self.folder_mut(folder)?.change(vec![(name.to_owned(), None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<(), Refusal> {
        let node = *self.folder(from.0)?.live.get(from.1).ok_or(Refusal::NotFound)?;
        let (gone, there) = ((from.1.to_owned(), None), (to.1.to_owned(), Some(node)));
        if from.0 == to.0 {
            self.folder_mut(from.0)?.change(vec![gone, there]);
        } else {
            self.folder_mut(to.0)?.change(vec![there]);
            self.folder_mut(from.0)?.change(vec![gone]);
        }
        Ok(())
    }

    pub(super) fn read(&self, node: u64, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        let contents = &self.file(node)?.live;
        let length = (contents.length.saturating_sub(offset)).min(length as u64) as usize;
        let mut bytes = vec![0; length];
        let mut at = 0;
        while at < length {
            let (block, within) = place(offset + at as u64);
            let part = (BLOCK - within).min(length - at);
            if let Some(block) = contents.blocks.get(&block) {
                bytes[at..at + part].copy_from_slice(&block[within..within + part]);
            }
            at += part;
        }
        Ok(bytes)
    }

    pub(super) fn write(&mut self, node: u64, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let full = self.ills.full;
        let file = self.file_mut(node)?;
        let end = offset + bytes.len() as u64;
        if full && end > file.reserved.max(file.live.length) {
            return Err(Refusal::Full);
        }
        let mut at = 0;
        while at < bytes.len() {
            let (block, within) = place(offset + at as u64);
            let part = (BLOCK - within).min(bytes.len() - at);
            let content = file.live.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(content)[within..within + part].copy_from_slice(&bytes[at..at + part]);
            file.touch(block);
            at += part;
        }
        file.live.length = file.live.length.max(end);
        Ok(())
    }

    /// Takes room up to here, and makes the file so long if it was shorter and that is wanted.
    pub(super) fn reserve(&mut self, node: u64, end: u64, lengthen: bool) -> Result<(), Refusal> {
        let full = self.ills.full;
        let file = self.file_mut(node)?;
        if full && end > file.reserved.max(file.live.length) {
            return Err(Refusal::Full);
        }
        file.reserved = file.reserved.max(end);
        if lengthen {
            file.live.length = file.live.length.max(end);
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, node: u64, length: u64) -> Result<(), Refusal> {
        let file = self.file_mut(node)?;
        let (block, within) = place(length);
        let gone = file.live.blocks.split_off(&(block + u64::from(within > 0)));
        gone.into_keys().for_each(|block| file.touch(block));
        if let Some(last) = file.live.blocks.get_mut(&block).filter(|_| within > 0 && length < file.live.length) {
            Arc::make_mut(last)[within..].fill(0);
            file.touch(block);
        }
        file.reserved = file.reserved.min(length);
        file.live.length = length;
        Ok(())
    }

    /// Makes a file or a folder durable.
    pub(super) fn sync(&mut self, node: u64) -> Result<(), Refusal> {
        if self.ills.sync_fails {
            if let Ok(file) = self.file_mut(node) {
                file.forgotten.append(&mut file.unsynced);
            }
            return Err(Refusal::Io);
        }
        match &mut self.nodes.get_mut(&node).ok_or(Refusal::NotFound)?.kind {
            Inside::File(file) => {
                for block in std::mem::take(&mut file.unsynced) {
                    file.settle(block);
                }
                file.durable.length = file.live.length;
                file.durable.trim();
            }
            Inside::Folder(folder) => {
                folder.durable = folder.live.clone();
                folder.unsynced.clear();
                self.clear_away();
            }
        }
        Ok(())
    }

    /// The power is cut and comes back: what wasn't durable is gone, or some of it is. The kernel knows nothing any more.
    pub(super) fn cut(&mut self, kept: Kept) {
        let mut draw = match kept {
            Kept::Nothing => None,
            Kept::Some(seed) => Some(ChaCha8Rng::seed_from_u64(seed)),
        };
        for (number, node) in &mut self.nodes {
            node.known = u64::from(*number == ROOT);
            match &mut node.kind {
                Inside::File(file) => file.cut(draw.as_mut()),
                Inside::Folder(folder) => folder.cut(draw.as_mut()),
            }
        }
        self.clear_away();
    }

    /// Forgets what nothing leads to any more.
    fn clear_away(&mut self) {
        let mut used: BTreeSet<u64> = BTreeSet::from([ROOT]);
        for (number, node) in &self.nodes {
            if node.known > 0 {
                used.insert(*number);
            }
            if let Inside::Folder(folder) = &node.kind {
                used.extend(folder.live.values().chain(folder.durable.values()));
                used.extend(folder.unsynced.iter().flatten().filter_map(|(_, node)| *node));
            }
        }
        self.nodes.retain(|number, _| used.contains(number));
    }

    fn know(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.known += 1;
        }
    }

    fn folder(&self, node: u64) -> Result<&Folder, Refusal> {
        match &self.nodes.get(&node).ok_or(Refusal::NotFound)?.kind {
            Inside::Folder(folder) => Ok(folder),
            Inside::File(_) => Err(Refusal::NoFolder),
        }
    }

    fn folder_mut(&mut self, node: u64) -> Result<&mut Folder, Refusal> {
        match &mut self.nodes.get_mut(&node).ok_or(Refusal::NotFound)?.kind {
            Inside::Folder(folder) => Ok(folder),
            Inside::File(_) => Err(Refusal::NoFolder),
        }
    }

    fn file(&self, node: u64) -> Result<&File, Refusal> {
        match &self.nodes.get(&node).ok_or(Refusal::NotFound)?.kind {
            Inside::File(file) => Ok(file),
            Inside::Folder(_) => Err(Refusal::IsFolder),
        }
    }

    fn file_mut(&mut self, node: u64) -> Result<&mut File, Refusal> {
        match &mut self.nodes.get_mut(&node).ok_or(Refusal::NotFound)?.kind {
            Inside::File(file) => Ok(file),
            Inside::Folder(_) => Err(Refusal::IsFolder),
        }
    }
}

impl File {
    /// A block was written.
    fn touch(&mut self, block: u64) {
        self.forgotten.remove(&block);
        self.unsynced.insert(block);
    }

    /// Has the durable block be what the live one is.
    fn settle(&mut self, block: u64) {
        match self.live.blocks.get(&block) {
            Some(bytes) => drop(self.durable.blocks.insert(block, Arc::clone(bytes))),
            None => drop(self.durable.blocks.remove(&block)),
        }
    }

    /// Has the durable block take over those sectors of the live one that are wanted.
    fn tear(&mut self, block: u64, mut wanted: impl FnMut(usize) -> bool) {
        const NOTHING: [u8; BLOCK] = [0; BLOCK];
        let live = self.live.blocks.get(&block).map_or(&NOTHING, |block| block);
        let durable = Arc::make_mut(self.durable.blocks.entry(block).or_insert_with(|| Arc::new(NOTHING)));
        for sector in (0..BLOCK).step_by(SECTOR).filter(|sector| wanted(*sector)) {
            durable[sector..sector + SECTOR].copy_from_slice(&live[sector..sector + SECTOR]);
        }
    }

    fn cut(&mut self, draw: Option<&mut ChaCha8Rng>) {
        let (unsynced, forgotten) = (std::mem::take(&mut self.unsynced), std::mem::take(&mut self.forgotten));
        if let Some(draw) = draw {
            for &block in &unsynced {
                match draw.next_u32() % 3 {
                    0 => {}
                    1 => self.settle(block),
                    _ => self.tear(block, |_| draw.next_u32().is_multiple_of(2)),
                }
            }
            if draw.next_u32().is_multiple_of(2) {
                self.durable.length = self.live.length;
            }
        }
        self.durable.trim();
        self.live.length = self.durable.length;
        self.live.trim();
        for block in unsynced.into_iter().chain(forgotten) {
            match self.durable.blocks.get(&block) {
                Some(bytes) => drop(self.live.blocks.insert(block, Arc::clone(bytes))),
                None => drop(self.live.blocks.remove(&block)),
            }
        }
    }
}

impl Contents {
    /// Forgets what lies behind the end.
    fn trim(&mut self) {
        let (last, within) = place(self.length);
        drop(self.blocks.split_off(&(last + u64::from(within > 0))));
        let is_zero = |block: &[u8; BLOCK]| block[within..].iter().all(|byte| *byte == 0);
        if let Some(block) = self.blocks.get_mut(&last).filter(|block| !is_zero(block)) {
            Arc::make_mut(block)[within..].fill(0);
        }
    }
}

impl Folder {
    fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.unsynced.push(change);
    }

    fn cut(&mut self, draw: Option<&mut ChaCha8Rng>) {
        let unsynced = std::mem::take(&mut self.unsynced);
        let kept = draw.map_or(0, |draw| draw.next_u32() as usize % (unsynced.len() + 1));
        unsynced.iter().take(kept).for_each(|change| apply(&mut self.durable, change));
        self.live = self.durable.clone();
    }
}

fn apply(names: &mut BTreeMap<OsString, u64>, change: &Change) {
    for (name, node) in change {
        match node {
            Some(node) => drop(names.insert(name.clone(), *node)),
            None => drop(names.remove(name)),
        }
    }
}

/// The block that has a byte, and where in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}

#[cfg(test)]
mod tests;
