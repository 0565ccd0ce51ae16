//! Figures as text, as a page and as JSON.

use crate::claim::{Claim, Figure, Table, Verdict, Within};
use crate::{Effort, Entry};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// How many values have come out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Near enough.
    pub agree: usize,
    /// A parameter was fitted to them.
    pub fitted: usize,
    /// Differ for a stated reason.
    pub explained: usize,
    /// Differ.
    pub differ: usize,
}

impl Count {
    fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut count = Self::default();
        for verdict in verdicts {
            *match verdict {
                Verdict::Agrees => &mut count.agree,
                Verdict::Fitted => &mut count.fitted,
                Verdict::Explained => &mut count.explained,
                Verdict::Differs => &mut count.differ,
            } += 1;
        }
        count
    }

    /// Counts the verdicts of figures.
    #[must_use]
    pub fn of_figures(figures: &[(Entry, Figure)]) -> Self {
        Self::of(figures.iter().map(|(_, figure)| figure.verdict()))
    }

    /// Counts the verdicts of all their values.
    #[must_use]
    pub fn of_values(figures: &[(Entry, Figure)]) -> Self {
        Self::of(figures.iter().flat_map(|(_, figure)| &figure.claims).map(Claim::verdict))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> usize {
        self.agree + self.fitted + self.explained + self.differ
    }
}

/// One hash for all figures.
#[must_use]
pub fn hash(figures: &[(Entry, Figure)]) -> u64 {
    let mut all = Figure::default();
    figures.iter().for_each(|(_, figure)| all.note(figure.hash));
    all.hash
}

/// How many agree and how many don't, in a few lines.
#[must_use]
pub fn summary(figures: &[(Entry, Figure)]) -> String {
    let line = |name: &str, count: Count| {
        let cells = [count.all(), count.agree, count.explained, count.differ, count.fitted];
        std::iter::once(name.to_owned()).chain(cells.map(|cell| cell.to_string())).collect::<Vec<_>>()
    };
    let head = ["", "all", "agree", "differ, explained", "differ", "fitted"].map(str::to_owned);
    let rows = [line("figures", Count::of_figures(figures)), line("values", Count::of_values(figures))];
    format!("{}\nhash {:016x}", aligned(&head, &rows), hash(figures))
}

/// How long so many figures took, by how many threads and on how many cores. Not for the page, which is the same each time.
#[must_use]
pub fn took(figures: usize, effort: &Effort, took: Duration) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} took {:.1} s by {} on {}",
        counted(figures, "figure"),
        took.as_secs_f64(),
        counted(effort.threads, "thread"),
        counted(cores, "core"),
    )
}

/// A figure for a terminal.
#[must_use]
pub fn text(entry: &Entry, figure: &Figure) -> String {
    let mut text = format!("{}: {}\n", entry.name, entry.about);
    figure.text.iter().for_each(|paragraph| text += &wrapped(paragraph));
    if !figure.claims.is_empty() {
        let (values, reasons) = values(&figure.claims);
        text += &format!("\n{}", aligned(&values.head, &values.rows));
        for (at, reason) in reasons.iter().enumerate() {
            text += &wrapped(&format!("({}) {reason}", at + 1));
        }
    }
    for table in &figure.tables {
        text += "\n";
        if !table.title.is_empty() {
            text += &wrapped(&table.title);
        }
        text += &aligned(&table.head, &table.rows);
    }
    text + &format!("\nIt {}; hash {:016x}\n", figure.verdict(), figure.hash)
}

/// Lines of up to so many letters.
const WIDTH: usize = 100;

fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let letters = word.chars().count();
        if width > 0 && width + 1 + letters > WIDTH {
            lines.push('\n');
            width = 0;
        }
        if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines += word;
        width += letters;
    }
    lines + "\n"
}

/// Columns that stand below their names: numbers at the right, words at the left. Each line ends with a line break.
#[must_use]
pub fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let of = |row: &[String], column: usize| row.get(column).map_or("", String::as_str).to_owned();
    let columns: Vec<(usize, bool)> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().map(|row| of(row, column));
            let widest = cells.clone().map(|cell| width(&cell)).max().unwrap_or(0).max(width(&head[column]));
            let numbers = cells.filter(|cell| !cell.is_empty()).all(|cell| cell.parse::<f64>().is_ok());
            (widest, numbers)
        })
        .collect();
    let line = |row: &[String]| {
        let mut line = String::new();
        for (column, (widest, right)) in columns.iter().enumerate() {
            let cell = of(row, column);
            let gap = " ".repeat(widest - width(&cell));
            let between = if column == 0 { "" } else { "  " };
            line += &if *right { format!("{between}{gap}{cell}") } else { format!("{between}{cell}{gap}") };
        }
        format!("{}\n", line.trim_end())
    };
    std::iter::once(line(head)).chain(rows.iter().map(|row| line(row))).collect()
}

