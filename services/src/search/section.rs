//! Cutting a file into sections, the documents of the index.
//!
//! A match in a file of half a megabyte says little; a section of a few kilobytes can be read, ranked and shown. A
//! section ends at the first blank line after [`COMFORTABLE`] bytes, and otherwise at the last line end (or, within
//! an endless line, the last character) before [`LONGEST`].

/// From this many bytes on, a section ends at the next blank line.
pub const COMFORTABLE: usize = 2048;

/// No section has more bytes than this.
pub const LONGEST: usize = 4096;

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The line of the file on which it begins, from 1.
    pub line: u32,
    /// Its text.
    pub text: &'a str,
}

/// The sections of a text, in order; together they are the text. Sections of white space alone are left out.
pub fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (text, after) = rest.split_at(end_of_section(rest));
            let section = Section { line, text };
            let breaks = text.bytes().filter(|byte| *byte == b'\n').count();
            line = line.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
            rest = after;
            if !text.trim().is_empty() {
                return Some(section);
            }
        }
        None
    })
}

fn end_of_section(text: &str) -> usize {
    if text.len() <= COMFORTABLE {
        return text.len();
    }
    let window = &text.as_bytes()[..text.len().min(LONGEST)];
    if let Some(blank) = window[COMFORTABLE..].windows(2).position(|pair| pair == b"\n\n") {
        return COMFORTABLE + blank + 2;
    }
    if text.len() <= LONGEST {
        return text.len();
    }
    match window.iter().rposition(|byte| *byte == b'\n') {
        Some(line_end) => line_end + 1,
        None => text.floor_char_boundary(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<Section<'_>> {
        let sections: Vec<_> = sections(text).collect();
        assert_eq!(sections.iter().map(|section| section.text).collect::<String>(), text);
        assert!(sections.iter().all(|section| section.text.len() <= LONGEST));
        for section in &sections {
            let start = section.text.as_ptr() as usize - text.as_ptr() as usize;
            assert_eq!(section.line as usize, 1 + text[..start].matches('\n').count());
        }
        sections
    }

    #[test]
    fn a_short_text_is_one_section() {
        assert_eq!(check("fn main() {}\n").len(), 1);
    }

    #[test]
    fn a_section_ends_at_a_blank_line_once_it_is_comfortable() {
        let text = format!("{}\n\n{}\n\nend\n", "a line\n".repeat(300), "b line\n".repeat(200));
        let sections = check(&text);
        assert!(sections[0].text.ends_with("a line\n\n"), "{:?}", sections[0].text);
    }

    #[test]
    fn without_blank_lines_a_section_ends_at_a_line() {
        let sections = check(&"no blank line anywhere\n".repeat(1000)).len();
        assert!(sections > 5);
    }

    #[test]
    fn an_endless_line_is_cut_between_characters() {
        assert!(check(&"ää€ö".repeat(3000)).len() > 5);
    }

    #[test]
    fn white_space_alone_is_no_section() {
        assert_eq!(sections("").count(), 0);
        assert_eq!(sections(" \n\n \t\n").count(), 0);
    }
}
