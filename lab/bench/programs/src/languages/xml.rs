//! Reads XML into a tree and walks it (crate `roxmltree`).

use roxmltree::Document;

use crate::text;
use crate::{Job, Scale, checksum};

const BOOKS: usize = 16_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = library(scale.of(BOOKS));
    Box::new(move || {
        let document = Document::parse(&text).expect("the text is well-formed");
        let of = |node: roxmltree::Node<'_, '_>| {
            let attributes: usize = node.attributes().map(|attribute| attribute.value().len()).sum();
            (attributes + node.tag_name().name().len() * 31 + node.text().map_or(0, str::len) * 17) as u64
        };
        checksum(document.descendants().map(of))
    })
}

fn library(books: usize) -> String {
    let mut random = fastrand::Rng::with_seed(54);
    let words = text::words(55, 8 * books);
    let mut words = words.split_whitespace().cycle();
    let mut word = || words.next().unwrap_or_default();
    let mut text = "<?xml version=\"1.0\"?>\n<library xmlns:x=\"urn:example\">\n".to_owned();
    for book in 0..books {
        text.push_str(&format!(
            "  <book id=\"b{book}\" x:shelf=\"{}\">\n    <title>{} &amp; {}</title>\n    <!-- {} -->\n    <price>{}</price>\n",
            random.u32(0..100), word(), word(), word(), random.u32(..)
        ));
        for _ in 0..random.usize(0..4) {
            text.push_str(&format!("    <by first='{}'><![CDATA[{}]]></by>\n", word(), word()));
        }
        text.push_str("    <sold/>\n  </book>\n");
    }
    text.push_str("</library>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_book_is_found() {
        let text = library(50);
        let document = Document::parse(&text).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("book")).count(), 50);
    }
}
