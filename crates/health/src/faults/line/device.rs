//! PCIe and network cards.

use super::super::pci::Pci;
use super::Fault;
use super::text::{after, has, split, utf8};

/// `DRIVER PCI: …` or `DRIVER PCI NAME: …`
pub(super) fn read(body: &[u8]) -> Option<Fault<'_>> {
    let (driver, rest) = split(body, b' ')?;
    if driver == b"mlx5_core:" {
        return card(body, None, &[], rest);
    }
    let (pci, rest) = Pci::front(rest)?;
    if driver == b"mlx5_core" {
        let (port, said) = split(rest, b':')?;
        return card(body, Some(pci), port, said);
    }
    bus(body, pci, rest.strip_prefix(b":")?.trim_ascii_start())
}

/// Errors of PCIe, as the root port or the driver of the device writes them.
fn bus<'a>(body: &'a [u8], pci: Pci, said: &'a [u8]) -> Option<Fault<'a>> {
    let fault = |name, pci| Some(Fault { pci: Some(pci), ..Fault::other(name, body) });
    if said.starts_with(b"DPC: containment event") {
        return fault("aer-fatal", pci);
    }
    if let Some(how) = after(said, b"PCIe Bus Error: severity=") {
        return fault(severity(how)?, pci);
    }
    let said = said.strip_prefix(b"AER: ")?;
    if said.starts_with(b"device recovery failed") {
        return fault("aer-fatal", pci);
    }
    let how = said.strip_prefix(b"Multiple ").unwrap_or(said);
    if !has(how, b"error received") && !has(how, b"error message received") {
        return None;
    }
    // The port reports a device behind it.
    let from = after(how, b"received: ").or_else(|| after(how, b"received from "));
    let device = from.and_then(Pci::front).map_or(pci, |(device, _)| device);
    fault(severity(how)?, device)
}

fn severity(how: &[u8]) -> Option<&'static str> {
    if how.starts_with(b"Correct") {
        return Some("aer-correctable");
    }
    let how = how.strip_prefix(b"Uncorrect")?;
    let (_, how) = split(how, b'(')?;
    if how.starts_with(b"Fatal") {
        Some("aer-fatal")
    } else {
        how.starts_with(b"Non-Fatal").then_some("aer-nonfatal")
    }
}

/// What a network card of NVIDIA (Mellanox) says.
fn card<'a>(body: &'a [u8], pci: Option<Pci>, port: &'a [u8], said: &'a [u8]) -> Option<Fault<'a>> {
    let says = |text: &[u8]| has(said, text);
    let name = if says(b"poll_health") && says(b"Fatal error")
        || says(b"health compromised")
        || says(b"handling bad device")
        || says(b"unrecoverable hardware error")
    {
        "mlx5-health"
    } else if says(b"timeout. Will cause a leak") || says(b"timeout, will cause a leak") {
        "mlx5-cmd-timeout"
    } else if says(b"TX timeout detected") {
        "mlx5-tx-timeout"
    } else if says(b"Link down") || says(b"Link DOWN") {
        "mlx5-link-down"
    } else if says(b"High temperature") || says(b"High Temperature") {
        "mlx5-temperature"
    } else if says(b"Port module event") && (says(b"unplugged") || says(b"rror")) {
        "mlx5-module"
    } else if says(b"insufficient power") {
        "mlx5-power"
    } else {
        return None;
    };
    let device = utf8(port.trim_ascii()).filter(|p| !p.is_empty());
    Some(Fault { pci, device, ..Fault::other(name, body) })
}
