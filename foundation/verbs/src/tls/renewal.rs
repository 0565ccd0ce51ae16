//! What is made of files, and made again when they change: certificates, keys, authorities and lists of what was revoked.
//!
//! One thread of the process looks at all of them about once a second, as long as there are any. Whoever begins a session takes
//! what was made last. What can't be made is logged, once, and what was made before holds.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;
use std::time::Duration;

use super::{Identity, Pem, TlsError};
use crate::FileChanges;

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Something that is made of files, and the last of it that could be made.
pub(super) struct Renewed<T> {
    /// Held for a moment only: by whoever swaps what is in it, and by readers.
    made: RwLock<Arc<T>>,
    make: Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>,
    files: Vec<PathBuf>,
    state: Mutex<State>,
}

struct State {
    changes: FileChanges,
    /// Of what the files held.
    hash: u64,
    fault: Option<String>,
}

/// Certificates or a key, and where they are to be found again.
#[derive(Clone)]
pub(super) enum Source {
    File(PathBuf),
    Bytes(Arc<[u8]>),
}

impl<T: Send + Sync + 'static> Renewed<T> {
    /// Makes it, and again whenever one of the files changes that are among the sources.
    pub(super) fn new<'a>(
        sources: impl IntoIterator<Item = &'a Source>,
        make: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, TlsError> {
        let files: Vec<PathBuf> = sources.into_iter().filter_map(Source::path).collect();
        let changes = FileChanges::of(files.iter().map(PathBuf::as_path));
        let hash = hash_of(&files);
        let made = RwLock::new(Arc::new(make()?));
        let state = Mutex::new(State { changes, hash, fault: None });
        let renewed = Arc::new(Self { made, make: Box::new(make), files, state });
        if !renewed.files.is_empty() {
            let weak: Weak<Self> = Arc::downgrade(&renewed);
            watch(weak);
        }
        Ok(renewed)
    }

    /// What was made last.
    pub(super) fn current(&self) -> Arc<T> {
        Arc::clone(&self.made.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the files as they are now can't be used, if they can't.
    pub(super) fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread looks at.
pub(super) trait Refresh: Send + Sync {
    /// Makes it again if the files have changed. Reads files, so it may block.
    fn refresh(&self);
}

impl<T: Send + Sync + 'static> Refresh for Renewed<T> {
    fn refresh(&self) {
        let mut state = self.lock();
        // What could not be read may be readable again without having changed.
        if !state.changes.look() && state.fault.is_none() {
            return;
        }
        let hash = hash_of(&self.files);
        if hash == state.hash && state.fault.is_none() {
            return;
        }
        let names = || self.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        state.hash = hash;
        match (self.make)() {
            Ok(made) => {
                *self.made.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                state.fault = None;
                tracing::info!(files = names(), "certificates were renewed; connections from now on have the new ones");
            }
            Err(error) => {
                let fault = Some(error.to_string());
                if state.fault != fault {
                    tracing::error!(%error, files = names(), "certificates can't be renewed; the old ones hold");
                    state.fault = fault;
                }
            }
        }
    }
}

impl Source {
    pub(super) fn of(pem: Pem<'_>) -> Self {
        match pem {
            Pem::File(path) => Self::File(path.to_owned()),
            Pem::Bytes(bytes) => Self::Bytes(bytes.into()),
        }
    }

    pub(super) fn pem(&self) -> Pem<'_> {
        match self {
            Self::File(path) => Pem::File(path),
            Self::Bytes(bytes) => Pem::Bytes(bytes),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path.clone()),
            Self::Bytes(_) => None,
        }
    }
}

/// A certificate and its key.
pub(super) fn pair(Identity { certificate, key }: Identity<'_>) -> [Source; 2] {
    [Source::of(certificate), Source::of(key)]
}

/// The same, to be read.
pub(super) fn identity([certificate, key]: &[Source; 2]) -> Identity<'_> {
    Identity { certificate: certificate.pem(), key: key.pem() }
}

impl<T> fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A hash of what the files hold.
fn hash_of(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in files {
        std::fs::read(path).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// What the thread looks at; `None` while there is no thread.
static WATCHED: Mutex<Option<Vec<Weak<dyn Refresh>>>> = Mutex::new(None);

fn watched() -> MutexGuard<'static, Option<Vec<Weak<dyn Refresh>>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the thread look at this, as long as there is somebody who uses it.
fn watch(it: Weak<dyn Refresh>) {
    let mut watched = watched();
    match &mut *watched {
        Some(others) => others.push(it),
        none => match start() {
            Ok(()) => *none = Some(vec![it]),
            Err(error) => {
                tracing::warn!(%error, "no thread that looks whether certificates have changed: they won't be renewed");
            }
        },
    }
}

fn start() -> io::Result<()> {
    let thread = thread::Builder::new().name("greenwave-certs".to_owned());
    thread.spawn(|| {
        loop {
            thread::sleep(EVERY);
            let mut watched = watched();
            let Some(all) = &mut *watched else { return };
            all.retain(|it| it.strong_count() > 0);
            if all.is_empty() {
                *watched = None;
                return;
            }
            let all = all.clone();
            drop(watched);
            for it in all.iter().filter_map(Weak::upgrade) {
                // One must not keep the others from being renewed. What it said is in the log.
                let _ = catch_unwind(AssertUnwindSafe(|| it.refresh()));
            }
        }
    })?;
    Ok(())
}
