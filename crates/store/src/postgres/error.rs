//! What PostgreSQL's errors mean for the caller.

use crate::StoreError;
use postgres::Error;
use postgres::error::SqlState;
use rustls::{AlertDescription, CertificateError};
use std::error::Error as _;

fn describe(e: &Error) -> String {
    match e.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => match e.source() {
            Some(cause) => format!("{e}: {cause}"),
            None => e.to_string(),
        },
    }
}

/// Why there is no TLS session, and what to do; none when that is not what failed. It fails before
/// anything is asked of the server, and waiting alone does not repair it.
fn no_tls(e: &Error) -> Option<&'static str> {
    // The driver keeps the kind of its errors to itself; these are its words for this one.
    if e.to_string() != "error performing TLS handshake" {
        return None;
    }
    let cause = e.source()?;
    let Some(io) = cause.downcast_ref::<std::io::Error>() else {
        return Some(match cause.to_string().as_str() {
            "server does not support TLS" => {
                "the server does not support TLS and the address requires it: turn `ssl` on there, or \
                 leave sslmode out"
            }
            _ => "the session cannot be set up",
        });
    };
    let tls = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Some(no_session(tls))
}

/// Why a handshake failed, and what to do.
fn no_session(tls: Option<&rustls::Error>) -> &'static str {
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not from an authority that is trusted here: name the \
                 authority's with sslrootcert=FILE"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: use a name that the certificate has"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it"
            }
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                "its certificate is signed with an algorithm that is not supported here (ECDSA \
                 P-521, say): use RSA, Ed25519, or ECDSA with P-256 or P-384"
            }
            _ => "its certificate is not valid",
        },
        Some(rustls::Error::AlertReceived(AlertDescription::HandshakeFailure)) => {
            "the two have no algorithm in common: its certificate must have a key of RSA, Ed25519, \
             or ECDSA with P-256 or P-384 (not P-521)"
        }
        _ => "the handshake failed",
    }
}

/// An error before the commit: nothing was written.
pub(super) fn fail(e: Error) -> StoreError {
    classify(e, false)
}

/// An error of the commit itself, or of a statement that is its own transaction.
pub(super) fn fail_commit(e: Error) -> StoreError {
    classify(e, true)
}

