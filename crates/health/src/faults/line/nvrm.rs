//! What NVIDIA's driver says: XIDs, `SXids`, and that it could not start.

use super::super::code::Code;
use super::super::pci::Pci;
use super::text::{after, find, has, hex_word, number, pid, small, split, utf8, word};
use super::{Detail, Fault, Line, Verdict};

/// `NVRM: …`
pub(super) fn read(body: &[u8]) -> Option<Line<'_>> {
    let said = body.get(5..)?.trim_ascii_start();
    if let Some(rest) = said.strip_prefix(b"Xid (") {
        return xid(body, rest).map(Line::Fault);
    }
    if let Some(rest) = said.strip_prefix(b"GPU at ") {
        let rest = rest.strip_prefix(b"PCI:").unwrap_or(rest);
        if let Some((pci, rest)) = Pci::front(rest)
            && let Some(uuid) = rest.strip_prefix(b": ").map(word).and_then(utf8)
            && uuid.starts_with("GPU-")
        {
            return Some(Line::Gpu { pci, uuid });
        }
    }
    if let Some(fault) = unstarted(body, said) {
        return Some(Line::Fault(fault));
    }
    let named = Pci::front(said.strip_prefix(b"The NVIDIA GPU ")?)?;
    Some(Line::Named(named.0))
}

/// What is said without an XID: a GPU is gone, or the driver could not start.
fn unstarted<'a>(body: &'a [u8], said: &'a [u8]) -> Option<Fault<'a>> {
    let name = if has(said, b"fallen off the bus") {
        "gpu-lost"
    } else if has(said, b"RmInitAdapter failed") || has(said, b"rm_init_adapter failed") {
        "nvrm-init-failed"
    } else if has(said, b"API mismatch") {
        "nvrm-api-mismatch"
    } else if has(said, b"probe routine failed") || has(said, b"None of the NVIDIA") {
        "nvrm-probe-failed"
    } else if has(said, b"No NVIDIA GPU found") || has(said, b"No NVIDIA graphics adapter found") {
        "nvrm-no-gpu"
    } else if has(said, b"WPR2 already up")
        || has(said, b"No firmware image found")
        || has(said, b"Failed to load GSP")
        || has(said, b"failed to load GSP")
        || has(said, b"Cannot initialize GSP")
    {
        "nvrm-gsp"
    } else if has(said, b"installed in this system is not supported") {
        "nvrm-unsupported"
    } else if has(said, b"encountered global fatal error") {
        "nvrm-uvm-fatal"
    } else if has(said, b"postRxDetLinkMask failed") {
        "nvrm-nvlink"
    } else {
        return None;
    };
    Some(Fault { pci: named_gpu(said), ..Fault::other(name, body) })
}

/// `GPU 0000:b3:00.0`, `GPU at PCI:0000:b3:00`.
fn named_gpu(said: &[u8]) -> Option<Pci> {
    let rest = after(said, b"GPU ")?;
    let rest = rest.strip_prefix(b"at ").unwrap_or(rest);
    let rest = rest.strip_prefix(b"PCI:").unwrap_or(rest);
    Pci::front(rest).map(|(pci, _)| pci)
}

/// `PCI:0000:3b:00): 79, pid=1, name=x, …`, also as older drivers write it.
fn xid<'a>(body: &'a [u8], rest: &'a [u8]) -> Option<Fault<'a>> {
    let (place, rest) = split(rest, b')')?;
    let place = place.strip_prefix(b"PCI:").unwrap_or(place);
    let (n, rest) = number(rest.strip_prefix(b":")?.trim_ascii_start())?;
    let code = Code::xid(n)?;
    // A number that goes on in letters is no number of an XID.
    if rest.first().is_some_and(|b| !matches!(b, b',' | b' ' | b'.' | b'\n' | b':')) {
        return None;
    }
    let mut fault = Fault::new(code, body);
    fault.pci = Pci::front(place).map(|(pci, _)| pci);
    let said = process(&mut fault, rest);
    fault.detail = match n {
        13 => exception(said),
        45 => trace(said),
        74 => registers(said),
        144..=150 => unit(said),
        154 => verdict(said),
        _ => Detail::None,
    };
    Some(fault)
}

