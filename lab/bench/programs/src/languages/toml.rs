//! Reads a long file of settings (crate `toml`).

use toml::{Table, Value};

use crate::text;
use crate::{Job, Scale, checksum};

const SECTIONS: usize = 5000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = settings(scale.of(SECTIONS));
    Box::new(move || {
        let table: Table = text.parse().expect("the settings are well-formed");
        checksum(table.values().map(weight))
    })
}

/// A number in which everything in a value has its part.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.bytes().map(u64::from).sum(),
        Value::Integer(number) => *number as u64,
        Value::Float(number) => number.to_bits() >> 32,
        Value::Boolean(flag) => u64::from(*flag),
        Value::Datetime(time) => time.date.map_or(0, |date| u64::from(date.year)),
        Value::Array(values) => values.iter().map(weight).fold(0, u64::wrapping_add),
        Value::Table(table) => table.values().map(weight).fold(0, u64::wrapping_add),
    }
}

fn settings(sections: usize) -> String {
    let mut random = fastrand::Rng::with_seed(52);
    let words = text::words(53, 8 * sections);
    let mut words = words.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()).cycle();
    let mut word = || words.next().unwrap_or_default();
    let mut text = "title = \"settings\"\n".to_owned();
    for section in 0..sections {
        text.push_str(&format!(
            "\n[section-{section}] # {}\nname = \"{} \\\"{}\\\"\"\npath = '/{}/{}'\nsize = {}_000\nshare = {:.3}\n\
             on = {}\nsince = {}-03-04T05:06:07Z\nports = [ {}, {}, {} ]\n\n[section-{section}.limits]\nlow = -{}\n\
             high = {{ soft = 0x{:x}, hard = {}, names = [\"{}\", \"{}\"] }}\n",
            word(),
            word(),
            word(),
            word(),
            word(),
            random.u32(1..1000),
            random.f64(),
            random.bool(),
            random.u32(1970..2030),
            random.u16(..),
            random.u16(..),
            random.u16(..),
            random.u32(1..99),
            random.u16(..),
            random.u32(..),
            word(),
            word()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_read() {
        let table: Table = settings(40).parse().unwrap();
        assert_eq!(table.len(), 41);
        assert!(table["section-7"]["limits"]["high"]["names"].as_array().is_some_and(|names| names.len() == 2));
    }
}
