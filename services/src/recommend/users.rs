//! Users and their traits: what the stores are filled with.
//!
//! A user is a crate in one version, with its default features (`serde@1.0.0`) or with one feature alone
//! (`serde@1.0.0+derive`). A trait is something that it may have in common with others: a dependency (`d:libc`), a
//! feature of a dependency (`f:libc/std`), a keyword (`k:parser`), a category (`c:parsing`) or a feature of its own
//! (`o:std`). Its weight says how much that tells, before it is known how rare the trait is.

use std::collections::{BTreeMap, BTreeSet};

use crate::proto::recommend::Trait;

use super::registry::{Crate, Dependency, Need};

/// A user.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Its name.
    pub id: String,
    /// Its traits, by name.
    pub traits: Vec<Trait>,
}

impl Trait {
    /// The crate that this trait is a dependency on.
    pub fn dependency(&self) -> Option<&str> {
        self.name.strip_prefix("d:")
    }
}

/// The users that a crate makes.
pub fn of(found: &Crate) -> impl Iterator<Item = User> + '_ {
    let plain = User { id: id(found, None), traits: traits(found, "default") };
    let featured = found.features.keys().filter(|feature| *feature != "default");
    let featured = featured.map(|feature| User { id: id(found, Some(feature)), traits: traits(found, feature) });
    std::iter::once(plain).chain(featured)
}

fn id(found: &Crate, feature: Option<&str>) -> String {
    let Crate { name, version, .. } = found;
    feature.map_or_else(|| format!("{name}@{version}"), |feature| format!("{name}@{version}+{feature}"))
}

fn traits(found: &Crate, feature: &str) -> Vec<Trait> {
    let on = found.turned_on_by(feature);
    let mut traits = Traits::default();
    for keyword in &found.keywords {
        traits.add(format!("k:{}", keyword.to_lowercase()), 0.8);
    }
    for category in &found.categories {
        traits.add(format!("c:{}", category.to_lowercase()), 0.6);
    }
    for dependency in found.dependencies.iter().filter(|dependency| is_on(dependency, &on)) {
        traits.add(format!("d:{}", dependency.name), weight_of(dependency.kind));
        for feature in features_of(dependency, &on) {
            traits.add(format!("f:{}/{feature}", dependency.name), 0.5 * weight_of(dependency.kind));
        }
    }
    for feature in on.into_iter().filter(|on| found.features.contains_key(*on)) {
        traits.add(format!("o:{feature}"), 0.3);
    }
    traits.into_list()
}

fn weight_of(need: Need) -> f32 {
    match need {
        Need::Use => 1.0,
        Need::Build => 0.5,
        Need::Tests => 0.2,
    }
}

/// Whether the dependency is there with these things turned on: `dep:name`, `name/feature` or plainly `name`.
fn is_on(dependency: &Dependency, on: &BTreeSet<&str>) -> bool {
    let alias = dependency.alias.as_str();
    let named = |on: &str| on.strip_prefix("dep:").or(on.split_once('/').map(|(name, _)| name)).unwrap_or(on) == alias;
    !dependency.optional || on.iter().any(|on| named(on))
}

fn features_of<'a>(dependency: &'a Dependency, on: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    let through = on.iter().filter_map(|on| on.split_once('/'));
    let through =
        through.filter(|(name, _)| name.trim_end_matches('?') == dependency.alias).map(|(_, feature)| feature);
    dependency.features.iter().map(String::as_str).chain(through)
}

/// Traits by name; one that is added twice keeps its larger weight.
#[derive(Default)]
struct Traits(BTreeMap<String, f32>);

impl Traits {
    fn add(&mut self, name: String, weight: f32) {
        let known = self.0.entry(name).or_insert(weight);
        *known = known.max(weight);
    }

    fn into_list(self) -> Vec<Trait> {
        self.0.into_iter().map(|(name, weight)| Trait { name, weight }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Vec<User> {
        let found = Crate::parse(
            r#"
            [package]
            name = "ring"
            version = "1.2.0"
            keywords = ["Queue"]
            [dependencies]
            loom = { version = "0.7", features = ["futures"] }
            serde = { version = "1", optional = true }
            rayon = { version = "1", optional = true }
            [dev-dependencies]
            proptest = "1"
            [features]
            default = ["std"]
            std = ["serde?/std"]
            parallel = ["dep:rayon", "serde/derive"]
            "#,
        );
        of(&found.unwrap()).collect()
    }

    fn names(user: &User) -> Vec<&str> {
        user.traits.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn a_crate_makes_one_user_for_itself_and_one_for_each_feature() {
        let ids: Vec<_> = users().into_iter().map(|user| user.id).collect();
        assert_eq!(ids, ["ring@1.2.0", "ring@1.2.0+parallel", "ring@1.2.0+std"]);
    }

    #[test]
    fn an_optional_dependency_is_there_only_if_a_feature_turns_it_on() {
        let users = users();
        assert_eq!(names(&users[0]), ["d:loom", "d:proptest", "f:loom/futures", "k:queue", "o:default", "o:std"]);
        assert_eq!(
            names(&users[1]),
            ["d:loom", "d:proptest", "d:rayon", "d:serde", "f:loom/futures", "f:serde/derive", "k:queue", "o:parallel"]
        );
    }

    #[test]
    fn what_is_needed_for_tests_tells_less_than_what_is_used() {
        let users = users();
        let weight = |name: &str| users[0].traits.iter().find(|it| it.name == name).unwrap().weight;
        assert!(weight("d:loom") > weight("d:proptest"));
        assert!(weight("d:loom") > weight("f:loom/futures"));
    }
}
