//! Settings as people write them, `key=value`, and what is refused.
//!
//! A service takes the settings that it knows out of [`Settings`]; a value that can't be meant, one that is missing
//! and one that nobody took are errors that name the key, the value and what is allowed.

mod instances;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use greenwave::policy::{AdmissionConfig, Order, StealRule};
use greenwave::rpc::{Instance, Limits, Wait};
use greenwave::verbs::tls::{Identity, Pem};
use greenwave::verbs::{Choice, TlsServer};
use greenwave::{Address, ServerConfig};
use thiserror::Error;

/// Settings that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    open: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Settings {
    /// Takes words of the form `key=value`.
    ///
    /// # Errors
    /// When a word has another form, or a key comes twice.
    pub fn parse<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for word in words {
            let word = word.as_ref();
            let (key, value) = word.split_once('=').ok_or_else(|| SettingError::Form { word: word.to_owned() })?;
            settings = settings.with(key, value)?;
        }
        Ok(settings)
    }

    /// Adds a setting.
    ///
    /// # Errors
    /// When it is there already.
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Result<Self, SettingError> {
        let value = value.into();
        match self.open.insert(key.to_owned(), value.clone()) {
            None => Ok(self),
            Some(first) => Err(SettingError::Twice { key: key.to_owned(), first, second: value }),
        }
    }

    /// Says something unless something was said.
    #[must_use]
    pub fn or(mut self, key: &str, value: &impl ToString) -> Self {
        self.open.entry(key.to_owned()).or_insert_with(|| value.to_string());
        self
    }

    /// What was said, as it was, if nobody has taken it.
    pub(crate) fn said(&self, key: &str) -> Option<&str> {
        self.open.get(key).map(String::as_str)
    }

    /// Takes a setting out, if it is there.
    ///
    /// # Errors
    /// When `parse` finds no meaning in it.
    pub fn take<T>(
        &mut self,
        key: &'static str,
        allowed: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingError> {
        self.known.push(key);
        let Some(value) = self.open.remove(key) else { return Ok(None) };
        match parse(&value) {
            Some(meaning) => Ok(Some(meaning)),
            None => Err(SettingError::Wrong { key, value, allowed }),
        }
    }

    /// Takes a setting out that must be there.
    ///
    /// # Errors
    /// When it isn't, or `parse` finds no meaning in it.
    pub fn require<T>(
        &mut self,
        key: &'static str,
        allowed: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SettingError> {
        self.take(key, allowed, parse)?.ok_or(SettingError::Missing { key, allowed })
    }

    /// Takes out what is about the server itself; the rest is as by default.
    ///
    /// # Errors
    /// When one of them can't be meant.
    pub fn server(&mut self, name: String) -> Result<ServerConfig, SettingError> {
        let mut admission = AdmissionConfig::default();
        admission.enabled = self.take("admission", "off or on", switch)?.unwrap_or(admission.enabled);
        admission.max_queue = self.take("max_queue", "a number", value)?.unwrap_or(admission.max_queue);
        admission.reject_cap = self.take("reject_cap", "0 to 1", value)?.unwrap_or(admission.reject_cap);
        admission.reserve = self.take("reserve", "0 to less than 1", value)?.unwrap_or(admission.reserve);
        let tls = self.tls()?;
        let own = self.instance()?;
        let further = self.take("instance", INSTANCES, |text| Some(instances::instances(text)))?;
        let mut config = ServerConfig::default().name(self.take("name", "1 to 64 bytes", value)?.unwrap_or(name));
        config = config.instance(own).instances(further.transpose()?.unwrap_or_default()).admission(admission).tls(tls);
        config = config.steal(self.take("steal", "on or off", switch)?.unwrap_or(true).then(StealRule::default));
        macro_rules! set {
            ($($key:ident, $allowed:expr, $parse:expr;)*) => {$(
                if let Some(value) = self.take(stringify!($key), $allowed, $parse)? {
                    config = config.$key(value);
                }
            )*};
        }
        set! {
            workers, "0 to 256", value;
            order, ORDERS, value::<Order>;
            report_only, "on or off", switch;
            wait, "spin, block or adaptive:20us", wait;
            quantum, "off, or a time such as 5us", quantum;
            coroutines, "1 to 65536", value;
            confidence, "0 to 1", value;
            late_share, "0 to 1", value;
        }
        if let Some(credits) = self.take("credits", "4 to 65535", value)? {
            config = config.limits(Limits::new().credits(credits));
        }
        Ok(config)
    }

    /// Where an instance listens, and what serves what comes in there.
    fn instance(&mut self) -> Result<Instance, SettingError> {
        let mut instance = Instance::default().listen(self.require("listen", ADDRESSES, addresses)?);
        if let Some(clusters) = self.take("clusters", CLUSTERS, value)? {
            instance = instance.clusters(clusters);
        }
        if let Some(cores) = self.take("cores", CORES, cores)? {
            instance = instance.cores(cores);
        }
        if let Some(backend) = self.take("backend", BACKENDS, value::<Choice>)? {
            instance = instance.backend(backend);
        }
        Ok(instance)
    }

    /// How the server is secured: by a certificate and its key, if there are any, and by who may connect.
    fn tls(&mut self) -> Result<Option<TlsServer>, SettingError> {
        const FILE: &str = "a PEM file";
        let certificate = self.take("tls_cert", FILE, value::<PathBuf>)?;
        let key = self.take("tls_key", FILE, value::<PathBuf>)?;
        let clients = self.take("tls_client_ca", FILE, value::<PathBuf>)?;
        let missing = |key| SettingError::Missing { key, allowed: FILE };
        let (certificate, key) = match (&certificate, &key, &clients) {
            (None, None, None) => return Ok(None),
            (None, ..) => return Err(missing("tls_cert")),
            (_, None, _) => return Err(missing("tls_key")),
            (Some(certificate), Some(key), _) => (Pem::File(certificate), Pem::File(key)),
        };
        let tls = TlsServer::new(Identity { certificate, key }, clients.as_deref().map(Pem::File));
        tls.map(Some).map_err(|error| SettingError::Tls(error.to_string()))
    }

    /// Whether the service does less when its budget is short: `adapt`, `on` if nothing is said.
    ///
    /// # Errors
    /// When it is neither `on` nor `off`.
    pub fn adapt(&mut self) -> Result<bool, SettingError> {
        Ok(self.take("adapt", "on or off", switch)?.unwrap_or(true))
    }

    /// Makes sure that every setting was taken.
    ///
    /// # Errors
    /// When one wasn't: nobody knows it.
    pub fn finish(self) -> Result<(), SettingError> {
        match self.open.into_iter().next() {
            None => Ok(()),
            Some((key, value)) => Err(SettingError::Unknown { key, value, known: self.known }),
        }
    }
}

/// A setting that can't be meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// Not `key=value`.
    #[error("`{word}` is no setting; settings are written key=value")]
    Form {
        /// What was said.
        word: String,
    },
    /// Said twice.
    #[error("setting `{key}` is both `{first}` and `{second}`; say it once")]
    Twice {
        /// The key.
        key: String,
        /// What it was first.
        first: String,
        /// What it was then.
        second: String,
    },
    /// Without meaning.
    #[error("setting `{key}` is `{value}`; allowed: {allowed}")]
    Wrong {
        /// The key.
        key: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A further instance that can't be meant.
    #[error("instance `{instance}`: {wrong}")]
    Instance {
        /// What was said of it.
        instance: String,
        /// What is wrong with that.
        wrong: Box<SettingError>,
    },
    /// Replicas that can't be a group: what is wrong, what is allowed.
    #[error("{0}")]
    Group(String),
    /// A certificate or a key that can't be used: which, what is wrong, what to do.
    #[error("{0}")]
    Tls(String),
    /// Not there.
    #[error("setting `{key}` is missing; allowed: {allowed}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// Not known.
    #[error("nobody knows the setting `{key}` (`{value}`); there are: {}", known.join(", "))]
    Unknown {
        /// The key.
        key: String,
        /// What it was.
        value: String,
        /// The keys that there are.
        known: Vec<&'static str>,
    },
}

/// What is allowed for a list of addresses.
pub(crate) const ADDRESSES: &str = "addresses such as tcp://127.0.0.1:7000 or unix:///run/x.sock, with commas between";

const CLUSTERS: &str = "1 to 256";

const CORES: &str = "numbers and ranges with commas between them, such as 0,1 or 4-7";

const BACKENDS: &str = "auto, uring, epoll or fabric";

const INSTANCES: &str =
    "an address, then clusters, cores and backend, such as tcp://127.0.0.1:7001,clusters=2,cores=4-7";

const ORDERS: &str = "guarded, fcfs, ps, edf, least-laxity, oldest-first or stage-laxity";

/// Anything that can be read from text.
pub(crate) fn value<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Addresses with commas between them, one at least.
pub(crate) fn addresses(text: &str) -> Option<Vec<Address>> {
    list(text)
}

/// Things with commas between them.
pub(crate) fn list<T: FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|part| part.trim().parse().ok()).collect()
}

