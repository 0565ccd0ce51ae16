//! Certificates, keys, authorities and lists of what was revoked, as they are read.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{Identity, Pem, TlsError};

pub(super) fn read_identity(
    Identity { certificate, key }: Identity<'_>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = read_certificates(certificate)?;
    let text = read(key)?;
    let parsed = PrivateKeyDer::from_pem_slice(&text);
    let key = parsed.map_err(|error| not_found(key, "private key", "PRIVATE KEY", &error))?;
    Ok((chain, key))
}

pub(super) fn read_authorities(pem: Pem<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(pem)? {
        roots.add(certificate).map_err(|error| unusable(pem, &error))?;
    }
    Ok(roots)
}

/// Lists of revoked certificates, at least one.
pub(super) fn read_lists(pem: Pem<'_>) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    all(pem, "list of revoked certificates", "X509 CRL")
}

fn read_certificates(pem: Pem<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    all(pem, "certificate", "CERTIFICATE")
}

/// All that are there of a kind, at least one.
fn all<T: PemObject>(pem: Pem<'_>, what: &'static str, label: &'static str) -> Result<Vec<T>, TlsError> {
    let text = read(pem)?;
    let refuse = |error: &PemError| not_found(pem, what, label, error);
    let parsed: Result<Vec<_>, _> = T::pem_slice_iter(&text).collect();
    let found = parsed.map_err(|error| refuse(&error))?;
    if found.is_empty() { Err(refuse(&PemError::NoItemsFound)) } else { Ok(found) }
}

fn read(pem: Pem<'_>) -> Result<Vec<u8>, TlsError> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.to_vec()),
        Pem::File(path) => std::fs::read(path).map_err(|source| TlsError::Read { place: pem.to_string(), source }),
    }
}

fn not_found(pem: Pem<'_>, what: &'static str, label: &'static str, error: &PemError) -> TlsError {
    TlsError::Pem { place: pem.to_string(), what, label, reason: error.to_string() }
}

pub(super) fn unusable(pem: Pem<'_>, error: &dyn fmt::Display) -> TlsError {
    TlsError::Certificate { place: pem.to_string(), reason: error.to_string() }
}

/// A certificate that can't be parsed is told from a key that doesn't fit.
pub(super) fn wrong_key(Identity { certificate, key }: Identity<'_>, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InvalidCertificate(_) => unusable(certificate, error),
        _ => TlsError::Key { key: key.to_string(), certificate: certificate.to_string(), reason: error.to_string() },
    }
}
