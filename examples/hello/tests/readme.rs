//! The README shows this service as it is.

#[test]
fn the_readme_shows_the_files_of_this_example() {
    let readme = include_str!("../../../README.md");
    let own = [include_str!("../build.rs"), include_str!("../src/main.rs"), include_str!("../src/bin/greet.rs")];
    for file in own.into_iter().chain([include_str!("../proto/hello.proto")]) {
        assert!(readme.contains(file), "the README doesn't have\n{file}");
    }
}
