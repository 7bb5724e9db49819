//! The PostgreSQL store.

pub(crate) mod config;
mod tls;
