//! Many lines of the kernel's log, and what the driver reports besides: few reports.
//!
//! The first line of a fault is reported at once. Repeats of it, by the same process on the same
//! device, are reported as summaries: after 5 s, then ever further apart, up to a minute. Rules
//! that need memory are applied on the way. Whatever is read, the memory used is bounded.

mod clock;
mod fault_report;
mod history;
mod rules;
mod table;

#[cfg(test)]
mod tests;

use super::catalogue::Catalogue;
use super::code::Code;
use super::line::{Detail, Fault, Line, parse};
use super::pci::Pci;
use clock::Clock;
pub use fault_report::FaultReport;
use muster_model::fault::{FaultAction, FaultSource};
use muster_model::units::{Span, Time};
use rules::Rules;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{Key, LineReport, Table};

/// An XID that the driver reports is also in the kernel's log, where more is known of it: so long
/// the log has to come first.
const HOLD: u64 = 700;
/// The same XID of the same GPU, by both ways, is one within this.
const TWICE: u64 = 5_000;
/// XIDs of the driver that wait for the kernel's log.
const HELD: usize = 256;
/// The lines of one sentence are no further apart.
const SENTENCE: Span = Span::secs(2);
/// More GPUs than a node has.
const GPUS: usize = 256;

/// Where the reader reads.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The first number of the driver's version, where it is known.
    pub driver_major: Option<u32>,
    /// The node's GPUs.
    pub sku: String,
    /// The node's pool.
    pub pool: String,
}

/// An XID that the driver reported.
#[derive(Debug)]
struct PendingXid {
    at: Time,
    xid: u32,
    pci: Option<Pci>,
    count: u64,
    due: u64,
}

/// Reads the kernel's log of one node.
#[derive(Debug)]
pub struct Reader {
    catalogue: Arc<Catalogue>,
    context: Context,
    clock: Clock,
    rules: Rules,
    table: Table,
    held: Vec<PendingXid>,
    /// When the kernel's log last had an XID of a GPU.
    logged: BTreeMap<(u32, Option<Pci>), u64>,
    /// When an XID was reported on the driver's word alone.
    trusted: BTreeMap<(u32, Option<Pci>), u64>,
    uuids: BTreeMap<Pci, String>,
    /// The GPU that the driver named last, in a sentence that goes on.
    named: Option<(Pci, Time)>,
}