fn classify(e: Error, committing: bool) -> StoreError {
    let detail = describe(&e);
    let Some(code) = e.code() else {
        if let Some(why) = no_tls(&e) {
            let detail = format!("no TLS to PostgreSQL: {why} ({detail})");
            return StoreError::Unavailable { detail, outcome_unknown: false };
        }
        // Not an answer of the server: the connection is gone, or never came to be.
        if e.is_closed() || e.source().is_some_and(|s| s.is::<std::io::Error>()) {
            return StoreError::Unavailable {
                detail: format!("the connection was lost ({detail})"),
                outcome_unknown: committing,
            };
        }
        let text = e.to_string();
        // The driver reports this kind by its words alone; what was sent before may be committed.
        if text.contains("connect") {
            return StoreError::Unavailable { detail, outcome_unknown: committing };
        }
        return StoreError::Other {
            what: format!("PostgreSQL's answer was not understood: {detail}"),
            source: Some(Box::new(e)),
        };
    };
    let text = code.code();
    if *code == SqlState::DISK_FULL {
        return StoreError::Full { detail };
    }
    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        return StoreError::corrupt("a page of the database", detail);
    }
    // The server ends the session: it was asked to, crashed, or is not ready.
    if text.starts_with("57P") || text.starts_with("08") {
        return StoreError::Unavailable {
            detail: format!("the server ended the connection: {detail}"),
            outcome_unknown: committing,
        };
    }
    let retry = text.starts_with("40")
        || text.starts_with("55")
        || text.starts_with("53")
        || *code == SqlState::QUERY_CANCELED
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
    if retry {
        return StoreError::Unavailable { detail, outcome_unknown: false };
    }
    let hint = if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        "; this server is a standby: name the primary"
    } else if text.starts_with("3F") || *code == SqlState::UNDEFINED_OBJECT {
        "; create the schema named in search_path first"
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        "; the user must own the tables and be allowed to create them"
    } else if text == "3D000" {
        "; create the database first (createdb)"
    } else if text.starts_with("28") {
        "; check the user, the password and the server's pg_hba.conf (is sslmode=require wanted?)"
    } else {
        ""
    };
    StoreError::Other {
        what: format!("PostgreSQL refused: {detail}{hint}"),
        source: Some(Box::new(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::no_session;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{AlertDescription, Error, RootCertStore};
    use std::sync::Arc;
    use std::time::Duration;

    /// An authority whose key is ECDSA P-521, and what it signed for localhost.
    const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIICFjCCAXigAwIBAgIUQ3eTD3JlMSSTg0622aK1MO1edZgwCgYIKoZIzj0EAwQw
FDESMBAGA1UEAwwJcDUyMSB0ZXN0MCAXDTI2MTExOTA4Mjk0M1oYDzIxMjYxMDI2
MDgyOTQzWjAUMRIwEAYDVQQDDAlwNTIxIHRlc3QwgZswEAYHKoZIzj0CAQYFK4EE
ACMDgYYABAFbCe657aV0JeWB04HVJgZFDkZ9r0E6MaaOHDXSq6+hPTRWj0fybYAi
WSPrJlWSPXkAQxXw8v0n5u1BmKr+5qe8SAEFDQrc84g2zR4DBYNtae/tnYTNjSar
31bc5Q+iE4LLfscDaUS+k9aeHfHIRuA0PD4JmdOSDwn5KCmalYEqr5VI+qNjMGEw
HQYDVR0OBBYEFBRXMPhwu6486HII7tQyw7ejOquAMB8GA1UdIwQYMBaAFBRXMPhw
u6486HII7tQyw7ejOquAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIE
MAoGCCqGSM49BAMEA4GLADCBhwJBeyaKMIeNxd4KcqXXuIBYGEeMZqVggZt0TcIP
KQf5FaMzXbKd1C/6zCZ9c9Sz9m3XR3Myz9wSsUE7WZxvO+6aXNgCQgHV2yeKONcm
JOKahduuBMPL7v6G+qVy0fYbCIT7/jIrmflfLpajkq6OFLOPJbJqnesLpcU5Gg7B
JZJk3Z+5KZU0nw==
-----END CERTIFICATE-----
";
    const SIGNED: &str = "\
-----BEGIN CERTIFICATE-----
MIIB1zCCATigAwIBAgIUQucitYuODvJf8qYv4OIIJ+oojnYwCgYIKoZIzj0EAwQw
FDESMBAGA1UEAwwJcDUyMSB0ZXN0MCAXDTI2MTExOTA4Mjk0M1oYDzIxMjYxMDI2
MDgyOTQzWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATQCG57zIjEoEMe96NoKdQ2OQdTjOARwBzv5jz382aK+/nMA7/N4B1O
DmiuT5A82PuPa42OJjvb11LkK+j1Wdgao2YwZDAUBgNVHREEDTALgglsb2NhbGhv
c3QwDAYDVR0TAQH/BAIwADAdBgNVHQ4EFgQU3YuQzRPvCm7hdw1h5IAZVrtBPi8w
HwYDVR0jBBgwFoAUFFcw+HC7rjzocgju1DLDt6M6q4AwCgYIKoZIzj0EAwQDgYwA
MIGIAkIA6xzBbfuieXKOWNrd79VDedoImxz1UOASJ6baKt2SSHg89r7+kzaAnU6C
UzbmrepY+RPVLkwh0pfjEVAo1tkPkKMCQgGhBLhg+CL0rzNN689L6Sw8swTnm1QZ
NL3fLfJ+Jdd4TlalzGNnNETlhuIoe1dRH+xou17IAvOgbo4emg4Lu72/DQ==
-----END CERTIFICATE-----
";

    #[test]
    fn a_certificate_that_p_521_signed_is_refused_with_that_reason() {
        let read = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(read(AUTHORITY)).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), ring).build().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000));
        let e = verifier.verify_server_cert(&read(SIGNED), &[], &name, &[], now).unwrap_err();
        let said = no_session(Some(&e));
        assert!(said.contains("P-521") && said.contains("P-384"), "{e}: {said}");
    }

    #[test]
    fn a_server_that_ends_the_handshake_over_its_key_is_named_as_such() {
        // What OpenSSL answers where it has a key of P-521 only.
        let e = Error::AlertReceived(AlertDescription::HandshakeFailure);
        assert!(no_session(Some(&e)).contains("P-521"));
        assert_eq!(no_session(None), "the handshake failed");
    }
}
