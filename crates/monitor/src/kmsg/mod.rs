//! The kernel's log, read as it grows, and the faults in it.
//!
//! `/dev/kmsg` where it can be read, `journalctl` where it cannot, and a clear word where neither
//! can. What is read goes to the [`FaultParser`], together with what the driver reports by itself;
//! what they make of it goes out at once.

mod fault_parser;
mod lines;
mod past;
mod source;

#[cfg(test)]
mod tests;

pub use fault_parser::OwnerOf;
pub(crate) use fault_parser::{Devices, Hub};
pub use fault_parser::{FaultParser, ParsedFault};
pub use lines::{Lines, Record};
pub use past::{PastLogSummary, past};
pub use source::{KernelLog, LogSource};

use crate::faults::agent_fault;
use source::OpenedLog;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records read before what was found in them is reported, in a flood.
const BATCH: usize = 512;
/// How long the reader sleeps at most, so that it hears when it is to stop.
const NAP: Duration = Duration::from_millis(250);
/// An overrun is reported no more often than this.
const OVERRUN_EVERY: Duration = Duration::from_secs(60);
/// A source that ended is opened again after so long.
const REOPEN: Duration = Duration::from_secs(30);

/// Reads until it is asked to stop.
pub(crate) fn read(log: &KernelLog, hub: &Hub, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match log.open() {
            Ok(OpenedLog { mut source, from }) => {
                hub.log(|l| {
                    l.from = Some(from.clone());
                    l.why_not = None;
                });
                follow(source.as_mut(), hub, stop);
                hub.log(|l| l.why_not = Some(format!("{from} ended")));
            }
            Err(why) => {
                hub.log(|l| {
                    l.from = None;
                    l.why_not = Some(why.clone());
                });
                // Reporting what the driver says goes on without the log.
            }
        }
        let until = Instant::now() + REOPEN;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
            hub.publish_faults();
        }
    }
}

/// Reads one source to its end.
pub(crate) fn follow(source: &mut dyn LogSource, hub: &Hub, stop: &AtomicBool) {
    let mut buffer = vec![0_u8; 16 << 10];
    let mut lines = Lines::default();
    let mut missed = Missed::default();
    while !stop.load(Ordering::Relaxed) {
        let mut end = false;
        let mut read = 0;
        while read < BATCH {
            match source.read(&mut buffer) {
                Ok(0) => {
                    end = source.ends();
                    break;
                }
                Ok(n) => {
                    read += 1;
                    lines.feed(&buffer[..n], |record| {
                        missed.records(hub, record.missed);
                        hub.line(record.text);
                    });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The kernel overwrote what was not read yet; the next read goes on after it.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    read += 1;
                    missed.overrun(hub);
                }
                Err(e) => {
                    tracing::warn!(error = %e, "the kernel's log cannot be read any more");
                    end = true;
                    break;
                }
            }
        }
        missed.report_missed(hub);
        hub.publish_faults();
        if end {
            return;
        }
        if read < BATCH {
            source.wait(hub.nap(NAP));
        }
    }
}

/// Records that were overwritten before they were read.
#[derive(Default)]
struct Missed {
    waiting: u64,
    overruns: u64,
    overrun_at: Option<Instant>,
}

impl Missed {
    fn records(&mut self, hub: &Hub, n: u64) {
        hub.log(|l| {
            l.records += 1;
            l.missed = l.missed.saturating_add(n);
        });
        self.waiting = self.waiting.saturating_add(n);
    }

    fn overrun(&mut self, _: &Hub) {
        self.overruns += 1;
    }

    fn report_missed(&mut self, hub: &Hub) {
        if self.waiting == 0 && self.overruns == 0
            || self.overrun_at.is_some_and(|t| t.elapsed() < OVERRUN_EVERY)
        {
            return;
        }
        self.overrun_at = Some(Instant::now());
        let text = match self.waiting {
            0 => "the kernel wrote faster than its log was read; records are missing".to_string(),
            n => format!("the kernel wrote faster than its log was read; {n} records are missing"),
        };
        let mut fault = agent_fault("kmsg-overrun", hub.now(), None, text);
        fault.count = self.waiting.max(self.overruns);
        hub.put(fault);
        (self.waiting, self.overruns) = (0, 0);
    }
}