impl Reader {
    /// A reader that has read nothing yet.
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>, context: Context) -> Reader {
        Reader {
            catalogue,
            context,
            clock: Clock::default(),
            rules: Rules::default(),
            table: Table::default(),
            held: Vec::new(),
            logged: BTreeMap::new(),
            trusted: BTreeMap::new(),
            uuids: BTreeMap::new(),
            named: None,
        }
    }

    /// Judges by another catalogue from now on.
    pub fn set_catalogue(&mut self, catalogue: Arc<Catalogue>) {
        self.catalogue = catalogue;
    }

    /// Reads a line of the kernel's log.
    pub fn line(&mut self, at: Time, line: &[u8]) {
        match parse(line) {
            None => {}
            Some(Line::Gpu { pci, uuid }) => self.sits(pci, uuid),
            Some(Line::Named(pci)) => self.named = Some((pci, at)),
            Some(Line::Fault(mut fault)) => {
                self.clock.line(at);
                self.name(at, &mut fault);
                self.kernel(at, &fault);
            }
        }
    }

    /// The driver reports an XID of its own accord. It is one with the same XID in the kernel's
    /// log.
    pub fn driver_event(&mut self, at: Time, pci: Option<&str>, xid: u32) {
        self.clock.line(at);
        let passed = self.clock.passed();
        let pci = pci.and_then(Pci::parse);
        if Code::xid(xid).is_none() || near(&self.logged, xid, pci, passed).is_some() {
            return;
        }
        if let Some(h) = self.held.iter_mut().find(|h| h.xid == xid && h.pci == pci) {
            h.count = h.count.saturating_add(1);
        } else if self.held.len() < HELD {
            let due = passed.saturating_add(HOLD);
            self.held.push(PendingXid { at, xid, pci, count: 1, due });
        }
    }

    /// What is to be reported now. Call it when [`Reader::next_due`] says, and after reading lines.
    pub fn take(&mut self, now: Time) -> Vec<FaultReport> {
        self.clock.now(now);
        let passed = self.clock.passed();
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(|h| h.due <= passed);
        self.held = held;
        for h in due {
            self.trust(&h, passed);
        }
        self.table.take(passed)
    }

    /// When there is something to take; none while nothing waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        if self.table.waits() {
            return Some(self.clock.at(self.clock.passed()));
        }
        let held = self.held.iter().map(|h| h.due).min();
        let due = [held, self.table.due()].into_iter().flatten().min();
        due.map(|passed| self.clock.at(passed))
    }

    /// What the driver last said that a GPU needs (XID 154).
    #[must_use]
    pub fn verdict(&self, pci: Pci) -> Option<FaultAction> {
        self.rules.verdict(pci)
    }

    /// The UUID of the GPU at a place, where the driver wrote it into the log.
    #[must_use]
    pub fn uuid(&self, pci: Pci) -> Option<&str> {
        self.uuids.get(&pci).map(String::as_str)
    }

    /// Lines that were not distinguished since there were last too many different ones.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.table.folded()
    }

    fn sits(&mut self, pci: Pci, uuid: &str) {
        if self.uuids.len() < GPUS || self.uuids.contains_key(&pci) {
            self.uuids.insert(pci, uuid.chars().take(64).collect());
        }
    }

    /// The GPU of a sentence that began on a line before.
    fn name(&mut self, at: Time, fault: &mut Fault<'_>) {
        if let Some((pci, since)) = self.named.take()
            && fault.pci.is_none()
            && at.since(since) <= SENTENCE
            && matches!(fault.code, Code::Other("gpu-lost" | "nvrm-unsupported"))
        {
            fault.pci = Some(pci);
        }
    }

    fn kernel(&mut self, at: Time, fault: &Fault<'_>) {
        let passed = self.clock.passed();
        let mut count = 1;
        match fault.code {
            Code::Xid(xid) => {
                self.held.retain(|h| !(h.xid == xid && alike(h.pci, fault.pci)));
                note(&mut self.logged, xid, fault.pci, passed);
                if let Some(k) = near(&self.trusted, xid, fault.pci, passed) {
                    self.trusted.remove(&k);
                    count = 0;
                }
            }
            // The driver writes it again in words after the XID.
            Code::Other("gpu-lost") if self.table.is_open(Code::Xid(79), fault.pci) => return,
            _ => {}
        }
        self.report_fault(at, fault, FaultSource::Kernel, count, passed);
    }

    /// Reports an XID that only the driver knows of.
    fn trust(&mut self, held: &PendingXid, passed: u64) {
        let PendingXid { at, xid, pci, count, .. } = *held;
        let Some(code) = Code::xid(xid) else { return };
        note(&mut self.trusted, xid, pci, passed);
        let fault = Fault {
            code,
            pci,
            device: None,
            pid: None,
            process: None,
            detail: Detail::None,
            body: b"reported by the driver, not in the kernel's log",
        };
        self.report_fault(at, &fault, FaultSource::Driver, count, passed);
    }

    fn report_fault(
        &mut self,
        at: Time,
        fault: &Fault<'_>,
        source: FaultSource,
        count: u64,
        passed: u64,
    ) {
        let rule = self.catalogue.evaluate(fault.code, &self.context.sku, &self.context.pool);
        let name = fault.device.map_or(0, fingerprint);
        let driver = self.context.driver_major;
        let judged = self.rules.evaluate(fault, name, rule, driver, passed);
        if let Some(ended) = judged.ends {
            self.table.end(ended, fault.pci);
        }
        let known = self.catalogue.entry(fault.code).is_some();
        let key = Key { code: fault.code, pci: fault.pci, name, pid: fault.pid };
        // A switch writes three lines for one error; those that only add figures do not count.
        let adds = matches!(fault.detail, Detail::Switch { fatal: None, .. });
        let count = if adds && self.table.is_open(fault.code, fault.pci) { 0 } else { count };
        let reported = LineReport {
            at,
            count,
            source,
            device: fault.device,
            process: fault.process,
            body: fault.body,
            judged,
        };
        self.table.add(key, reported, known, passed);
    }
}

/// Whether two addresses can be the same GPU: one that is not known can be any.
fn alike(a: Option<Pci>, b: Option<Pci>) -> bool {
    a.is_none() || b.is_none() || a == b
}

type When = BTreeMap<(u32, Option<Pci>), u64>;

fn near(when: &When, xid: u32, pci: Option<Pci>, passed: u64) -> Option<(u32, Option<Pci>)> {
    when.range((xid, None)..)
        .take_while(|((x, _), _)| *x == xid)
        .find(|((_, p), at)| alike(*p, pci) && passed.saturating_sub(**at) <= TWICE)
        .map(|(k, _)| *k)
}

fn note(when: &mut When, xid: u32, pci: Option<Pci>, passed: u64) {
    if when.len() >= HELD {
        when.retain(|_, at| passed.saturating_sub(*at) <= TWICE);
        if when.len() >= HELD {
            when.clear();
        }
    }
    when.insert((xid, pci), passed);
}

/// A number that stands for a name (FNV-1a). Never 0, which stands for none.
fn fingerprint(name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for b in name.bytes() {
        hash = (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    hash.max(1)
}
