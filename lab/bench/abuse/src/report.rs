//! What the server and the attacker tell of themselves: names and numbers in a line.

use greenwave_bench::rounds::Figures;

/// The question.
pub(crate) const QUESTION: &str = "report";
/// What the answer begins with.
pub(crate) const ANSWER: &str = "report ";

/// The line of some figures.
pub(crate) fn line<'a>(figures: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let words: Vec<String> = figures.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{ANSWER}{}", words.join(" "))
}

/// The figures of a line.
pub(crate) fn parse(line: &str) -> Figures {
    let words = line.strip_prefix(ANSWER).unwrap_or_default().split(' ');
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let said = parse(&line([("calls", 7), ("bytes", 0)]));
        assert_eq!((said["calls"], said["bytes"], said.len()), (7.0, 0.0, 2));
        assert!(parse("something else").is_empty());
    }
}
