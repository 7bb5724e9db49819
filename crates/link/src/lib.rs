//! The agent link: messages, framing, identities and mutual TLS.

pub mod error;
pub mod frame;
pub mod limits;
pub mod messages;
pub mod pki;
pub mod private;
pub mod tls;
pub mod token;

pub use error::LinkError;
