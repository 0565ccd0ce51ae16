//! Classes of requests: who asks for what, and how soon the answer has to be there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// What results call it, for example `tight`.
    pub name: String,
    /// Its part of all requests, relative to the other classes' parts.
    pub share: f64,
    /// The expected deadline, from the scheduled send to the answer.
    pub deadline: Duration,
}

impl Class {
    /// A class of requests.
    pub fn new(name: impl Into<String>, share: f64, deadline: Duration) -> Self {
        Self { name: name.into(), share, deadline }
    }
}

/// The classes of a run.
///
/// 1. There is at least one class.
/// 2. Every share is a positive number.
/// 3. No two classes have the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes(Vec<Class>);

impl Classes {
    /// The given classes, in this order.
    pub fn new(classes: Vec<Class>) -> Result<Self, ClassesError> {
        if classes.is_empty() {
            return Err(ClassesError::Empty);
        }
        for (index, class) in classes.iter().enumerate() {
            if !(class.share.is_finite() && class.share > 0.0) {
                return Err(ClassesError::Share { name: class.name.clone(), share: class.share });
            }
            if classes[..index].iter().any(|earlier| earlier.name == class.name) {
                return Err(ClassesError::Twice { name: class.name.clone() });
            }
        }
        Ok(Self(classes))
    }

    /// One class for all requests.
    pub fn single(deadline: Duration) -> Self {
        Self(vec![Class::new("all", 1.0, deadline)])
    }

    /// The same mix with one expected deadline for all: for measuring what a target can serve at all.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self(self.0.iter().map(|class| Class { deadline, ..class.clone() }).collect())
    }

    /// The index of the class that `unit`, a number from `[0, 1)`, falls on.
    pub fn pick(&self, unit: f64) -> usize {
        let mut left = unit * self.0.iter().map(|class| class.share).sum::<f64>();
        let found = self.0.iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        found.unwrap_or(self.0.len() - 1)
    }

    /// The classes, in order.
    pub fn as_slice(&self) -> &[Class] {
        &self.0
    }
}

/// Why classes were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClassesError {
    /// There was none.
    #[error("no class of requests; state at least one")]
    Empty,
    /// A share makes no sense.
    #[error("class {name} has a share of {share}; a share is a positive number, relative to the other classes' shares")]
    Share {
        /// The class.
        name: String,
        /// Its share.
        share: f64,
    },
    /// Results couldn't tell two classes apart.
    #[error("two classes are called {name}; give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_class_is_picked_according_to_its_share() {
        let classes =
            Classes::new(vec![Class::new("tight", 1.0, MS), Class::new("loose", 3.0, 9 * MS)]).expect("valid");
        let picks = (0..1000).map(|n| classes.pick(f64::from(n) / 1000.0));
        assert_eq!(picks.filter(|&index| index == 0).count(), 250);
        assert_eq!(classes.pick(0.999_999), 1);
    }

    #[test]
    fn senseless_classes_are_refused_with_the_name_of_the_culprit() {
        assert_eq!(Classes::new(vec![]), Err(ClassesError::Empty));
        for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = Classes::new(vec![Class::new("odd", share, MS)]);
            assert!(matches!(refused, Err(ClassesError::Share { name, .. }) if name == "odd"), "share {share}");
        }
        let twice = Classes::new(vec![Class::new("a", 1.0, MS), Class::new("a", 1.0, MS)]);
        assert_eq!(twice, Err(ClassesError::Twice { name: "a".into() }));
    }
}
