//! The kernel's log of a simulated node: lines go through the reader that real nodes have, so
//! that a drill is judged as an accident would be.

use crate::clock::wall;
use muster_health::faults::{Catalogue, Code, Context, FaultReport, Reader};
use muster_model::fault::ObservedFault;
use muster_model::units::Time;
use std::sync::{Arc, OnceLock};

/// Faults that wait to be reported.
const FAULTS_MAX: usize = 256;
/// The driver that simulated nodes say they have.
const DRIVER: u32 = 580;

#[derive(Default)]
pub(crate) struct Log {
    /// Made with the first line: most nodes never have one.
    reader: Option<Box<Reader>>,
    faults: Vec<ObservedFault>,
}

/// An XID as the driver writes it.
pub(crate) fn xid_line(pci: &str, code: u32) -> Result<String, String> {
    let known = Code::xid(code).ok_or_else(|| format!("{code} is no number of an Xid"))?;
    let says = match code {
        79 => "GPU has fallen off the bus.",
        154 => "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        _ => Catalogue::builtin().entry(known).map_or("unknown", |e| e.name),
    };
    Ok(format!("NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {says}"))
}

/// What a fault says to whoever asks why a rank died.
pub(crate) fn fault_summary(f: &ObservedFault) -> String {
    let name = match f.code.strip_prefix("xid-") {
        Some(n) => format!("XID {n}"),
        None => f.code.clone(),
    };
    let gpu = f.gpu.map(|g| format!(" on GPU {g}")).unwrap_or_default();
    let catalogue = Catalogue::builtin();
    let entry = catalogue.code(&f.code).and_then(|c| catalogue.entry(c));
    let what = entry.map(|e| format!(": {}", e.text)).unwrap_or_default();
    format!("{name}{gpu}{what}")
}

impl Log {
    /// Reads a line.
    pub(crate) fn line(&mut self, at: Time, line: &str, sku: &str, pool: &str) {
        let reader = self.reader.get_or_insert_with(|| {
            let context =
                Context { driver_major: Some(DRIVER), sku: sku.to_owned(), pool: pool.to_owned() };
            // One catalogue for a whole fleet.
            static SHARED: OnceLock<Arc<Catalogue>> = OnceLock::new();
            let shared = SHARED.get_or_init(|| Arc::new(Catalogue::builtin().clone()));
            Box::new(Reader::new(shared.clone(), context))
        });
        reader.line(at, line.as_bytes());
    }

    /// What the reader has to report now.
    pub(crate) fn take_reports(&mut self, at: Time) -> Vec<FaultReport> {
        self.reader.as_mut().map_or_else(Vec::new, |r| r.take(at))
    }

    /// Keeps a fault until it is reported. It is reported by the wall's clock, as all faults are.
    pub(crate) fn keep(&mut self, fault: ObservedFault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(ObservedFault { at: wall(), ..fault });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<ObservedFault> {
        std::mem::take(&mut self.faults)
    }

    pub(crate) fn waits(&self) -> bool {
        !self.faults.is_empty()
    }

    /// When the reader has something to report.
    pub(crate) fn due(&self) -> Option<Time> {
        self.reader.as_ref().and_then(|r| r.next_due())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_judged_as_on_a_real_node() {
        let mut log = Log::default();
        let line = xid_line("0000:28:00", 79).unwrap_or_default();
        log.line(Time(1000), &line, "h100-sxm", "");
        let edac = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0";
        log.line(Time(1001), edac, "h100-sxm", "");
        let seen = log.take_reports(Time(1002));
        let codes: Vec<String> = seen.iter().map(|s| s.code.to_string()).collect();
        assert!(codes.contains(&"xid-79".to_owned()) && codes.len() == 2, "{seen:?}");
        assert_eq!(seen[0].pci.map(|p| p.bus), Some(0x28));
        assert!(xid_line("0000:28:00", 99_999).is_err());
    }
}
