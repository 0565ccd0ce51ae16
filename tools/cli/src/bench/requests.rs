//! Where the requests come from.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use greenwave::Channel;

use crate::problem::Problem;
use crate::samples;
use crate::schema::Method;

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

impl Source {
    /// The encoded requests, at least one.
    ///
    /// # Errors
    /// When the file can't be read, a server doesn't say what it holds, or a request is not of the method's type.
    pub(super) fn requests(&self, method: &Method, channel: &Channel, seed: u64) -> Result<Vec<Vec<u8>>, Problem> {
        match (&self.requests, self.sample) {
            (Some(file), _) => {
                let unreadable =
                    |error| Problem::wrong_use(error).at(file.display()).remedy("name a file that can be read");
                let text = fs::read_to_string(file).map_err(unreadable)?;
                of_lines(&text, method).map_err(|(line, problem)| match line {
                    Some(line) => Problem::wrong_use(format!("line {line}: {problem}")).at(file.display()),
                    None => problem.at(file.display()),
                })
            }
            (None, Some(Sample::Search)) => samples::search(self.dir.as_ref(), SAMPLES, seed),
            (None, Some(Sample::Recommend)) => samples::recommend(self.dir.as_ref(), SAMPLES, seed),
            (None, Some(Sample::Kv)) => kv::gets(channel, SAMPLES, seed),
            (None, None) => Ok(vec![method.request(&self.json)?]),
        }
    }
}

/// A request for each line that isn't empty; an error comes with its line.
fn of_lines(text: &str, method: &Method) -> Result<Vec<Vec<u8>>, (Option<usize>, Problem)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let requests = lines.map(|(at, line)| method.request(line).map_err(|problem| (Some(at + 1), problem)));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    if requests.is_empty() {
        return Err((None, Problem::wrong_use("there is no request").remedy("write one JSON object a line")));
    }
    Ok(requests)
}
