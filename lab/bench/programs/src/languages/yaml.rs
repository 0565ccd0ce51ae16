//! Reads a long file in YAML (crate `yaml-rust2`).

use yaml_rust2::{Yaml, YamlLoader};

use crate::text;
use crate::{Job, Scale, checksum};

const SERVICES: usize = 4500;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = services(scale.of(SERVICES));
    Box::new(move || checksum(read(&text).iter().map(weight)))
}

fn read(text: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(text).expect("the text is well-formed")
}

/// A number in which everything in a value has its part.
fn weight(value: &Yaml) -> u64 {
    match value {
        Yaml::Real(text) | Yaml::String(text) => text.bytes().map(u64::from).sum(),
        Yaml::Integer(number) => *number as u64,
        Yaml::Boolean(flag) => u64::from(*flag),
        Yaml::Array(values) => values.iter().map(weight).fold(1, u64::wrapping_add),
        Yaml::Hash(values) => values.iter().map(|(key, value)| weight(key) ^ weight(value)).fold(0, u64::wrapping_add),
        Yaml::Alias(_) | Yaml::Null | Yaml::BadValue => 7,
    }
}

fn services(count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(56);
    let words = text::words(57, 8 * count);
    let mut words = words.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()).cycle();
    let mut word = || words.next().unwrap_or_default();
    let mut text = "services:\n".to_owned();
    for service in 0..count {
        text.push_str(&format!(
            "  {}-{service}:\n    image: \"{}:\\u00e9 {}\"\n    command: [{}, '--{}', {}]\n    limits: {{ cpu: {:.2}, memory: {} }}\n    \
             on: true # {}\n    about: |\n      {} {}\n      {}\n    needs:\n",
            word(), word(), word(), word(), word(), random.u32(..), random.f64(), random.u32(..), word(), word(),
            word(), word()
        ));
        (0..random.usize(1..4)).for_each(|_| text.push_str(&format!("      - {}\n", word())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_read() {
        let [document] = &read(&services(30))[..] else { panic!("there is one document") };
        let services = document["services"].as_hash().unwrap();
        assert_eq!(services.len(), 30);
        assert!(services.values().all(|service| service["limits"]["cpu"].as_f64().is_some()));
    }
}
