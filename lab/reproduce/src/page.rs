//! Figures as a page and as JSON.

use crate::claim::{Claim, Figure, Table, Verdict};
use crate::{Effort, Entry};
use serde_json::{Value, json};
use std::fmt::Write;

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

/// Counts verdicts.
#[must_use]
pub fn count(figures: &[(Entry, Figure)]) -> Count {
    let mut count = Count::default();
    for claim in figures.iter().flat_map(|(_, figure)| &figure.claims) {
        *match claim.verdict() {
            Verdict::Agrees => &mut count.agree,
            Verdict::Fitted => &mut count.fitted,
            Verdict::Explained => &mut count.explained,
            Verdict::Differs => &mut count.differ,
        } += 1;
    }
    count
}

/// The page, in Markdown. It says nothing of when or how fast it was made, so the same seed gives the same page.
#[must_use]
pub fn markdown(figures: &[(Entry, Figure)], effort: &Effort) -> String {
    let mut page = String::from(
        "# What published works report, and what comes out here\n\
         Greenwave's policies are those of five works. Here their tables and figures are simulated in virtual time by the \
         policy types that the framework runs with, and what comes out stands beside what the works say. It is a \
         simulation, not a measurement: costs are those that are stated, and what isn't stated costs nothing.\n\n",
    );
    let Count { agree, fitted, explained, differ } = count(figures);
    let how = if effort.quick { " --quick" } else { "" };
    let _ = writeln!(
        page,
        "Of {} values {agree} agree, {explained} differ for a reason that is stated, {differ} differ without one, and \
         {fitted} are what a parameter was fitted to, so they show nothing. Written by `greenwave reproduce all{how}` with \
         seed {}.\n",
        agree + fitted + explained + differ,
        effort.seed
    );
    for (entry, figure) in figures {
        let _ = writeln!(page, "## {}: {}", entry.name, entry.about);
        figure.text.iter().for_each(|text| page += &format!("{text}\n\n"));
        page += &claims(&figure.claims);
        figure.tables.iter().for_each(|values| page += &table(values));
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

fn claims(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
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
        values.row([claim.what.clone(), number(claim.theirs), number(claim.ours), shown]);
    }
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

/// The same as JSON.
#[must_use]
pub fn json(figures: &[(Entry, Figure)], effort: &Effort) -> Value {
    let figure = |(entry, figure): &(Entry, Figure)| {
        let claim = |claim: &Claim| {
            json!({
                "what": claim.what, "theirs": claim.theirs, "ours": claim.ours, "verdict": claim.verdict().to_string(),
                "reason": claim.reason,
            })
        };
        let table = |table: &Table| json!({ "title": table.title, "head": table.head, "rows": table.rows });
        json!({
            "name": entry.name, "about": entry.about, "hash": format!("{:016x}", figure.hash),
            "claims": figure.claims.iter().map(claim).collect::<Vec<_>>(),
            "tables": figure.tables.iter().map(table).collect::<Vec<_>>(),
        })
    };
    let Count { agree, fitted, explained, differ } = count(figures);
    json!({
        "seed": effort.seed, "quick": effort.quick,
        "agree": agree, "fitted": fitted, "explained": explained, "differ": differ,
        "figures": figures.iter().map(figure).collect::<Vec<_>>(),
    })
}
