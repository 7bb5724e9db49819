//! Effects carried out: durable state into what each node must run.

pub mod native;
