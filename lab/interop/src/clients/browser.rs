//! Chromium without a screen: gRPC-Web from a page.

use super::Client;
use crate::tools::Tool;

pub(crate) const CHROMIUM: Client = Client {
    name: "chromium",
    tool: Ok(Tool::System { names: &["chromium", "chromium-browser", "google-chrome"], package: "chromium" }),
    features: &["grpc_web"],
    run: |_, _, _| vec![("grpc_web".to_owned(), Err("the server has no gRPC-Web yet".to_owned()))],
};