/// Cores with commas between them, hyphens for all between: `0,2`, `0-3,8`.
pub fn cores(text: &str) -> Option<Vec<usize>> {
    /// More than machines have; a slip of the pen is not to cost memory.
    const MOST: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last.checked_sub(first)? >= MOST - cores.len() {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// A time with its unit: `250us`, `5ms`, `2s`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

fn quantum(text: &str) -> Option<Option<Duration>> {
    if text == "off" { Some(None) } else { span(text).map(Some) }
}

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn wait(text: &str) -> Option<Wait> {
    match text {
        "spin" => Some(Wait::Spin),
        "block" => Some(Wait::Block),
        _ => span(text.strip_prefix("adaptive:").unwrap_or(text)).map(|spin| Wait::Adaptive { spin }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(words: &[&str]) -> Result<ServerConfig, SettingError> {
        let mut settings = Settings::parse(words)?;
        let server = settings.server("stage".to_owned())?;
        settings.finish().map(|()| server)
    }

    #[test]
    fn what_is_not_said_is_as_by_default() {
        let config = server(&["listen=tcp://127.0.0.1:0"]).unwrap();
        assert_eq!(config.stage(), "stage");
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn what_is_said_counts() {
        let words = [
            "listen=tcp://127.0.0.1:1,unix:///x",
            "order=edf",
            "admission=off",
            "wait=7us",
            "cores=0,1",
            "report_only=on",
            "quantum=2us",
        ];
        let config = server(&words).unwrap();
        let listen = ["tcp://127.0.0.1:1", "unix:///x"].map(|address| address.parse().unwrap());
        let expected = ServerConfig::default().name("stage").listen(listen).order(Order::EarliestDeadline);
        let expected = expected.admission(AdmissionConfig::default().enabled(false)).report_only(true).cores([0, 1]);
        let expected = expected.wait(Wait::Adaptive { spin: Duration::from_micros(7) });
        assert_eq!(format!("{config:?}"), format!("{:?}", expected.quantum(Duration::from_micros(2))));
        let listen = ["unix:///x".parse().unwrap()];
        let expected = ServerConfig::default().name("stage").listen(listen).quantum(None);
        assert_eq!(format!("{:?}", server(&["listen=unix:///x", "quantum=off"]).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn an_error_names_the_key_the_value_and_what_is_allowed() {
        let error = |words: &[&str]| server(words).unwrap_err().to_string();
        assert_eq!(
            error(&["listen=tcp://127.0.0.1:0", "report_only=maybe"]),
            "setting `report_only` is `maybe`; allowed: on or off"
        );
        assert!(error(&[]).starts_with("setting `listen` is missing; allowed: addresses such as"));
        assert!(error(&["listen=nowhere"]).starts_with("setting `listen` is `nowhere`"));
        assert_eq!(error(&["order=edf", "order=fcfs"]), "setting `order` is both `edf` and `fcfs`; say it once");
        assert_eq!(error(&["order"]), "`order` is no setting; settings are written key=value");
        let unknown = error(&["listen=tcp://127.0.0.1:0", "odrer=edf"]);
        assert!(unknown.starts_with("nobody knows the setting `odrer` (`edf`); there are: admission,"), "{unknown}");
    }

    #[test]
    fn cores_are_numbers_and_ranges_of_them() {
        assert_eq!(cores("4, 0-2"), Some(vec![4, 0, 1, 2]));
        for odd in ["", "1,", "2-1", "-1", "0-", "a", "0-18446744073709551615", "0-60000,0-60000"] {
            assert_eq!(cores(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_time_needs_a_unit() {
        assert_eq!(span("20us"), Some(Duration::from_micros(20)));
        assert_eq!(span("3s"), Some(Duration::from_secs(3)));
        assert_eq!([span("20"), span("us"), span("1.5ms"), span("2 ms"), span("")], [None; 5]);
    }
}
