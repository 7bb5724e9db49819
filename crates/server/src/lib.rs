//! The brain's real body: loop, HTTP API, agent link, logs, web page.

pub mod acts;
pub mod agents;
pub mod brain;
pub mod brand;
pub mod console;
pub mod fabric;
pub mod health;
pub mod http;
mod listen;
pub mod logs;
mod metering;
mod promises;
pub mod remote;
mod runbooks;
pub mod serve;
pub mod trace;
