//! The tables, step by step. Steps are only ever added.

use crate::migrate::Migration;

/// Where applied steps are recorded.
pub(super) const RECORD: &str = "CREATE TABLE IF NOT EXISTS migrations (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, applied_at INTEGER NOT NULL
) STRICT";

/// Every migration, oldest first.
pub(super) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "the log, its head and lease, snapshots, payloads, secrets",
    sql: "
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL, chain BLOB NOT NULL
) STRICT;
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    base_seq INTEGER NOT NULL, base_chain BLOB NOT NULL,
    seq INTEGER NOT NULL, at INTEGER NOT NULL, chain BLOB NOT NULL,
    epoch INTEGER NOT NULL, holder TEXT NOT NULL, expires INTEGER NOT NULL
) STRICT;
INSERT INTO head VALUES (1, 0, zeroblob(16), 0, 0, zeroblob(16), 0, '', 0);
CREATE TABLE snapshots (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, format INTEGER NOT NULL,
    body BLOB NOT NULL, sum BLOB NOT NULL
) STRICT;
CREATE TABLE payloads (job INTEGER PRIMARY KEY, body BLOB NOT NULL, sum BLOB NOT NULL) STRICT;
CREATE TABLE secrets (
    project TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, sum BLOB NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
",
}];
