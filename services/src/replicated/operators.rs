//! Who may run a group: change who belongs to it and who leads, size its batches, look into it.

use greenwave::{Code, Peer, Status};

/// Who may run a group, by what a connection says of who calls. If nothing is set that is who calls from this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operators {
    /// Who shows a certificate with one of these names: URIs, or names of hosts. Then nobody else may, from this machine either.
    pub names: Vec<String>,
    /// Everybody who may call the store, from other machines too.
    pub anybody: bool,
}

impl Operators {
    /// Whether this one may.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`, and what to do about it.
    pub(super) fn check(&self, peer: &Peer) -> Result<(), Status> {
        let mut names = peer.uris().iter().chain(peer.dns_names());
        let here = peer.address().is_none_or(|address| address.ip().to_canonical().is_loopback());
        let may =
            if self.names.is_empty() { self.anybody || here } else { names.any(|name| self.names.contains(name)) };
        if may {
            return Ok(());
        }
        let remedy = "do it on the replica's own machine, or with a certificate that `serve kv --operators` names";
        Err(Status::new(Code::PermissionDenied, format!("{peer} may not run the group; {remedy}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_right_of_its_own_runs_nothing() {
        let (far, near) = (Peer::at(Some(([10, 0, 0, 1], 7).into())), Peer::at(Some(([127, 0, 0, 1], 7).into())));
        let usual = Operators::default();
        assert!(usual.check(&near).is_ok() && usual.check(&Peer::UNKNOWN).is_ok());
        let refused = usual.check(&far).unwrap_err();
        assert!(refused.code == Code::PermissionDenied && refused.message.contains("--operators"), "{refused}");
        assert!(Operators { anybody: true, ..usual }.check(&far).is_ok());
        let named = Operators { names: vec!["admin.example".into()], anybody: true };
        assert!(named.check(&near).is_err() && named.check(&far).is_err());
        let with = |peer: &Peer, name: &str| peer.with_names(Vec::new(), vec![name.into()]);
        assert!(named.check(&with(&far, "admin.example")).is_ok());
        assert!(named.check(&with(&near, "client.example")).is_err(), "a client's certificate");
    }
}
