/// Feeds each seed of a fuzz target to its driver. Crates include this file in their tests, so that what the targets have found
/// to be worth trying is tried wherever there is no fuzzer.
pub(crate) fn replay(target: &str, driver: impl Fn(&[u8])) {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are no seeds");
    for path in paths {
        // Of a driver that panics, what it was fed with is what one wants to know.
        println!("{}", path.display());
        driver(&std::fs::read(&path).unwrap());
    }
}