/// The page, in Markdown, of what `name` means. It says nothing of when or how fast it was made, so the same seed gives the same
/// page.
#[must_use]
pub fn markdown(figures: &[(Entry, Figure)], effort: &Effort, name: &str) -> String {
    let mut page = String::from(
        "# What published works report, and what comes out here\n\
         Greenwave's policies are those of five works. Here their tables and figures are simulated in virtual time by the \
         policy types that the framework runs with, and what comes out stands beside what the works say. It is a \
         simulation, not a measurement: costs are those that are stated, and what isn't stated costs nothing. Where a work \
         gives no figure, what it says stands in its place, with the threshold that ours is held against, which is our own.\n\n",
    );
    let how = if effort.quick { " --quick" } else { "" };
    for (what, count) in [("figures", Count::of_figures(figures)), ("values", Count::of_values(figures))] {
        let _ = writeln!(page, "{}\n", sentence(what, count));
    }
    let _ = writeln!(
        page,
        "A figure differs if one of its values does. Written by `greenwave reproduce {name}{how}` with seed {}; hash {:016x}.\n",
        effort.seed,
        hash(figures),
    );
    let mut overview =
        Table::new("", &["figure", "verdict", "values", "agree", "differ, explained", "differ", "fitted"]);
    for (entry, figure) in figures {
        let count = Count::of(figure.claims.iter().map(Claim::verdict));
        let counts = [count.all(), count.agree, count.explained, count.differ, count.fitted];
        let first = [format!("[{}](#{})", entry.name, entry.name), figure.verdict().to_string()];
        overview.row(first.into_iter().chain(counts.map(|count| count.to_string())));
    }
    page += &table(&overview);
    for (entry, figure) in figures {
        let _ = writeln!(page, "## {}\n{}{}.\n", entry.name, entry.about[..1].to_uppercase(), &entry.about[1..]);
        figure.text.iter().for_each(|text| page += &format!("{text}\n\n"));
        page += &claims(&figure.claims);
        figure.tables.iter().for_each(|values| page += &table(values));
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// How many have come out how, as a sentence.
fn sentence(what: &str, count: Count) -> String {
    let verb = |number: usize, one: &'static str, many: &'static str| if number == 1 { one } else { many };
    let Count { agree, fitted, explained, differ } = count;
    format!(
        "Of {} {what} {agree} {}, {explained} {} for a reason that is stated, {differ} {} without one, and {fitted} {} what a \
         parameter was fitted to, so {} nothing.",
        count.all(),
        verb(agree, "agrees", "agree"),
        verb(explained, "differs", "differ"),
        verb(differ, "differs", "differ"),
        verb(fitted, "is", "are"),
        verb(fitted, "it shows", "they show"),
    )
}

/// Values beside each other, and the reasons to which their verdicts refer.
fn values(claims: &[Claim]) -> (Table, Vec<&str>) {
    let mut values = Table::new("", &["value", "theirs", "ours", "verdict"]);
    let mut reasons: Vec<&str> = Vec::new();
    for claim in claims {
        let verdict = claim.verdict();
        let mut shown = verdict.to_string();
        if let Some(reason) = claim.reason.as_deref().filter(|_| verdict == Verdict::Explained) {
            let at = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            shown += &format!(" ({})", at + 1);
        }
        values.row([claim.what.clone(), theirs(claim), number(claim.ours), shown]);
    }
    (values, reasons)
}

/// The work's value, or what it says and what we hold ours against.
fn theirs(claim: &Claim) -> String {
    let value = number(claim.theirs);
    let Some(says) = &claim.says else { return value };
    let threshold = match claim.within {
        Within::AtLeast => format!("at least {value}"),
        Within::Amount(0.0) => value,
        Within::Amount(amount) => format!("{value}, {} more or less", number(amount)),
        Within::Share(share) => format!("{value}, {} % more or less", number(100.0 * share)),
    };
    format!("{says}; no figure, our threshold: {threshold}")
}

fn claims(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let (values, reasons) = values(claims);
    let mut text = table(&values);
    for (at, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "({}) {reason}\n", at + 1);
    }
    text
}

fn table(table: &Table) -> String {
    let mut text = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(text, "{}\n", table.title);
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text += &line(&table.head);
    text += &format!("|{}\n", "---|".repeat(table.head.len()));
    table.rows.iter().for_each(|row| text += &line(row));
    text + "\n"
}

/// Three significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let digits = if value == 0.0 { 0.0 } else { 2.0 - value.abs().log10().floor() };
    format!("{value:.*}", digits.clamp(0.0, 4.0) as usize)
}

