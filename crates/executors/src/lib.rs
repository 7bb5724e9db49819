//! Effects carried out: what each node must run ([`native`]), and what is done outside of the site by
//! one loop ([`effect`]): tickets, pages and power ([`acts`]), notifications ([`alerts`]).

pub mod acts;
pub mod alerts;
pub mod effect;
pub mod native;
mod webhook;

pub use webhook::signature;
