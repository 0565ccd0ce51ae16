//! What `docs/web.md` shows is what a server answers: its examples are asked by hand, and by curl where there is one.

use greenwave::{Address, ServerConfig};
use greenwave_kv::{KvConfig, Rows};
use greenwave_services::kv::{KvServiceConfig, serve_kv};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// Where the examples' server listens.
const THERE: &str = "127.0.0.1:7000";

/// An example: what is said, and what is told. A line that ends in `...` is one that begins so.
struct Example {
    command: String,
    told: Vec<String>,
}

fn examples() -> Vec<Example> {
    let text = include_str!("../../docs/web.md");
    let mut examples: Vec<Example> = Vec::new();
    let blocks = text.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => examples.push(Example { command: command.to_owned(), told: Vec::new() }),
            None => examples.last_mut().unwrap().told.push(line.to_owned()),
        }
    }
    examples.retain(|example| example.command.starts_with("curl "));
    examples
}

/// The words of a command, with single quotes around some.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for character in command.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words
}

/// Asks what curl would.
fn ask(address: SocketAddr, command: &str) -> String {
    let words = words(command);
    let (mut verb, mut headers, mut body, mut target) = ("GET", String::new(), "", "");
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-d" => (verb, body) = ("POST", rest.next().unwrap()),
            "-H" => headers += &format!("{}\r\n", rest.next().unwrap()),
            "-X" => verb = rest.next().unwrap(),
            // How it is asked is for curl alone.
            option if option.starts_with("--") => {}
            url => target = url.strip_prefix(&format!("http://{THERE}")).unwrap(),
        }
    }
    let len = body.len();
    let request = format!(
        "{verb} {target} HTTP/1.1\r\nHost: {THERE}\r\nConnection: close\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn compare(example: &Example, told: &str) {
    let told: Vec<&str> = told.lines().collect();
    for (at, expected) in example.told.iter().enumerate() {
        let told = told.get(at).copied().unwrap_or_default();
        let holds = match expected.strip_suffix("...") {
            Some(begin) => told.starts_with(begin),
            None => told == expected,
        };
        assert!(holds, "{}\nis answered {told}\nand not {expected}", example.command);
    }
}

#[test]
fn the_examples_of_the_documentation_are_answered_as_it_shows() {
    let root = tempfile::tempdir().unwrap();
    let rows = Rows { count: 100, value_bytes: 100 };
    let store = KvConfig { directory: root.path().join("kv"), rows };
    let server = ServerConfig::default().listen(["tcp://127.0.0.1:0".parse::<Address>().unwrap()]);
    let server = serve_kv(KvServiceConfig { store, checkpoint_rows: 0, server }).unwrap();
    let Address::Tcp(address) = server.addresses()[0] else { panic!("it listens at a socket") };
    let examples = examples();
    assert!(examples.len() > 6, "there are some");
    for example in &examples {
        compare(example, &ask(address, &example.command));
    }
    if Command::new("curl").arg("--version").output().is_err() {
        return;
    }
    for example in &examples {
        let words = words(&example.command.replace(THERE, &address.to_string()));
        let curled = Command::new("curl").arg("--silent").args(&words[1..]).output().unwrap();
        compare(example, &String::from_utf8(curled.stdout).unwrap());
    }
}