/// A bar of up to 20 blocks: so much of the most that there is.
#[must_use]
pub fn bar(value: f64, most: f64) -> String {
    let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    "█".repeat((20.0 * share).round() as usize)
}

/// The same as JSON.
#[must_use]
pub fn json(figures: &[(Entry, Figure)], effort: &Effort) -> Value {
    let figure = |(entry, figure): &(Entry, Figure)| {
        let claim = |claim: &Claim| {
            json!({
                "what": claim.what, "theirs": claim.says.is_none().then_some(claim.theirs), "says": claim.says,
                "threshold": claim.says.is_some().then_some(claim.theirs), "ours": claim.ours,
                "verdict": claim.verdict().to_string(), "reason": claim.reason,
            })
        };
        let table = |table: &Table| json!({ "title": table.title, "head": table.head, "rows": table.rows });
        json!({
            "name": entry.name, "about": entry.about, "verdict": figure.verdict().to_string(),
            "hash": format!("{:016x}", figure.hash),
            "claims": figure.claims.iter().map(claim).collect::<Vec<_>>(),
            "tables": figure.tables.iter().map(table).collect::<Vec<_>>(),
        })
    };
    let counts = |count: Count| {
        let Count { agree, fitted, explained, differ } = count;
        json!({ "agree": agree, "explained": explained, "differ": differ, "fitted": fitted })
    };
    json!({
        "seed": effort.seed, "quick": effort.quick, "hash": format!("{:016x}", hash(figures)),
        "count": { "figures": counts(Count::of_figures(figures)), "values": counts(Count::of_values(figures)) },
        "figures": figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_names() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned);
        let rows = [cells(["a", "10"]).to_vec(), cells(["longer", "9"]).to_vec(), vec!["b".to_owned()]];
        assert_eq!(aligned(&cells(["what", "n"]), &rows), "what     n\na       10\nlonger   9\nb\n");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 0.012_34, 1.0, 12.345, 1234.5, f64::NAN].map(number),
            ["0", "0.0123", "1.00", "12.3", "1234", "none"]
        );
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        let blocks = |value, most| bar(value, most).chars().count();
        assert_eq!([blocks(5.0, 5.0), blocks(2.5, 5.0), blocks(0.1, 5.0), blocks(9.0, 5.0)], [20, 10, 0, 20]);
        assert_eq!([blocks(1.0, 0.0), blocks(f64::NAN, 1.0)], [0, 0]);
    }

    #[test]
    fn a_threshold_of_our_own_is_not_shown_as_the_works_value() {
        let figure = Claim::new("x", 0.9, 1.0, Within::AtLeast);
        assert_eq!(theirs(&figure), "0.900");
        assert_eq!(theirs(&figure.clone().in_words("near it")), "near it; no figure, our threshold: at least 0.900");
        let entry = crate::ENTRIES[0];
        let made = Figure { claims: vec![figure.clone(), figure.in_words("near it")], ..Figure::default() };
        let made = json(&[(entry, made)], &Effort { quick: true, threads: 1, seed: 1 });
        let claims = &made["figures"][0]["claims"];
        assert_eq!((&claims[0]["theirs"], &claims[0]["threshold"]), (&json!(0.9), &Value::Null));
        assert_eq!((&claims[1]["theirs"], &claims[1]["threshold"]), (&Value::Null, &json!(0.9)));
    }

    #[test]
    fn the_last_line_says_how_long_it_took_and_on_what() {
        let effort = Effort { quick: true, threads: 1, seed: 1 };
        let line = took(17, &effort, Duration::from_millis(312_340));
        assert!(line.starts_with("17 figures took 312.3 s by 1 thread on ") && line.contains(" core"), "{line}");
    }

    #[test]
    fn one_is_singular() {
        let ones = Count { agree: 1, fitted: 1, explained: 1, differ: 1 };
        assert_eq!(
            sentence("values", ones),
            "Of 4 values 1 agrees, 1 differs for a reason that is stated, 1 differs without one, and 1 is what a parameter was \
             fitted to, so it shows nothing."
        );
        let twos = Count { agree: 2, fitted: 2, explained: 2, differ: 0 };
        assert!(
            sentence("values", twos)
                .contains("2 agree, 2 differ for a reason that is stated, 0 differ without one, and 2 are")
        );
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= WIDTH) && text.lines().count() == 3);
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
