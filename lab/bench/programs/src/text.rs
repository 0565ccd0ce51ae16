//! Text that is made up: words with frequencies like those of a language.

/// A vocabulary of this many words.
const VOCABULARY: usize = 8000;

/// So many words with spaces and a few commas, full stops and line ends between them.
pub(crate) fn words(seed: u64, count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let vocabulary: Vec<String> =
        (0..VOCABULARY).map(|_| (0..random.usize(2..5)).map(|_| syllable(&mut random)).collect::<String>()).collect();
    let mut text = String::new();
    for _ in 0..count {
        // The density of the n-th word falls about as 1/n, as Zipf found.
        let rank = (VOCABULARY as f64).powf(random.f64()) as usize - 1;
        text.push_str(&vocabulary[rank.min(VOCABULARY - 1)]);
        text.push_str(match random.u32(0..40) {
            0 => ".\n",
            1..4 => ", ",
            _ => " ",
        });
    }
    text
}

fn syllable(random: &mut fastrand::Rng) -> String {
    let (consonants, vowels) = (b"bcdfghjklmnprstvwz", b"aeiou");
    [consonants[random.usize(0..consonants.len())], vowels[random.usize(0..vowels.len())]]
        .map(char::from)
        .iter()
        .collect()
}
