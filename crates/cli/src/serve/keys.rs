//! What a service was told, by options and by a file, before anybody has looked at what it means.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use greenwave_services::settings::{SettingError, Settings, cores};
use serde::Serialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::problem::Problem;

/// Keys with their values as text. What an option says counts more than what the file says.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    said: BTreeMap<String, Said>,
    file: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Said {
    value: String,
    in_file: bool,
}

impl Keys {
    /// Takes what `flags` say, whose fields are the keys, and what the file says.
    ///
    /// # Errors
    /// When the file can't be read, or has a key that is no field.
    pub(super) fn gather(flags: &impl Serialize, file: Option<&Path>) -> Result<Self, Problem> {
        let flags = serde_json::to_value(flags).map_err(Problem::wrong_use)?;
        let fields = flags.as_object().cloned().unwrap_or_default();
        let mut keys = Self { said: BTreeMap::new(), file: file.map(Path::to_path_buf) };
        if let Some(file) = file {
            for (key, value) in read(file)? {
                if !fields.contains_key(&key) {
                    let known: Vec<_> = fields.keys().map(String::as_str).collect();
                    let problem = Problem::wrong_use(format!("nobody knows the setting `{key}`")).at(file.display());
                    return Err(problem.remedy(format!("there are: {}", known.join(", "))));
                }
                let (said, allowed) = match key.as_str() {
                    INSTANCE => {
                        (instances(&value), "tables with the keys listen, clusters, cores and backend, or texts")
                    }
                    _ => (text(&value), "a text, a number, or a list of them"),
                };
                let value = said.ok_or_else(|| {
                    let kind = value.type_str();
                    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
                    let what = format!("setting `{key}` is {article} {kind}; allowed: {allowed}");
                    Problem::wrong_use(what).at(file.display())
                })?;
                keys.said.insert(key, Said { value, in_file: true });
            }
        }
        for (key, value) in fields {
            match value {
                Json::String(value) => keys.put(&key, value),
                // What can be said several times.
                Json::Array(values) if !values.is_empty() => {
                    let values: Vec<_> = values.iter().filter_map(Json::as_str).collect();
                    keys.put(&key, values.join(";"));
                }
                _ => {}
            }
        }
        Ok(keys)
    }

    /// Says something, whatever was said before.
    pub(super) fn put(&mut self, key: &str, value: impl Into<String>) {
        self.said.insert(key.to_owned(), Said { value: value.into(), in_file: false });
    }

    /// Says something unless something was said.
    pub(super) fn put_default(&mut self, key: &str, value: &str) {
        if !self.said.contains_key(key) {
            self.put(key, value);
        }
    }

    /// Whether something was said.
    pub(super) fn has(&self, key: &str) -> bool {
        self.said.contains_key(key)
    }

    /// What was said, which nobody else will hear then.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.said.remove(key).map(|said| said.value)
    }

    /// What was said, read.
    ///
    /// # Errors
    /// When `parse` finds no meaning in it.
    pub(super) fn take_as<T>(
        &mut self,
        key: &'static str,
        allowed: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(Said { value, in_file }) = self.said.remove(key) else { return Ok(None) };
        match parse(&value) {
            Some(meaning) => Ok(Some(meaning)),
            None => Err(self.refuse(&SettingError::Wrong { key, value, allowed }, in_file)),
        }
    }

    /// Says the same in other words.
    pub(super) fn reword(&mut self, key: &str, other: impl FnOnce(&str) -> String) {
        if let Some(said) = self.said.get_mut(key) {
            said.value = other(&said.value);
        }
    }

    /// Lets a process begin at another one of the cores, so that of several not all are on the first.
    pub(super) fn turn_cores(&mut self, by: usize) {
        self.reword("cores", |said| {
            // What makes no sense is refused where it is read.
            let Some(mut cores) = cores(said) else { return said.to_owned() };
            let by = by % cores.len().max(1);
            cores.rotate_left(by);
            cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        });
    }

    /// The same without all but these keys.
    pub(super) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let said = self.said.iter().filter(|(key, _)| wanted(key));
        Self { said: said.map(|(key, said)| (key.clone(), said.clone())).collect(), file: self.file.clone() }
    }

    /// What the service makes of all that is left.
    ///
    /// # Errors
    /// The setting that can't be meant, and the file if it stands there.
    pub(super) fn read<C>(&self, from: impl FnOnce(Settings) -> Result<C, SettingError>) -> Result<C, Problem> {
        let mut settings = Settings::default();
        for (key, Said { value, .. }) in &self.said {
            settings = settings.with(key, value).map_err(Problem::wrong_use)?;
        }
        from(settings).map_err(|error| self.refuse(&error, self.is_in_file(&error)))
    }

    /// All that is left, as options.
    pub(super) fn options(&self) -> impl Iterator<Item = String> {
        self.said.iter().map(|(key, said)| format!("--{}={}", key.replace('_', "-"), said.value))
    }

    fn is_in_file(&self, error: &SettingError) -> bool {
        let key = match error {
            SettingError::Wrong { key, .. } => key,
            SettingError::Unknown { key, .. } => key.as_str(),
            SettingError::Instance { .. } => INSTANCE,
            _ => return false,
        };
        self.said.get(key).is_some_and(|said| said.in_file)
    }

    fn refuse(&self, error: &SettingError, in_file: bool) -> Problem {
        let problem = Problem::wrong_use(error);
        match &self.file {
            Some(file) if in_file => problem.at(file.display()),
            _ => problem.remedy("see --help"),
        }
    }
}

