//! Chromium without a screen: a page that calls by gRPC-Web and by Connect.

use std::process::Command;

use super::{Client, ours};
use crate::tools::{self, Tool};

pub(crate) const CHROMIUM: Client = Client {
    name: "chromium",
    tool: Ok(Tool::System {
        names: &["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"],
        package: "chromium-headless-shell",
    }),
    features: &["grpc_web", "grpc_web_text", "grpc_web_stream", "connect_json", "connect_proto"],
    is_secured: false,
    run: |found, at, features| {
        let mut page = Command::new("sh");
        page.arg(tools::clients().join("browser").join("run.sh")).env("CHROMIUM", &found.path);
        ours::run(&mut page, at, features)
    },
};
