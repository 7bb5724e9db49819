//! One line of the kernel's log.
//!
//! Nearly every line of a kernel's log is no fault, so the first look is the cheap one: a scan for
//! three-letter pieces of what faults are written with ([`scan`]). Only what it finds is read
//! further. Nothing is allocated, and never more than [`MAX_LINE`] bytes are looked at.

mod device;
mod disk;
mod host;
mod nvrm;
mod prefix;
mod scan;
mod text;

use super::code::Code;
use super::pci::Pci;

/// Bytes of a line that are looked at; what follows is as if it were not there. The kernel's own
/// limit for a record is about 1,000.
pub const MAX_LINE: usize = 2048;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// Something went wrong.
    Fault(Fault<'a>),
    /// Which GPU sits where: the driver says so before its first fault.
    Gpu {
        /// Where it sits.
        pci: Pci,
        /// Its UUID, `GPU-…`.
        uuid: &'a str,
    },
    /// The GPU that the next lines speak of: the driver writes some sentences over several lines.
    Named(Pci),
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault<'a> {
    /// What it is called.
    pub code: Code,
    /// The device, where it is named by its address.
    pub pci: Option<Pci>,
    /// The device, where it has a name: `nvme0n1`, `MC0`, `mlx5_5`.
    pub device: Option<&'a str>,
    /// The process, where one is named.
    pub pid: Option<i32>,
    /// What that process is called.
    pub process: Option<&'a [u8]>,
    /// What else the line says that rules need.
    pub detail: Detail<'a>,
    /// The line without what loggers put before it.
    pub body: &'a [u8],
}

/// What rules need besides the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// The line says nothing more.
    None,
    /// XID 13: where in the GPU.
    Place {
        /// Graphics processing cluster.
        gpc: u16,
        /// Texture processing cluster in it.
        tpc: u16,
    },
    /// XID 74: what the link's registers say.
    Registers {
        /// The link's number, where the line names one.
        link: Option<u16>,
        /// As many as were written; the others are 0.
        words: [u32; 7],
    },
    /// XIDs 144 to 150: what a unit of NVLink 5 says.
    Unit {
        /// The unit's name as the line has it.
        unit: &'a str,
        /// Whether the line calls it fatal.
        fatal: bool,
        /// Which link; none where the line says -1.
        link: Option<u16>,
        /// Which interrupt, as bits.
        info: u32,
        /// Which error, as bits or as a number.
        status: u32,
    },
    /// XID 154: what the driver wants done.
    Verdict(Verdict),
    /// XID 45: the XID that it is a trace of.
    TraceOf(u32),
    /// An `SXid`: whether the line calls it fatal. Lines that only add figures say nothing.
    Switch {
        /// Whether it says fatal.
        fatal: Option<bool>,
        /// The port's number, where the line names one.
        link: Option<u16>,
    },
}

/// What the driver wants done with a GPU (XID 154).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing has to be done.
    None,
    /// Work that uses links between GPUs is to stop.
    DrainP2p,
    /// Work is to end, then the GPU is reset.
    DrainAndReset,
    /// The GPU is to be reset.
    Reset,
    /// The node is to be restarted.
    Reboot,
    /// Words that are not known here.
    Unknown,
}

impl<'a> Fault<'a> {
    fn new(code: Code, body: &'a [u8]) -> Fault<'a> {
        Fault {
            code,
            pci: None,
            device: None,
            pid: None,
            process: None,
            detail: Detail::None,
            body,
        }
    }

    fn other(name: &'static str, body: &'a [u8]) -> Fault<'a> {
        Fault::new(Code::Other(name), body)
    }
}

/// Reads a line of the kernel's log: the message alone, or with what `dmesg`, `/dev/kmsg`, syslog
/// and journald put before it. None for what is no fault, and for what a program wrote that is not
/// the kernel.
#[must_use]
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.get(..MAX_LINE).unwrap_or(line);
    let body = prefix::body(line)?;
    let found = scan::anchors(body);
    if found == 0 {
        return None;
    }
    read(found, body)
}

fn read(found: u64, body: &[u8]) -> Option<Line<'_>> {
    if found & scan::NVRM != 0 && body.starts_with(b"NVRM:") {
        return nvrm::read(body);
    }
    let fault = None
        .or_else(|| (found & scan::SWITCH != 0).then(|| nvrm::switch(body)).flatten())
        .or_else(|| (found & scan::DEVICE != 0).then(|| device::read(body)).flatten())
        .or_else(|| (found & scan::DISK != 0).then(|| disk::read(body)).flatten())
        .or_else(|| (found & scan::HOST != 0).then(|| host::read(body)).flatten())?;
    Some(Line::Fault(fault))
}
