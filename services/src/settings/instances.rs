//! Further instances of a server in words: `tcp://10.0.1.5:7000,clusters=2,cores=4-7`.
//!
//! Semicolons stand between instances, commas between what is said of one, and also within lists. So a part without a
//! key goes on with the key before it, and those at the beginning say where the instance listens.

use greenwave::rpc::{ConfigError, Instance};

use super::{SettingError, Settings};

/// Instances with semicolons between them.
///
/// # Errors
/// Which of them can't be meant, and why.
pub(super) fn instances(text: &str) -> Result<Vec<Instance>, SettingError> {
    let read = |text: &str| {
        instance(text).map_err(|wrong| SettingError::Instance { instance: text.to_owned(), wrong: Box::new(wrong) })
    };
    text.split(';').map(|text| read(text.trim())).collect()
}

fn instance(text: &str) -> Result<Instance, SettingError> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        match words.last_mut() {
            _ if has_key(part) => words.push(part.to_owned()),
            Some(word) => word.extend([",", part]),
            None => words.push(format!("listen={part}")),
        }
    }
    let mut settings = Settings::parse(words)?;
    let instance = settings.instance()?;
    settings.finish()?;
    let wrong = |ConfigError { key, value, allowed }| SettingError::Wrong { key, value, allowed };
    instance.validate().map(|()| instance).map_err(wrong)
}

/// Whether it is `key=value`, and no address with a `=` in it.
fn has_key(part: &str) -> bool {
    part.split_once('=').is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave::verbs::Choice;

    #[test]
    fn what_is_not_said_of_an_instance_is_as_by_default() {
        let said = "tcp://127.0.0.1:7000";
        let expected = [Instance::default().listen([said.parse().unwrap()])];
        assert_eq!(format!("{:?}", instances(said).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn each_instance_has_addresses_clusters_and_cores_of_its_own() {
        let said = "tcp://127.0.0.1:1,unix:///a=b,clusters=2,cores=0-2,7,backend=epoll; listen=unix:///c";
        let addresses = ["tcp://127.0.0.1:1", "unix:///a=b"].map(|address| address.parse().unwrap());
        let first = Instance::default().listen(addresses).clusters(2).cores([0, 1, 2, 7]).backend(Choice::Epoll);
        let second = Instance::default().listen(["unix:///c".parse().unwrap()]);
        assert_eq!(format!("{:?}", instances(said).unwrap()), format!("{:?}", [first, second]));
    }

    #[test]
    fn an_instance_that_cant_be_meant_is_named_with_what_is_wrong() {
        for (said, why) in [
            ("clusters=2", "setting `listen` is missing; allowed: addresses such as"),
            ("7000", "setting `listen` is `7000`; allowed: addresses such as"),
            ("tcp://127.0.0.1:1,clusters=0", "setting `clusters` is `0`; allowed: 1 to 256"),
            ("tcp://127.0.0.1:1,cores=3-1", "setting `cores` is `3-1`; allowed: numbers"),
            ("tcp://127.0.0.1:1,color=red", "nobody knows the setting `color` (`red`); there are: listen, clusters,"),
            ("tcp://127.0.0.1:1,listen=unix:///x", "setting `listen` is both"),
        ] {
            let told = instances(&format!("unix:///fine;{said}")).unwrap_err().to_string();
            assert!(told.starts_with(&format!("instance `{said}`: {why}")), "{told}");
        }
    }
}
