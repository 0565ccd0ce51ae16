//! How a server's time is divided among those who call.

use clap::Args;
use greenwave::ShareConfig;
use serde::{Deserialize, Serialize};

use super::needed;
use super::values::{List, Switch};
use crate::problem::Problem;

/// Whether callers have shares, which, and who says whose a call is.
#[derive(Args, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[command(next_help_heading = "Shares")]
pub(super) struct ShareOptions {
    /// Whether each caller has a share of the time when calls wait, whatever deadlines it claims and however many
    /// connections it has: on or off [default: on if any of the others is said, otherwise off]
    #[arg(long, value_name = "SWITCH")]
    pub(super) shares: Option<Switch>,
    /// Whose share is larger, such as spiffe://shop.example/cart=5,10.0.0.7=2: by the name in a certificate, by whose
    /// a token is, or by address where nobody has proved anything; all others weigh 1
    #[arg(long, value_name = "NAME=WEIGHT,...")]
    pub(super) share: Option<List<String>>,
    /// The metadata in which a proxy says whose a call is. It takes --tenant-trust
    #[arg(long, value_name = "METADATA")]
    pub(super) tenant_from: Option<String>,
    /// The proxies that are believed, by the names in their certificates or by address; nobody else is
    #[arg(long, value_name = "LIST")]
    pub(super) tenant_trust: Option<List<String>>,
}

impl ShareOptions {
    /// What these options say; `None`: there are no shares.
    ///
    /// # Errors
    /// What is no weight, or metadata without those who are believed.
    pub(super) fn config(&self) -> Result<Option<ShareConfig>, Problem> {
        let any = self.share.is_some() || self.tenant_from.is_some() || self.tenant_trust.is_some();
        if self.shares == Some(Switch::Off) || (self.shares.is_none() && !any) {
            return Ok(None);
        }
        let mut config = ShareConfig::new();
        for said in self.share.iter().flat_map(|List(shares)| shares) {
            // Names have signs of equality in them at times, weights don't.
            let weight = said.rsplit_once('=').and_then(|(name, weight)| Some((name, weight.parse().ok()?)));
            let (name, weight) = needed(weight, "share", &format!("NAME=WEIGHT, a whole number; said: {said:?}"))?;
            config = config.weight(name, weight);
        }
        if self.tenant_from.is_some() || self.tenant_trust.is_some() {
            let metadata = needed(self.tenant_from.as_deref(), "tenant_from", "the name of metadata")?;
            let List(proxies) = needed(self.tenant_trust.clone(), "tenant_trust", "those who are believed")?;
            config = config.tenant_from(metadata, proxies);
        }
        Ok(Some(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn said(words: &[&str]) -> Result<Option<ShareConfig>, Problem> {
        let command = ShareOptions::augment_args(Command::new("test").no_binary_name(true));
        ShareOptions::from_arg_matches(&command.try_get_matches_from(words)?)?.config()
    }

    #[test]
    fn shares_are_on_if_anything_is_said_of_them() {
        assert!(said(&[]).unwrap().is_none() && said(&["--shares=off", "--share=a=2"]).unwrap().is_none());
        assert!(said(&["--shares=on"]).unwrap().is_some());
        let expected = ShareConfig::new().weight("spiffe://a/b?c=d", 5).weight("10.0.0.7", 2);
        let all = said(&["--share=spiffe://a/b?c=d=5,10.0.0.7=2"]).unwrap().unwrap();
        assert_eq!(format!("{all:?}"), format!("{expected:?}"));
        let expected = ShareConfig::new().tenant_from("x-tenant", ["gateway"]);
        let all = said(&["--tenant-from=x-tenant", "--tenant-trust=gateway"]).unwrap().unwrap();
        assert_eq!(format!("{all:?}"), format!("{expected:?}"));
    }

    #[test]
    fn what_cant_be_meant_is_named() {
        for (words, named) in [
            (["--share=cart"], "share"),
            (["--share=cart=much"], "share"),
            (["--tenant-from=x-tenant"], "tenant_trust"),
            (["--tenant-trust=gateway"], "tenant_from"),
        ] {
            let told = said(&words).unwrap_err().to_string();
            assert!(told.contains(&format!("setting `{named}` is missing")), "{told}");
        }
    }
}