/// Takes `pid=` and `name=` off the front; what follows them.
fn process<'a>(fault: &mut Fault<'a>, rest: &'a [u8]) -> &'a [u8] {
    let mut rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
    if let Some(r) = rest.strip_prefix(b"pid=") {
        fault.pid = pid(r.strip_prefix(b"'").unwrap_or(r));
        rest = split(r, b',').map_or(&[][..], |(_, r)| r).trim_ascii_start();
    }
    if let Some(r) = rest.strip_prefix(b"name=") {
        let (name, r) = split(r, b',').unwrap_or((r, &[]));
        let name = name.strip_prefix(b"'").and_then(|n| n.strip_suffix(b"'")).unwrap_or(name);
        let unknown = name.is_empty() || has(name, b"<unknown>");
        fault.process = (!unknown).then_some(name);
        rest = r.trim_ascii_start();
    }
    rest
}

/// `Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): …`
fn exception(said: &[u8]) -> Detail<'_> {
    let place = || {
        let rest = after(said, b"GPC ")?;
        let gpc = small(rest)?;
        let tpc = small(after(rest, b"TPC ")?)?;
        Some(Detail::Place { gpc, tpc })
    };
    place().unwrap_or(Detail::None)
}

/// `Ch 00000001 caused by previous Xid 149`
fn trace(said: &[u8]) -> Detail<'_> {
    let of = after(said, b"previous Xid ").and_then(number);
    of.map_or(Detail::None, |(n, _)| Detail::TraceOf(n))
}

/// `NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)`
fn registers(said: &[u8]) -> Detail<'_> {
    let Some(rest) = after(said, b"link ") else { return Detail::None };
    let link = small(rest);
    let Some((_, mut rest)) = split(rest, b'(') else { return Detail::None };
    let mut words = [0; 7];
    for w in &mut words {
        let Some((value, after)) = hex_word(rest) else { break };
        *w = value;
        rest = after.strip_prefix(b",").unwrap_or(after).trim_ascii_start();
    }
    Detail::Registers { link, words }
}

/// `RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 …)`
fn unit(said: &[u8]) -> Detail<'_> {
    let parts = || {
        let (at, fatal) = match find(said, b" Nonfatal ") {
            Some(at) => (at, false),
            None => (find(said, b" Fatal ")?, true),
        };
        let before = said.get(..at)?;
        let unit = before.rsplit(|b| matches!(b, b' ' | b',')).next().and_then(utf8)?;
        let rest = said.get(at..)?;
        let link = after(rest, b"Link ").and_then(small);
        let (_, words) = split(rest, b'(')?;
        let (info, words) = hex_word(words)?;
        let next = words.strip_prefix(b",").unwrap_or(words).trim_ascii_start();
        let (status, _) = hex_word(next)?;
        Some(Detail::Unit { unit, fatal, link, info, status })
    };
    parts().unwrap_or(Detail::None)
}

/// `GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)`. Words differ between
/// drivers; where they are new, the number before them decides.
fn verdict(said: &[u8]) -> Detail<'_> {
    let Some(to) = after(said, b" to ") else { return Detail::Verdict(Verdict::Unknown) };
    let words = split(to, b'(').map_or(&[][..], |(_, w)| w);
    let says = |text: &[u8]| has(words, text);
    Detail::Verdict(if says(b"Reboot") {
        Verdict::Reboot
    } else if says(b"Drain and Reset") {
        Verdict::DrainAndReset
    } else if says(b"Drain P2P") {
        Verdict::DrainP2p
    } else if says(b"Reset") || says(b"FLR") {
        Verdict::Reset
    } else if says(b"None") {
        Verdict::None
    } else {
        match hex_word(to).map(|(n, _)| n) {
            Some(0) => Verdict::None,
            Some(1) => Verdict::Reset,
            Some(2) => Verdict::Reboot,
            Some(3) => Verdict::DrainP2p,
            Some(4) => Verdict::DrainAndReset,
            _ => Verdict::Unknown,
        }
    })
}

/// `nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link …`
pub(super) fn switch(body: &[u8]) -> Option<Fault<'_>> {
    let rest = body.strip_prefix(b"nvidia-nvswitch")?;
    let (_, rest) = split(rest, b':')?;
    let rest = rest.trim_ascii_start().strip_prefix(b"SXid (")?;
    let (place, rest) = split(rest, b')')?;
    let place = place.strip_prefix(b"PCI:").unwrap_or(place);
    let (n, rest) = number(rest.strip_prefix(b":")?.trim_ascii_start())?;
    let said = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
    let fatal = if said.starts_with(b"Fatal") {
        Some(true)
    } else {
        said.starts_with(b"Non-fatal").then_some(false)
    };
    let link = after(said, b"Link ").and_then(small);
    let mut fault = Fault::new(Code::sxid(n)?, body);
    fault.pci = Pci::front(place).map(|(pci, _)| pci);
    fault.detail = Detail::Switch { fatal, link };
    Some(fault)
}
