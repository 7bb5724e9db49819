//! Files that people write: job specs, scripts with directives, topology files, objectives.
//!
//! Text in, checked nouns of the model out. Nothing here opens a file, so the same code serves
//! the command line, the server and the tests. Every error says what is wrong, where in the
//! file, and how to fix it.

#![forbid(unsafe_code)]

mod de;
pub mod document;
pub mod draw;
pub mod error;
pub mod flags;
pub mod generate;
pub mod hostlist;
pub mod job;
mod json;
pub mod objectives;
pub mod openslo;
mod parsed;
mod sbatch;
mod scalar;
mod script;
pub mod topology;
pub mod tree;
pub mod words;

pub use error::FileError;
pub use parsed::{Note, Parsed, SlurmOption};
