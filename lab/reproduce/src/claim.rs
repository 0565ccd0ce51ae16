//! A value of a work, and ours.

use std::fmt;

/// A table or figure: what was assumed, what is claimed, and what was found beside that.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// What the work says and how it was simulated: paragraphs.
    pub text: Vec<String>,
    /// Values beside each other.
    pub claims: Vec<Claim>,
    /// Values that the work has none of.
    pub tables: Vec<Table>,
    /// The hashes of all runs, in one: the same seed gives the same.
    pub hash: u64,
}

impl Figure {
    /// What comes of comparing all of its values: that of the one that is furthest from agreeing. A figure whose values were
    /// all fitted to shows nothing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = [Verdict::Differs, Verdict::Explained, Verdict::Agrees];
        let has = |verdict: &Verdict| self.claims.iter().any(|claim| claim.verdict() == *verdict);
        worst.into_iter().find(has).unwrap_or(Verdict::Fitted)
    }

    /// Adds the hash of a run.
    pub fn note(&mut self, hash: u64) {
        self.hash = (self.hash.rotate_left(5) ^ hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// A value of the work's and ours.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What it is, with its unit.
    pub what: String,
    /// The work's; or, where it says only in words what it found, the threshold of our own that ours is held against.
    pub theirs: f64,
    /// What the work says, where it gives no figure.
    pub says: Option<String>,
    /// Ours.
    pub ours: f64,
    /// What is taken for agreement.
    pub within: Within,
    /// Why ours is another, where that is known. It doesn't make a value agree.
    pub reason: Option<String>,
    /// Whether a parameter was fitted to this value, so that agreement says nothing.
    pub is_fitted: bool,
}

/// How near is near enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Within {
    /// This share of the work's value.
    Share(f64),
    /// So much more or less.
    Amount(f64),
    /// At least the work's value.
    AtLeast,
}

/// What comes of comparing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Near enough.
    Agrees,
    /// A parameter was fitted to it.
    Fitted,
    /// Not near enough, for a reason that is stated.
    Explained,
    /// Not near enough, and no reason is known.
    Differs,
}

impl Claim {
    /// A value beside the work's.
    #[must_use]
    pub fn new(what: impl Into<String>, theirs: f64, ours: f64, within: Within) -> Self {
        Self { what: what.into(), theirs, says: None, ours, within, reason: None, is_fitted: false }
    }

    /// Why ours is another, if it is.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// The work says so and gives no figure: what stands as its value is a threshold of our own.
    #[must_use]
    pub fn in_words(self, says: impl Into<String>) -> Self {
        Self { says: Some(says.into()), ..self }
    }

    /// A parameter was fitted to it.
    #[must_use]
    pub fn fitted(self) -> Self {
        Self { is_fitted: true, ..self }
    }

    /// What comes of comparing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let near = match self.within {
            Within::Share(share) => (self.ours - self.theirs).abs() <= share * self.theirs.abs(),
            Within::Amount(amount) => (self.ours - self.theirs).abs() <= amount,
            Within::AtLeast => self.ours >= self.theirs,
        };
        match (near, &self.reason) {
            (true, _) if self.is_fitted => Verdict::Fitted,
            (true, _) => Verdict::Agrees,
            (false, Some(_)) => Verdict::Explained,
            (false, None) => Verdict::Differs,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agrees => "agrees",
            Self::Fitted => "fitted",
            Self::Explained => "differs, explained",
            Self::Differs => "differs",
        })
    }
}

/// Values without a counterpart.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of columns.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// With these columns.
    #[must_use]
    pub fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_as_its_worst_value() {
        let agrees = Claim::new("x", 2.0, 2.0, Within::Share(0.1));
        let differs = Claim { ours: 3.0, ..agrees.clone() };
        let of = |claims: &[&Claim]| {
            Figure { claims: claims.iter().map(|claim| (*claim).clone()).collect(), ..Figure::default() }.verdict()
        };
        let fitted = agrees.clone().fitted();
        assert_eq!(of(&[&fitted]), Verdict::Fitted);
        assert_eq!(of(&[&fitted, &agrees]), Verdict::Agrees);
        assert_eq!(of(&[&agrees, &differs.clone().because("a reason")]), Verdict::Explained);
        assert_eq!(of(&[&agrees, &differs.clone().because("a reason"), &differs]), Verdict::Differs);
    }

    #[test]
    fn a_reason_explains_and_does_not_make_agree() {
        let claim = Claim::new("x", 2.0, 3.0, Within::Share(0.25));
        assert_eq!(claim.verdict(), Verdict::Differs);
        assert_eq!(claim.clone().because("a reason").verdict(), Verdict::Explained);
        assert_eq!(Claim { ours: 2.4, ..claim.clone() }.because("a reason").verdict(), Verdict::Agrees);
        assert_eq!(Claim { ours: 2.4, ..claim.clone() }.fitted().verdict(), Verdict::Fitted);
        assert_eq!(claim.clone().fitted().verdict(), Verdict::Differs);
        assert_eq!(Claim { within: Within::AtLeast, ..claim.clone() }.verdict(), Verdict::Agrees);
        assert_eq!(Claim { ours: f64::NAN, ..claim }.verdict(), Verdict::Differs);
    }
}
