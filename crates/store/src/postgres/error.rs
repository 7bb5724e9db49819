//! What PostgreSQL's errors mean for the caller.

use crate::StoreError;
use postgres::Error;
use postgres::error::SqlState;
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
        // Not an answer of the server: the connection is gone, or never came to be.
        if e.is_closed() || e.source().is_some_and(|s| s.is::<std::io::Error>()) {
            return StoreError::Unavailable {
                detail: format!("the connection was lost ({detail})"),
                outcome_unknown: committing,
            };
        }
        let text = e.to_string();
        if text.contains("connect") || text.contains("TLS") {
            return StoreError::Unavailable { detail, outcome_unknown: false };
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