fn read(file: &Path) -> Result<Table, Problem> {
    let refuse = |error: &dyn std::fmt::Display| Problem::wrong_use(error).at(file.display());
    let text = fs::read_to_string(file).map_err(|error| refuse(&error).remedy("name a file that can be read"))?;
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        refuse(&format!("{line}{}", error.message())).remedy("write lines such as order = \"edf\"")
    })
}

/// The key that a file can have tables of.
const INSTANCE: &str = "instance";

/// Instances as an option would say them: semicolons between.
fn instances(value: &Value) -> Option<String> {
    match value {
        Value::Array(values) => Some(values.iter().map(instances).collect::<Option<Vec<_>>>()?.join(";")),
        Value::Table(table) => {
            let said = table.iter().map(|(key, value)| Some(format!("{key}={}", text(value)?)));
            Some(said.collect::<Option<Vec<_>>>()?.join(","))
        }
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// A value as an option would say it: lists with commas.
fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Array(values) => values.iter().map(text).collect::<Option<Vec<_>>>()?.join(","),
        Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenwave::ServerConfig;

    #[derive(Serialize)]
    struct Flags {
        listen: Option<String>,
        order: Option<String>,
        cores: Option<String>,
    }

    const NONE: Flags = Flags { listen: None, order: None, cores: None };

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn server(keys: &Keys) -> Result<ServerConfig, Problem> {
        keys.read(|mut settings| settings.server("stage".into()))
    }

    #[test]
    fn an_option_counts_more_than_the_file() {
        let file = file("listen = \"tcp://127.0.0.1:0\"\norder = \"edf\"\ncores = [0, 1]\n");
        let keys = Keys::gather(&Flags { order: Some("fcfs".into()), ..NONE }, Some(file.path())).unwrap();
        let config = server(&keys).unwrap();
        let told = format!("{config:?}");
        assert!(told.contains("order: Fcfs") && told.contains("cores: [0, 1]"), "{told}");
        let options: Vec<_> = keys.options().collect();
        assert_eq!(options, ["--cores=0,1", "--listen=tcp://127.0.0.1:0", "--order=fcfs"]);
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused_with_the_file_and_those_that_there_are() {
        let file = file("odrer = \"edf\"\n");
        let told = Keys::gather(&NONE, Some(file.path())).unwrap_err().to_string();
        let place = file.path().display();
        assert_eq!(told, format!("nobody knows the setting `odrer`; {place}; there are: cores, listen, order"));
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_file_if_it_stands_there() {
        let file = file("listen = \"tcp://127.0.0.1:0\"\norder = \"best\"\n");
        let keys = Keys::gather(&NONE, Some(file.path())).unwrap();
        let told = server(&keys).unwrap_err().to_string();
        assert!(told.starts_with("setting `order` is `best`; allowed: guarded, fcfs, ps, edf,"), "{told}");
        assert!(told.ends_with(&file.path().display().to_string()), "{told}");
        let said = Keys::gather(&Flags { order: Some("worst".into()), ..NONE }, Some(file.path())).unwrap();
        let told = server(&said).unwrap_err().to_string();
        assert!(told.contains("`worst`") && !told.contains(&file.path().display().to_string()), "{told}");
    }

    #[test]
    fn of_several_processes_each_begins_at_another_core() {
        let keys = Keys::gather(&Flags { cores: Some("0,1,4".into()), ..NONE }, None).unwrap();
        let turned = |by| {
            let mut keys = keys.clone();
            keys.turn_cores(by);
            keys.take("cores").unwrap()
        };
        assert_eq!([0, 1, 5].map(turned), ["0,1,4", "1,4,0", "4,0,1"]);
        let mut range = Keys::gather(&Flags { cores: Some("0-2".into()), ..NONE }, None).unwrap();
        range.turn_cores(1);
        assert_eq!(range.take("cores").unwrap(), "1,2,0");
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let file = file("order = \"edf\"\nlisten\n");
        let told = Keys::gather(&NONE, Some(file.path())).unwrap_err().to_string();
        assert!(told.starts_with("line 2: ") && !told.contains('\n'), "{told}");
        assert!(Keys::gather(&NONE, Some(Path::new("/no/such/file"))).is_err());
        let table = self::file("[order]\nname = \"edf\"\n");
        let told = Keys::gather(&NONE, Some(table.path())).unwrap_err().to_string();
        assert!(told.starts_with("setting `order` is a table;"), "{told}");
    }
}
