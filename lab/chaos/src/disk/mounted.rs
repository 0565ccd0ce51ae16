//! A volume as the kernel asks for it.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::held;
use super::volume::{About, BLOCKS, ROOT, Refusal, Volume};

/// Nothing changes but by this kernel.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

/// What answers the kernel.
pub(super) struct Mounted {
    volume: Arc<Mutex<Volume>>,
}

impl Mounted {
    pub(super) fn new(volume: Arc<Mutex<Volume>>) -> Self {
        Self { volume }
    }

    fn sync(&self, node: INodeNo, reply: ReplyEmpty) {
        let takes = held(&self.volume).ills.sync_takes;
        if !takes.is_zero() {
            thread::sleep(takes);
        }
        empty(held(&self.volume).sync(node.0), reply);
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NotFound => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::IsFolder => Errno::EISDIR,
        Refusal::NoFolder => Errno::ENOTDIR,
        Refusal::Full => Errno::ENOSPC,
        Refusal::Io => Errno::EIO,
    }
}

fn attributes(about: About) -> FileAttr {
    let (kind, perm) = if about.is_folder { (FileType::Directory, 0o755) } else { (FileType::RegularFile, 0o644) };
    FileAttr {
        ino: INodeNo(about.node),
        size: about.length,
        blocks: about.length.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn entry(about: Result<About, Refusal>, reply: ReplyEntry) {
    match about {
        Ok(about) => reply.entry(&KNOWN_FOR, &attributes(about), Generation(0)),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

fn empty(done: Result<(), Refusal>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(held(&self.volume).look_up(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        held(&self.volume).forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match held(&self.volume).about(ino.0) {
            Ok(about) => reply.attr(&KNOWN_FOR, &attributes(about)),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut volume = held(&self.volume);
        let done = size.map_or(Ok(()), |size| volume.truncate(ino.0, size));
        match done.and_then(|()| volume.about(ino.0)) {
            Ok(about) => reply.attr(&KNOWN_FOR, &attributes(about)),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(held(&self.volume).make(parent.0, name, true), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(held(&self.volume).remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(held(&self.volume).remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        empty(held(&self.volume).rename((parent.0, name), (newparent.0, newname)), reply);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match held(&self.volume).read(ino.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match held(&self.volume).write(ino.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino, reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let names = match held(&self.volume).list(ino.0) {
            Ok(names) => names,
            Err(refusal) => return reply.error(errno(refusal)),
        };
        let here = [(".", ino.0), ("..", ROOT)].map(|(name, node)| (name.into(), node, FileType::Directory));
        let inside = names.into_iter().map(|(name, about)| (name, about.node, attributes(about).kind));
        for (at, (name, node, kind)) in here.into_iter().chain(inside).enumerate().skip(offset as usize) {
            if reply.add(INodeNo(node), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = if held(&self.volume).ills.full { 0 } else { BLOCKS };
        reply.statfs(BLOCKS, free, free, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        match held(&self.volume).make(parent.0, name, false) {
            Ok(about) => {
                let attributes = attributes(about);
                reply.created(&KNOWN_FOR, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 1;
        if mode & !KEEP_SIZE != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        empty(held(&self.volume).reserve(ino.0, offset + length, mode & KEEP_SIZE == 0), reply);
    }
}
