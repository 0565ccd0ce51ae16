//! Which pages link to which address (Phoenix `reverse_index`).

use std::collections::HashMap;

use crate::{Job, Scale, checksum};

const PAGES: usize = 2000;
const LINKS_PER_PAGE: usize = 100;
const ADDRESSES: usize = 20_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let mut random = fastrand::Rng::with_seed(6);
    let pages: Vec<String> = (0..scale.of(PAGES)).map(|_| page(&mut random)).collect();
    Box::new(move || {
        let index = reverse_index(&pages);
        checksum(index.iter().flat_map(|(link, pages)| {
            let length = link.len() as u64;
            pages.iter().map(move |&page| length << 32 | u64::from(page))
        }))
    })
}

fn page(random: &mut fastrand::Rng) -> String {
    let mut page = String::from("<html><body>\n");
    for _ in 0..LINKS_PER_PAGE {
        // Some addresses are linked to far more often than others.
        let address = random.usize(0..ADDRESSES) * random.usize(0..ADDRESSES) / ADDRESSES;
        page.push_str("<p>A paragraph that says little <b>but</b> leads on: ");
        page.push_str(&format!("<a class=\"it\" href=\"http://host{}.example/{address:x}.html\">", address % 97));
        page.push_str("follow it</a></p>\n");
    }
    page + "</body></html>\n"
}

/// The addresses in order, each with the numbers of the pages that have a link to it.
fn reverse_index(pages: &[String]) -> Vec<(&str, Vec<u32>)> {
    let mut index: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, page) in (0..).zip(pages) {
        for link in links(page) {
            let pages = index.entry(link).or_default();
            if pages.last() != Some(&number) {
                pages.push(number);
            }
        }
    }
    let mut index: Vec<_> = index.into_iter().collect();
    index.sort_unstable();
    index
}

/// The addresses in `href="..."` within tags `<a ...>`.
fn links(page: &str) -> Vec<&str> {
    let bytes = page.as_bytes();
    let mut links = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at..].starts_with(b"<a ") {
            at += 1;
            continue;
        }
        let mut end = at;
        while end < bytes.len() && bytes[end] != b'>' {
            end += 1;
        }
        if let Some((_, rest)) = page[at..end].split_once("href=\"")
            && let Some((link, _)) = rest.split_once('"')
        {
            links.push(link);
        }
        at = end;
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_anchors_alone() {
        let page = r#"<p href="no"><a class="x" href="one">t</a> <abbr href="no"> <a name="no"> <a href="two">"#;
        assert_eq!(links(page), ["one", "two"]);
    }

    #[test]
    fn every_address_lists_its_pages_once_and_in_order() {
        let page = |links: &[&str]| links.iter().map(|link| format!("<a href=\"{link}\">x</a>")).collect::<String>();
        let pages = [page(&["b", "a", "b"]), page(&["c"]), page(&["a", "c"])];
        assert_eq!(reverse_index(&pages), [("a", vec![0, 2]), ("b", vec![0]), ("c", vec![1, 2])]);
    }
}
