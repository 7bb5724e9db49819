//! The watch over a made-up fleet: single cases, healthy fleets, scores, and garbage.

#![allow(missing_docs, reason = "a test")]

mod cases;
mod fleet;
mod garbage;
mod score;
