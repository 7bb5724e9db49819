//! The tables, step by step. Steps are only ever added.

use crate::migrate::Migration;

/// Where applied steps are recorded.
pub(super) const RECORD: &str = "CREATE TABLE IF NOT EXISTS migrations (
    version int4 PRIMARY KEY, name text NOT NULL, hash text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// Every migration, oldest first.
pub(super) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "the log, its head and lease, snapshots, payloads, secrets",
    sql: "
CREATE TABLE log (seq int8 PRIMARY KEY, at int8 NOT NULL, body bytea NOT NULL, chain bytea NOT NULL);
CREATE TABLE head (
    id int4 PRIMARY KEY CHECK (id = 1),
    base_seq int8 NOT NULL, base_chain bytea NOT NULL,
    seq int8 NOT NULL, at int8 NOT NULL, chain bytea NOT NULL,
    epoch int8 NOT NULL, holder text NOT NULL, expires timestamptz NOT NULL
) WITH (fillfactor = 10);
INSERT INTO head VALUES (
    1, 0, decode(repeat('00', 16), 'hex'), 0, 0, decode(repeat('00', 16), 'hex'), 0, '', '-infinity'
);
CREATE TABLE snapshots (
    seq int8 PRIMARY KEY, at int8 NOT NULL, format int8 NOT NULL,
    body bytea NOT NULL, sum bytea NOT NULL
);
CREATE TABLE payloads (job int8 PRIMARY KEY, body bytea NOT NULL, sum bytea NOT NULL);
CREATE TABLE secrets (
    project text NOT NULL, name text NOT NULL, value bytea NOT NULL, sum bytea NOT NULL,
    PRIMARY KEY (project, name)
);
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
",
}];
