//! The settings, and the way from files to code.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use protox::prost::Message;
use protox::prost_reflect::prost_types::FileDescriptorSet;

use crate::BuildError;
use crate::check::check;
use crate::service::{Emit, ServiceCode};

/// Settings other than the usual ones: begin with this, end with [`Builder::compile`].
pub fn configure() -> Builder {
    Builder::default()
}

/// How to make code of `.proto` files. Made by [`configure`].
#[must_use]
pub struct Builder {
    out_dir: Option<PathBuf>,
    emit: Emit,
    messages: prost_build::Config,
}

impl Default for Builder {
    fn default() -> Self {
        let mut messages = prost_build::Config::new();
        // A message without a comment is the author's choice, and no warning in whoever includes it.
        messages.type_attribute(".", "#[allow(missing_docs)]");
        Self { out_dir: None, emit: Emit::default(), messages }
    }
}

impl Builder {
    /// Where to write. Default: cargo's `OUT_DIR`.
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// Under which path the code finds Greenwave. Default: `::greenwave`.
    pub fn greenwave_path(mut self, path: impl Into<String>) -> Self {
        self.emit.greenwave = path.into();
        self
    }

    /// Under which path the code finds prost. Default: `::prost`.
    pub fn prost_path(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.messages.prost_path(path.clone());
        self.emit.prost = path;
        self
    }

    /// Whether to make servers, and the traits that they serve. Default: yes.
    pub fn server(mut self, wanted: bool) -> Self {
        self.emit.server = wanted;
        self
    }

    /// Whether to make clients. Default: yes.
    pub fn client(mut self, wanted: bool) -> Self {
        self.emit.client = wanted;
        self
    }

    /// Makes `bytes` fields of these messages or fields (prost's paths; `"."` is all of them) [`Bytes`], which in a server
    /// are parts of the memory that a request was received into: a handler may keep them without a copy.
    ///
    /// The package that includes the code needs nothing more: it finds `Bytes` as `prost::bytes::Bytes`.
    ///
    /// [`Bytes`]: https://docs.rs/bytes/latest/bytes/struct.Bytes.html
    pub fn bytes(mut self, paths: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.messages.bytes(paths);
        self.emit.in_place = true;
        self
    }

    /// Settings of prost's, for how messages come out. What concerns services and where to write is set here.
    pub fn messages(mut self, set: impl FnOnce(&mut prost_build::Config)) -> Self {
        set(&mut self.messages);
        self
    }

    /// Makes Rust of these files, which lie below the `includes`: a file a package, `package.rs`.
    ///
    /// From a `build.rs`, cargo is told to do so again when one of them changes.
    ///
    /// # Errors
    /// See [`BuildError`]. Files made before the error stay.
    pub fn compile(self, protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> Result<(), BuildError> {
        let Self { out_dir, emit, mut messages } = self;
        let in_build_script = out_dir.is_none();
        let out_dir = out_dir.or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from)).ok_or(BuildError::NoOutDir)?;

        let mut compiler = protox::Compiler::new(includes)?;
        compiler.include_source_info(true).include_imports(true).open_files(protos)?;
        if in_build_script {
            let read = compiler.files().filter_map(|file| file.path());
            read.for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
        }
        let asked_for: HashSet<String> =
            compiler.files().filter(|file| !file.is_import()).map(|file| file.name().to_owned()).collect();
        let mut files = compiler.file_descriptor_set();
        for file in files.file.iter_mut().filter(|file| !asked_for.contains(file.name())) {
            file.service.clear();
        }
        check(&files, &emit)?;

        let described = without_source(&files).encode_to_vec();
        let packages = files.file.iter().filter(|file| !file.service.is_empty()).map(|file| file.package().to_owned());
        let packages: HashSet<String> = packages.collect();
        fs::create_dir_all(&out_dir).map_err(|source| BuildError::Write { path: out_dir.clone(), source })?;
        messages.out_dir(&out_dir).service_generator(Box::new(ServiceCode::new(emit)));
        messages.compile_fds(files).map_err(|source| BuildError::Write { path: out_dir.clone(), source })?;
        for package in packages {
            let path = out_dir.join(descriptors_file(&package));
            write_if_changed(&path, &described).map_err(|source| BuildError::Write { path, source })?;
        }
        Ok(())
    }
}

/// Writes a file, unless it says the same already: what is written anew is compiled anew.
fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) { Ok(()) } else { fs::write(path, content) }
}

/// The file that a package's `FILE_DESCRIPTOR_SET` is read from.
pub(crate) fn descriptors_file(package: &str) -> String {
    format!("{}.descriptors.bin", if package.is_empty() { "_" } else { package })
}

/// The files without comments and positions: what a client needs to make a request.
fn without_source(files: &FileDescriptorSet) -> FileDescriptorSet {
    let mut files = files.clone();
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    files
}
