//! The agent link: messages, framing, identities and mutual TLS.

pub mod messages;
