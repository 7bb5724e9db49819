//! What goes wrong on a node, read from the kernel's log and classified.
//!
//! - [`Catalogue`]: every XID and SXid, and what hosts, buses, network cards and disks say: what
//!   it is, whose fault, what to do, and where others disagree. Operators override it by a file.
//! - [`parse`]: one line of the kernel's log, without allocating.
//! - [`Reader`]: many lines: repeats become few reports, and rules that need memory are applied.
//!
//! Nothing here opens a file or looks at a clock.

mod catalogue;
mod code;
mod line;
mod nvlink;
mod overrides;
mod pci;
mod reader;
mod words;

pub use catalogue::{Catalogue, Entry, FaultAttribution, Repeat, Rule, View};
pub use code::Code;
pub use line::{Detail, Fault, Line, MAX_LINE, Verdict, parse};
pub use overrides::FaultFileError;
pub use pci::Pci;
pub use reader::{Context, FaultReport, Reader};
pub use words::{action_words, attribution_words, class_words};
