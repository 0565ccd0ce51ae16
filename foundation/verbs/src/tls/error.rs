//! Why TLS could not be set up.

use std::io;

/// Certificates, keys or names that TLS can't be set up with: which, what is wrong, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read.
    #[error("can't read {place}: {source}; give the path of a PEM file")]
    Read {
        /// The file.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was read is no PEM, or holds nothing of what is needed.
    #[error("there is no {what} in {place}: {reason}; it must be PEM, with a line `-----BEGIN {label}-----`")]
    Pem {
        /// Where.
        place: String,
        /// What was looked for.
        what: &'static str,
        /// What a line of the file should say.
        label: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A certificate that can't be used.
    #[error("the certificate in {place} can't be used: {reason}; make an X.509 certificate of version 3")]
    Certificate {
        /// Where it is.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A private key that can't be used, or that is of another certificate.
    #[error(
        "the key in {key} can't be used with the certificate in {certificate}: {reason}; give the key that the \
         certificate was made for, ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits"
    )]
    Key {
        /// Where the key is.
        key: String,
        /// Where the certificate is.
        certificate: String,
        /// What is wrong.
        reason: String,
    },
    /// The name that the server is to prove is no name.
    #[error("`{name}` is no name that a certificate can be for; write a host name or an IP address, without a port")]
    Name {
        /// What it was.
        name: String,
    },
    /// This program was built without TLS.
    #[error("this program was built without TLS; build it with the cargo feature `tls`")]
    Absent,
}
