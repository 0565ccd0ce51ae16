//! Where the requests come from.

use std::fs;
use std::path::PathBuf;

use crate::problem::Problem;
use crate::samples;
use crate::schema::Method;
use crate::server::Caller;
use crate::web::Format;
use clap::{Args, ValueEnum};

use super::kv;

/// Where the requests come from: one of these.
#[derive(Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct Source {
    /// The same request over and over
    #[arg(long, value_name = "JSON", group = "source", default_value = "{}", hide_default_value = true)]
    json: String,
    /// The requests of a file, one JSON object a line, over and over
    #[arg(long, value_name = "FILE", group = "source")]
    requests: Option<PathBuf>,
    /// Requests as the users of one of our services would make them
    #[arg(long, value_enum, group = "source")]
    sample: Option<Sample>,
    /// The directory that the sampled service was started with [default: the local Cargo registry]
    #[arg(long, value_name = "DIR", requires = "sample")]
    dir: Option<PathBuf>,
}

/// Whose users to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sample {
    /// Questions of words and phrases that the index has
    Search,
    /// Crates, some asked for more often than others
    Recommend,
    /// Keys that the store was made with, each as often as another
    Kv,
}

/// Different requests that are sampled.
const SAMPLES: usize = 4096;

/// The requests, in each of the formats that a server wants, as the first one's types make them.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    proto: Option<Vec<Vec<u8>>>,
    json: Option<Vec<Vec<u8>>>,
}

impl Requests {
    /// Those in this format, at least one.
    ///
    /// # Errors
    /// Those of [`Source::make`], or when it is not known what they are in this format.
    pub(super) fn of(
        &mut self,
        format: Format,
        source: &Source,
        method: &Method,
        caller: &Caller,
        seed: u64,
    ) -> Result<Vec<Vec<u8>>, Problem> {
        let made = match format {
            Format::Proto => &mut self.proto,
            Format::Json => &mut self.json,
        };
        if let Some(made) = made {
            return Ok(made.clone());
        }
        let requests = source.make(format, method, caller, seed)?;
        Ok(made.insert(requests).clone())
    }
}

impl Source {
    /// The requests in a format, at least one.
    ///
    /// # Errors
    /// When the file can't be read, a server doesn't say what it holds, or a request is not of the method's type.
    fn make(&self, format: Format, method: &Method, caller: &Caller, seed: u64) -> Result<Vec<Vec<u8>>, Problem> {
        let sampled = match (&self.requests, self.sample) {
            (Some(file), _) => {
                let unreadable =
                    |error| Problem::wrong_use(error).at(file.display()).remedy("name a file that can be read");
                let text = fs::read_to_string(file).map_err(unreadable)?;
                return of_lines(&text, method, format).map_err(|(line, problem)| match line {
                    Some(line) => Problem::wrong_use(format!("line {line}: {problem}")).at(file.display()),
                    None => problem.at(file.display()),
                });
            }
            (None, None) => return Ok(vec![method.request(format, &self.json)?]),
            (None, Some(Sample::Search)) => samples::search(self.dir.as_ref(), SAMPLES, seed)?,
            (None, Some(Sample::Recommend)) => samples::recommend(self.dir.as_ref(), SAMPLES, seed)?,
            (None, Some(Sample::Kv)) => kv::gets(caller, SAMPLES, seed)?,
        };
        match format {
            Format::Proto => Ok(sampled),
            Format::Json => sampled.iter().map(|request| method.request_as_json(request)).collect(),
        }
    }
}

/// A request for each line that isn't empty; an error comes with its line.
fn of_lines(text: &str, method: &Method, format: Format) -> Result<Vec<Vec<u8>>, (Option<usize>, Problem)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let requests = lines.map(|(at, line)| method.request(format, line).map_err(|problem| (Some(at + 1), problem)));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    if requests.is_empty() {
        return Err((None, Problem::wrong_use("there is no request").remedy("write one JSON object a line")));
    }
    Ok(requests)
}
