//! The settings of an admission.

use greenwave_policy::{AdmissionConfig, AdmissionConfigError, Order};
use http::{Extensions, Uri};
use std::fmt;
use std::sync::Arc;

/// How an [`AdmissionLayer`](crate::AdmissionLayer) admits. Each setting has a default that is right for most.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    pub(super) permits: usize,
    pub(super) order: Order,
    pub(super) admission: AdmissionConfig,
    pub(super) report_only: bool,
    pub(super) work_quantile: f64,
    pub(super) late_share: f64,
    pub(super) methods: usize,
    pub(super) method_of: Option<MethodOf>,
}

/// What names a request's method.
type MethodOf = Arc<dyn for<'a> Fn(&'a Uri, &'a Extensions) -> &'a str + Send + Sync>;

/// By default there are so many permits for each processor.
const PERMITS_PER_PROCESSOR: usize = 4;

impl Settings {
    /// How many requests are served at once, 1 or more; by default four for each processor.
    ///
    /// Work waits here, in order, or in the runtime's queue and the processor's, in none: so few are better, as few as keep
    /// the processors busy. A handler that computes is one; of handlers that mostly wait for others it takes the more the
    /// longer they wait (their rate times the time they take). Handlers that call the same server, through others perhaps,
    /// need a permit for each level.
    #[must_use]
    pub fn permits(self, permits: usize) -> Self {
        Self { permits, ..self }
    }

    /// Who of those that wait goes first; by default [`Order::Guarded`].
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// What is refused, and how many may wait (`max_queue`); by default as [`AdmissionConfig`] has it.
    #[must_use]
    pub fn admission(self, admission: AdmissionConfig) -> Self {
        Self { admission, ..self }
    }

    /// Whether requests are only counted that would be refused, by default not. Permits and the order hold all the same.
    #[must_use]
    pub fn report_only(self, report_only: bool) -> Self {
        Self { report_only, ..self }
    }

    /// The quantile of its method's times that a request must have time for, 0 to 1; by default 0.1. The margin on it
    /// follows the outcomes.
    #[must_use]
    pub fn work_quantile(self, quantile: f64) -> Self {
        Self { work_quantile: quantile, ..self }
    }

    /// How many of the begun may come too late, 0 to 1, at which the margin aims; by default 0.01.
    #[must_use]
    pub fn late_share(self, share: f64) -> Self {
        Self { late_share: share, ..self }
    }

    /// How many methods are learned apart, by default 256; all further ones are taken for one. Each takes about 3 KiB.
    #[must_use]
    pub fn methods(self, most: usize) -> Self {
        Self { methods: most, ..self }
    }

    /// What tells methods apart; by default the request's path.
    ///
    /// Where paths have parameters the route says more. With axum, whose `Router::layer` comes after routing:
    /// ```
    /// use axum::extract::MatchedPath;
    /// use greenwave_tower::Settings;
    ///
    /// let settings = Settings::default().method_of(|uri, extensions| {
    ///     extensions.get::<MatchedPath>().map_or(uri.path(), MatchedPath::as_str)
    /// });
    /// ```
    #[must_use]
    pub fn method_of<F>(self, name: F) -> Self
    where
        F: for<'a> Fn(&'a Uri, &'a Extensions) -> &'a str + Send + Sync + 'static,
    {
        Self { method_of: Some(Arc::new(name)), ..self }
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// The first one that isn't, with what is allowed.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if self.permits == 0 {
            return Err(SettingsError::Permits);
        }
        for (name, given) in [("work_quantile", self.work_quantile), ("late_share", self.late_share)] {
            if !(0.0..=1.0).contains(&given) {
                return Err(SettingsError::Share { name, given });
            }
        }
        Ok(self.admission.validate()?)
    }

    pub(super) fn name<'a>(&self, uri: &'a Uri, extensions: &'a Extensions) -> &'a str {
        self.method_of.as_ref().map_or(uri.path(), |name| name(uri, extensions))
    }

    /// Whether anything is refused.
    pub(super) fn refuses(&self) -> bool {
        self.admission.enabled && !self.report_only
    }
}

impl Default for Settings {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            permits: PERMITS_PER_PROCESSOR * processors,
            order: Order::default(),
            admission: AdmissionConfig::default(),
            report_only: false,
            work_quantile: 0.1,
            late_share: 0.01,
            methods: 256,
            method_of: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("permits", &self.permits)
            .field("order", &self.order)
            .field("admission", &self.admission)
            .field("report_only", &self.report_only)
            .field("work_quantile", &self.work_quantile)
            .field("late_share", &self.late_share)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}

/// A value of [`Settings`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// Nothing would be served.
    Permits,
    /// A share is a number from 0 to 1.
    Share {
        /// Of which setting.
        name: &'static str,
        /// What was set.
        given: f64,
    },
    /// One of those of admission.
    Admission(AdmissionConfigError),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permits => f.write_str("permits is 0, which serves nothing; allowed: 1 or more"),
            Self::Share { name, given } => write!(f, "{name} is {given}; allowed: 0 to 1"),
            Self::Admission(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SettingsError {}

impl From<AdmissionConfigError> for SettingsError {
    fn from(error: AdmissionConfigError) -> Self {
        Self::Admission(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_named() {
        assert_eq!(Settings::default().validate(), Ok(()));
        assert_eq!(Settings::default().permits(0).validate(), Err(SettingsError::Permits));
        let quantile = Settings::default().work_quantile(1.5).validate();
        assert_eq!(quantile, Err(SettingsError::Share { name: "work_quantile", given: 1.5 }));
        assert!(Settings::default().late_share(f64::NAN).validate().is_err());
        let full = Settings::default().admission(AdmissionConfig::default().max_queue(0)).validate();
        assert_eq!(full, Err(SettingsError::Admission(AdmissionConfigError::MaxQueue)));
    }
}
