//! What the reader reports.

use super::super::code::Code;
use super::super::pci::Pci;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;

/// Bytes of a line that are kept.
const TEXT: usize = 400;

/// A fault as the reader reports it: one for many lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultReport {
    /// What it is called.
    pub code: Code,
    /// The first of the lines that this reports.
    pub first: Time,
    /// The last of them.
    pub last: Time,
    /// How many. 0: none that was not reported already, but this knows the process or the place.
    pub count: u64,
    /// Where it was read.
    pub source: FaultSource,
    /// The component it is attributed to.
    pub class: FaultClass,
    /// What it asks for.
    pub action: FaultAction,
    /// The device, where it has an address.
    pub pci: Option<Pci>,
    /// The device, where it has a name.
    pub device: Option<String>,
    /// The process, where one is named.
    pub pid: Option<i32>,
    /// What that process is called.
    pub process: Option<String>,
    /// The line, cut short.
    pub text: String,
    /// Why it is judged so, where a rule beyond the catalogue made it so.
    pub detail: Option<String>,
    /// Reported for the first time, or asking for more than before; otherwise a summary of repeats.
    pub fresh: bool,
    /// The fault that this one ends, on the same device.
    pub ends: Option<Code>,
}

impl FaultReport {
    /// As a node reports it to its server.
    #[must_use]
    pub fn into_fault(
        self,
        gpu: Option<u32>,
        attempt: Option<AttemptKey>,
        rank: Option<u32>,
    ) -> ObservedFault {
        let text = match &self.detail {
            Some(detail) => format!("{} ({detail})", self.text),
            None => self.text,
        };
        ObservedFault {
            code: self.code.to_string(),
            at: self.first,
            count: self.count,
            source: self.source,
            class: self.class,
            action: self.action,
            gpu,
            pid: self.pid,
            attempt,
            rank,
            text,
        }
    }
}

/// Bytes as text that a terminal can show.
pub(super) fn shown(bytes: &[u8]) -> String {
    let cut = bytes.get(..TEXT).unwrap_or(bytes);
    let text = String::from_utf8_lossy(cut);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
