//! Renders a document in Markdown as HTML (crate `pulldown-cmark`).

use pulldown_cmark::{Options, Parser, html};

use crate::text;
use crate::{Job, Scale, checksum};

const SECTIONS: usize = 6000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = document(scale.of(SECTIONS));
    Box::new(move || checksum(rendered(&text).bytes().step_by(16).map(u64::from)))
}

fn rendered(text: &str) -> String {
    let mut made = String::new();
    html::push_html(&mut made, Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH));
    made
}

/// Headings, paragraphs with emphasis, code and links, lists in lists, quotes, tables and blocks of code.
fn document(sections: usize) -> String {
    let mut random = fastrand::Rng::with_seed(43);
    let words = text::words(44, 60 * sections);
    let mut words = words.split_whitespace().cycle();
    let mut some = |count: usize| words.by_ref().take(count).collect::<Vec<_>>().join(" ");
    let mut text = String::new();
    for section in 0..sections {
        text.push_str(&format!("{} {}\n\n", "#".repeat(1 + section % 4), some(4)));
        for _ in 0..random.usize(3..12) {
            text.push_str(&match random.u32(0..6) {
                0 => format!("*{}* ", some(2)),
                1 => format!("**{} _{}_** ", some(1), some(1)),
                2 => format!("`{}` ", some(2)),
                3 => format!("[{}](https://example.org/{section} \"{}\") ", some(2), some(1)),
                _ => format!("{} &amp; ", some(6)),
            });
        }
        text.push_str("\n\n");
        match random.u32(0..4) {
            0 => (0..6).for_each(|at| text.push_str(&format!("{}- {}\n", "  ".repeat(at % 3), some(5)))),
            1 => (0..4).for_each(|at| text.push_str(&format!("> {} {}\n", "> ".repeat(at % 2), some(7)))),
            2 => {
                text.push_str("| a | b |\n|---|:-:|\n");
                (0..5).for_each(|_| text.push_str(&format!("| {} | *{}* |\n", some(2), some(1))));
            }
            _ => text.push_str(&format!("```text\n{}\n```\n", some(12))),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_its_heading() {
        let made = rendered(&document(80));
        assert_eq!((1..=4).map(|level| made.matches(&format!("<h{level}>")).count()).sum::<usize>(), 80);
    }
}
