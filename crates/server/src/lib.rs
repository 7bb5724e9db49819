//! The brain's real body: loop, HTTP API, agent link, logs, web page.

pub mod brain;
pub mod logs;
