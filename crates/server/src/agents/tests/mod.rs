//! Sessions against a real brain on a real store, over real sockets.

mod bounds;
mod crowd;
mod door;
mod hardware;
mod health;
mod kit;
mod lead;
mod metering;
mod policy;
mod preflight;
mod restored;
mod work;
