//! What may be typed.

pub(crate) mod agent;
pub(crate) mod server;
pub(crate) mod up;
