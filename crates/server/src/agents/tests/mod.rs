//! Sessions against a real brain on a real store, over real sockets.

mod bounds;
mod hardware;
mod health;
mod join;
mod lead;
mod many_connections;
mod metering;
mod policy;
mod preflight;
mod restored;
mod support;
mod work;
