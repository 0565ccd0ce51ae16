//! The chain's three stages over a small registry on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenwave_services::kept::{KeptError, Outcome};
use greenwave_services::recommend::history::Histories;
use greenwave_services::recommend::profile::{Profile, Profiles, ReadError};
use greenwave_services::recommend::recommendation::{Recommendations, Recommended, Request};
use greenwave_services::recommend::sampler::Sampler;
use greenwave_services::recommend::store::{self, StoreError};
use greenwave_services::{Checkpoint, Precision};

/// A registry of web servers, parsers and one crate that is a bit of both.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        for i in 0..6 {
            world.add(&format!("web{i}"), "web", &["http", "runtime", "log", "tls"]);
            world.add(&format!("parser{i}"), "parser", &["lexer", "unicode", "log"]);
        }
        world.add("runtime", "io", &["log"]);
        world.add("newcomer", "web", &["http", "runtime"]);
        world
    }

    fn add(&self, name: &str, keyword: &str, dependencies: &[&str]) {
        let directory = self.crates().join(format!("{name}-1.0.0"));
        fs::create_dir_all(&directory).unwrap();
        let dependencies: String = dependencies.iter().map(|it| format!("{it} = \"1\"\n")).collect();
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nkeywords = [\"{keyword}\"]\n[dependencies]\n{dependencies}"
        );
        fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    }

    fn crates(&self) -> PathBuf {
        self.root.path().join("crates")
    }

    fn stores(&self) -> PathBuf {
        self.root.path().join("stores")
    }

    fn built(self) -> Self {
        store::ensure(&self.crates(), &self.stores()).unwrap();
        self
    }
}

fn recommend(stores: &Path, user: &str, checkpoint: Checkpoint) -> (Profile, Recommended) {
    let profile = Profiles::open(stores).unwrap().of(user, &mut || checkpoint).unwrap();
    let history = Histories::open(stores).unwrap().like(&profile.traits, "newcomer", &mut || checkpoint).unwrap();
    let request =
        Request { traits: profile.traits.clone(), has: profile.has.clone(), neighbours: history.neighbours, limit: 2 };
    (profile, Recommendations::open(stores).unwrap().rank(&request, &mut || checkpoint).unwrap())
}

#[test]
fn a_web_server_is_recommended_what_web_servers_use_and_it_lacks() {
    let world = World::new().built();
    let (profile, recommended) = recommend(&world.stores(), "newcomer@1.0.0", Checkpoint::FREE);
    assert!(profile.has.iter().any(|it| it == "http"));
    let names: Vec<_> = recommended.crates.iter().map(|it| it.name.as_str()).collect();
    assert!(names.contains(&"tls") && !names.contains(&"http"), "{names:?}");
    assert!(recommended.crates[0].because.starts_with("web"), "{:?}", recommended.crates);
    assert!(!recommended.precision.is_degraded());
}

#[test]
fn a_profile_has_part_of_what_the_dependencies_have() {
    let world = World::new().built();
    let profile = Profiles::open(&world.stores()).unwrap().of("newcomer@1.0.0", &mut || Checkpoint::FREE).unwrap();
    let weight = |name: &str| profile.traits.iter().find(|it| it.name == name).map(|it| it.weight);
    assert!(weight("k:io").is_some(), "the keyword of its dependency `runtime`");
    assert!(weight("k:web") > weight("d:log"));
    let length: f32 = profile.traits.iter().map(|it| it.weight * it.weight).sum();
    assert!((length - 1.0).abs() < 1e-4);
    assert_eq!(profile.precision, Precision { examined: 2, wanted: 2 });
}

#[test]
fn neighbours_are_ranked_by_similarity_and_never_the_crate_itself() {
    let world = World::new().built();
    let stores = world.stores();
    let profile = Profiles::open(&stores).unwrap().of("newcomer@1.0.0", &mut || Checkpoint::FREE).unwrap();
    let history =
        Histories::open(&stores).unwrap().like(&profile.traits, "newcomer", &mut || Checkpoint::FREE).unwrap();
    assert!(history.neighbours.is_sorted_by(|a, b| a.similarity >= b.similarity));
    assert!(history.neighbours[0].user.starts_with("web"));
    assert!(history.neighbours.iter().all(|it| !it.user.starts_with("newcomer")));
    assert!(history.neighbours.iter().all(|it| it.similarity <= 1.0 + 1e-4));
}

#[test]
fn a_spent_budget_degrades_every_stage_and_each_says_so() {
    let world = World::new().built();
    let (profile, recommended) = recommend(&world.stores(), "newcomer@1.0.0", Checkpoint::with(Duration::ZERO));
    assert!(profile.precision.is_degraded());
    assert!(!profile.traits.is_empty(), "its own traits are read all the same");
    assert!(recommended.crates.is_empty());
}

#[test]
fn someone_unknown_is_refused_with_the_form_of_a_user() {
    let world = World::new().built();
    let error = Profiles::open(&world.stores()).unwrap().of("nobody", &mut || Checkpoint::FREE).unwrap_err();
    assert!(matches!(error, ReadError::NoSuchUser { .. }));
    assert!(error.to_string().contains("name@version"), "{error}");
}

#[test]
fn too_much_at_once_is_refused() {
    let world = World::new().built();
    let request = Request { traits: vec![], has: vec![], neighbours: vec![], limit: 0 };
    let error = Recommendations::open(&world.stores()).unwrap().rank(&request, &mut || Checkpoint::FREE).unwrap_err();
    assert_eq!(error.to_string(), "0 crates are wanted; allowed are 1 to 100");
}

#[test]
fn the_stores_are_reused_until_a_crate_changes() {
    let world = World::new();
    let (first, outcomes) = store::ensure(&world.crates(), &world.stores()).unwrap();
    assert_eq!(outcomes, [Outcome::Built; 3]);
    assert_eq!((first.crates, first.users), (14, 14));
    // Opening a store writes to its files; that is no damage.
    drop(Profiles::open(&world.stores()).unwrap());
    assert_eq!(store::ensure(&world.crates(), &world.stores()).unwrap(), (first, [Outcome::Reused; 3]));
    world.add("another", "web", &["http"]);
    let (second, outcomes) = store::ensure(&world.crates(), &world.stores()).unwrap();
    assert_eq!((second.crates, outcomes), (15, [Outcome::RebuiltAfterChange; 3]));
}

#[test]
fn a_store_that_is_open_elsewhere_is_refused_with_a_remedy() {
    let world = World::new().built();
    let first = Profiles::open(&world.stores()).unwrap();
    let error = Profiles::open(&world.stores()).err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(first);
    assert!(Profiles::open(&world.stores()).is_ok());
}

#[test]
fn users_are_drawn_from_the_stores_even_while_they_are_served() {
    let world = World::new().built();
    let profiles = Profiles::open(&world.stores()).unwrap();
    let mut sampler = Sampler::stored(&world.stores(), 1).unwrap();
    for _ in 0..50 {
        let request = sampler.request(10).unwrap();
        assert!(profiles.of(&request.user, &mut || Checkpoint::FREE).is_ok(), "{}", request.user);
    }
}

#[test]
fn a_store_that_was_not_built_is_refused() {
    let world = World::new();
    let error = Profiles::open(&world.stores()).err().unwrap();
    assert!(matches!(error, StoreError::Kept(KeptError::Missing { .. })), "{error}");
}
