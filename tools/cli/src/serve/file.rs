//! What else a service was told: by a file of settings, and by variables of the environment.
//!
//! An option counts most, then a variable, then the file, then the default. Options and variables are clap's; the file is
//! read by serde into the same structures.

use std::fs;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, Subcommand};
use serde_json::json;
use toml::Table;

use super::Service;
use crate::problem::Problem;

/// Lets each option of the services be said by a variable too: `--max-queue` by `GREENWAVE_MAX_QUEUE`.
pub(crate) fn with_variables(serve: Command) -> Command {
    let of_options = |command: Command| {
        command.mut_args(|arg| match arg.get_long().map(variable) {
            Some(name) => arg.env(name).hide_env(true),
            None => arg,
        })
    };
    of_options(serve).mut_subcommands(of_options)
}

fn variable(option: &str) -> String {
    format!("GREENWAVE_{}", option.trim_start_matches('-').replace('-', "_").to_uppercase())
}

/// The variable in which what clap refuses was said, if it was said in none of the words.
pub(crate) fn variable_of(error: &clap::Error, mut words: impl Iterator<Item = String>) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = shown.split([' ', '=', '[']).next()?;
    let named = |word: &str| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    let name = variable(option);
    (!words.any(|word| named(&word)) && std::env::var_os(&name).is_some()).then_some(name)
}

/// Adds what a file says to what was said already, which counts more.
///
/// # Errors
/// When the file can't be read, has a key that is no setting of the service, or a value that can't be meant.
pub(super) fn add(file: &Path, said: &Service) -> Result<Service, Problem> {
    let refuse = |what: String| Problem::wrong_use(what).at(file.display());
    let whole = serde_json::to_value(said).map_err(Problem::failure)?;
    let only = whole.as_object().and_then(|whole| whole.iter().next());
    let Some((service, Some(said))) = only.map(|(service, said)| (service, said.as_object())) else {
        return Err(Problem::failure("this service takes no file"));
    };
    let (mut settings, known) = (said.clone(), keys(service));
    for (key, value) in read(file)? {
        if !known.contains(&key) {
            let problem = refuse(format!("nobody knows the setting `{key}`"));
            return Err(problem.remedy(format!("there are: {}", known.join(", "))));
        }
        let value = serde_json::to_value(value).map_err(Problem::failure)?;
        // Alone, so that it is known which setting can't be meant.
        serde_json::from_value::<Service>(json!({ service: { &*key: &value } })).map_err(|error| {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            refuse(format!("setting `{key}` is `{shown}`; {error}"))
        })?;
        if settings.get(&key).is_none_or(|said| said.is_null() || *said == json!([])) {
            settings.insert(key, value);
        }
    }
    serde_json::from_value(json!({ service: settings })).map_err(|error| refuse(error.to_string()))
}

/// The settings of a service.
fn keys(service: &str) -> Vec<String> {
    let services = Service::augment_subcommands(Command::new("serve"));
    let arguments = services.find_subcommand(service).into_iter().flat_map(Command::get_arguments);
    arguments.map(|argument| argument.get_id().to_string()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use serde_json::Value;
    use std::io::Write;

    /// What a service was told by options.
    fn said(words: &[&str]) -> Service {
        let command = Service::augment_subcommands(Command::new("serve").no_binary_name(true));
        Service::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    /// The same, with a file of this text; the file's name stands as FILE in an error.
    fn with_file(words: &[&str], text: &str) -> Result<Value, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let told = add(file.path(), &said(words));
        let told = told.map_err(|error| error.to_string().replace(&file.path().display().to_string(), "FILE"));
        told.map(|service| serde_json::to_value(&service).unwrap())
    }

    #[test]
    fn an_option_counts_more_than_the_file() {
        let text = "listen = \"tcp://127.0.0.1:0\"\norder = \"edf\"\ncores = [0, 1]\nrows = 7\n\n[[instance]]\nlisten = \
                    \"unix:///x\"\n";
        let told = with_file(&["kv", "--order=fcfs"], text).unwrap();
        let words =
            ["kv", "--order=fcfs", "--listen=tcp://127.0.0.1:0", "--cores=0,1", "--rows=7", "--instance=unix:///x"];
        assert_eq!(told, serde_json::to_value(said(&words)).unwrap());
        let told = with_file(&["kv", "--instance=unix:///y"], text).unwrap();
        assert_eq!(told["kv"]["instance"][0]["listen"], "unix:///y");
    }

    #[test]
    fn what_a_process_is_handed_is_what_was_said() {
        let words = [
            "search-shard",
            "--shard=3",
            "--index=/i",
            "--wait=5us",
            "--adapt=off",
            "--depth-most=9",
            "--wire-features=receipts,origins",
        ];
        let handed_over = serde_json::to_string(&said(&words)).unwrap();
        let taken: Service = serde_json::from_str(&handed_over).unwrap();
        assert_eq!(serde_json::to_string(&taken).unwrap(), handed_over);
        let Service::SearchShard(shard) = taken else { panic!("another service") };
        let config = shard.config().unwrap();
        assert_eq!((config.shard, config.adapt, config.depth.most), (3, false, 9));
        assert_eq!(config.server.stage(), "shard-03");
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused_with_the_file_and_those_that_there_are() {
        let told = with_file(&["recommend-stage"], "odrer = \"edf\"\n").unwrap_err();
        assert!(
            told.starts_with("nobody knows the setting `odrer`; FILE; there are: stage, store, next, adapt,"),
            "{told}"
        );
        assert!(with_file(&["kv"], "config = \"other.toml\"\n").is_err(), "a file names no further file");
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_file_its_key_and_what_is_allowed() {
        let told = |text: &str| with_file(&["kv", "--order=fcfs"], text).unwrap_err();
        assert_eq!(told("clusters = 0\n"), "setting `clusters` is `0`; allowed: a number, 1 to 256; FILE");
        assert!(
            told("order = \"best\"\n")
                .starts_with("setting `order` is `best`; no order is called \"best\"; use one of")
        );
        let table = told("[order]\nname = \"edf\"\n");
        assert!(table.contains("allowed: a text, a number, or a list of them; FILE"), "{table}");
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let told = with_file(&["kv"], "order = \"edf\"\nlisten\n").unwrap_err();
        assert!(told.starts_with("line 2: ") && !told.contains('\n'), "{told}");
        assert!(add(Path::new("/no/such/file"), &said(&["kv"])).is_err());
    }

    #[test]
    fn a_variable_is_called_like_its_option() {
        assert_eq!(variable("--max-queue"), "GREENWAVE_MAX_QUEUE");
        let serve = with_variables(Service::augment_subcommands(Command::new("serve")));
        let kv = serve.find_subcommand("kv").unwrap();
        let of = |id: &str| kv.get_arguments().find(|it| it.get_id() == id).and_then(clap::Arg::get_env);
        assert_eq!(of("tls_cert"), Some("GREENWAVE_TLS_CERT".as_ref()));
    }
}
