//! What PostgreSQL's errors mean for the caller.

use crate::StoreError;
use postgres::Error;
use postgres::error::SqlState;
use rustls::CertificateError;
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
    Some(match tls {
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
            _ => "its certificate is not valid",
        },
        _ => "the handshake failed",
    })
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
        // The driver tells this kind by its words alone; what was sent before may be committed.
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
    // The server ends the session: it was told to, crashed, or is not ready.
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
