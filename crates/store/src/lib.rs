//! The log and its snapshots: SQLite embedded, PostgreSQL.
