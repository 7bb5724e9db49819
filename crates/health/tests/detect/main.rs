//! The watch over a made-up fleet: single cases, healthy fleets, scores, and garbage.

#![allow(clippy::cast_possible_truncation, missing_docs)]

mod cases;
mod fleet;
mod garbage;
mod scale;
mod score;
