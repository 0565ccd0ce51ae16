//! Requests as the services' users would make them, drawn from what the services know.

use std::path::{Path, PathBuf};

use greenwave_bench::target::{Payloads, Rotation};
use greenwave_kv::Keys;
use greenwave_services::proto::{kv, recommend, search};
use greenwave_services::recommend::sampler::Sampler as Users;
use greenwave_services::recommend::store;
use greenwave_services::search::corpus::{CorpusConfig, cargo_registry};
use greenwave_services::search::index::{self, IndexConfig};
use greenwave_services::search::queries::Sampler as Questions;
use greenwave_services::search::vocabulary::Vocabulary;
use prost::Message;

use crate::data;
use crate::problem::Problem;
use crate::serve::Indexing;

/// So many encoded requests to `greenwave.search.Search/Query`, made of the words of `directory` (the local Cargo registry if
/// none is named). The index of that directory is made if there is none.
///
/// # Errors
/// When there is nothing to index, or no index can be written.
pub(crate) fn search(directory: Option<&PathBuf>, count: usize, seed: u64) -> Result<Vec<Vec<u8>>, Problem> {
    let corpus = corpus(directory)?;
    let index = data::folder("search", &corpus)?;
    if index::open(&index).is_err() {
        let indexing = Indexing::of(&corpus);
        let made = index::ensure(&CorpusConfig::new(&corpus), &IndexConfig::new(&index), &|done| indexing.show(done));
        made.map_err(Problem::failure)?;
    }
    let kept = index::open(&index).map_err(Problem::failure)?;
    let vocabulary = Vocabulary::read(&kept.path).map_err(|error| Problem::failure(error).at(kept.path.display()))?;
    let nothing = || {
        let problem = Problem::failure("no word occurs twice, so there is nothing to ask for").at(corpus.display());
        problem.remedy("name a directory with more text with --dir")
    };
    let mut questions = Questions::new(&vocabulary, seed).ok_or_else(nothing)?;
    let requests = (0..count).map(|_| search::QueryRequest { text: questions.question().text.clone(), limit: 10 });
    Ok(requests.map(|request| request.encode_to_vec()).collect())
}

/// So many encoded requests to `greenwave.recommend.Profile/Recommend`, for the crates below `directory` (the local Cargo
/// registry if none is named).
///
/// # Errors
/// When there are no crates.
pub(crate) fn recommend(directory: Option<&PathBuf>, count: usize, seed: u64) -> Result<Vec<Vec<u8>>, Problem> {
    let crates = corpus(directory)?;
    let stores = data::folder("recommend", &crates)?;
    store::ensure(&crates, &stores).map_err(Problem::failure)?;
    let mut users = Users::stored(&stores, seed).map_err(Problem::failure)?;
    let users = std::iter::from_fn(|| users.user().map(str::to_owned)).take(count);
    Ok(users.map(|user| recommend::ProfileRequest { user, limit: 10 }.encode_to_vec()).collect())
}

/// So many encoded requests to `greenwave.kv.Kv/Get`, for rows that a store of `rows` was made with.
pub(crate) fn gets(rows: u32, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut keys = Keys::new(rows, seed);
    let key = |_| String::from_utf8_lossy(&keys.key()).into_owned();
    (0..count).map(key).map(|key| kv::GetRequest { key }.encode_to_vec()).collect()
}

/// The class of the requests that call [`kv::SCAN`].
pub(crate) const SCAN: &str = "scan";

/// GETs in turn for the first class, the same SCAN for the second.
pub(crate) struct Mix(pub(crate) Rotation);

impl Payloads for Mix {
    fn payload(&mut self, class: usize, sequence: u64) -> &[u8] {
        // A SCAN of everything is an empty message.
        if class == 0 { self.0.payload(class, sequence) } else { &[] }
    }
}

/// The directory that was named, or the local Cargo registry.
///
/// # Errors
/// When none was named and there is no registry.
pub(crate) fn corpus(directory: Option<impl AsRef<Path>>) -> Result<PathBuf, Problem> {
    match directory {
        Some(directory) => Ok(directory.as_ref().to_path_buf()),
        None => cargo_registry().map_err(Problem::failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_message_is_a_scan_of_everything() {
        assert!(kv::ScanRequest::default().encode_to_vec().is_empty());
        let mut mix = Mix(Rotation::single(vec![7]));
        assert_eq!(mix.payload(0, 1), [7]);
        assert!(mix.payload(1, 1).is_empty());
    }
}
