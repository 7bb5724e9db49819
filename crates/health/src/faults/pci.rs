//! Where a device sits on PCIe.

use std::fmt;

/// A PCIe address. The driver writes `0000:3b:00`, NVML `00000000:3B:00.0`, the kernel
/// `0000:3b:00.0`: all three are the same here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pci {
    /// Domain, or segment.
    pub domain: u32,
    /// The bus number.
    pub bus: u8,
    /// The device number on its bus.
    pub device: u8,
    /// Function; 0 where none was written.
    pub function: u8,
}

impl Pci {
    /// From text, with or without function; also with a leading `PCI:`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Pci> {
        let (pci, rest) = Pci::front(text.strip_prefix("PCI:").unwrap_or(text).as_bytes())?;
        rest.is_empty().then_some(pci)
    }

    /// The address that bytes begin with, and what follows it.
    pub(super) fn front(bytes: &[u8]) -> Option<(Pci, &[u8])> {
        let (domain, rest) = hex(bytes, 8)?;
        let (bus, rest) = hex(rest.strip_prefix(b":")?, 2)?;
        let (device, rest) = hex(rest.strip_prefix(b":")?, 2)?;
        let (function, rest) = match rest.strip_prefix(b".").and_then(|r| hex(r, 1)) {
            Some((f, after)) => (f, after),
            None => (0, rest),
        };
        let pci = Pci {
            domain,
            bus: u8::try_from(bus).ok()?,
            device: u8::try_from(device).ok().filter(|d| *d < 32)?,
            function: u8::try_from(function).ok().filter(|f| *f < 8)?,
        };
        Some((pci, rest))
    }
}

/// Up to `most` hexadecimal digits at the front, and what follows them.
pub(super) fn hex(bytes: &[u8], most: usize) -> Option<(u32, &[u8])> {
    let mut value = 0u32;
    let mut digits = 0;
    while digits < most {
        let Some(d) = bytes.get(digits).and_then(|b| char::from(*b).to_digit(16)) else { break };
        value = value.wrapping_shl(4) | d;
        digits += 1;
    }
    (digits > 0).then(|| (value, bytes.get(digits..).unwrap_or_default()))
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pci { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_of_writing_are_one_address() {
        let want = Pci { domain: 0, bus: 0x3b, device: 0, function: 0 };
        for text in ["0000:3b:00", "0000:3b:00.0", "00000000:3B:00.0", "PCI:0000:3b:00"] {
            assert_eq!(Pci::parse(text), Some(want), "{text}");
        }
        assert_eq!(want.to_string(), "0000:3b:00.0");
        assert_eq!(Pci::parse("0019:01:00").map(|p| p.domain), Some(0x19));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "0000", "0000:3b", "0000:3b:", "0000:3b:00.0 ", "0000:3b:40", "x:y:z"] {
            assert_eq!(Pci::parse(text), None, "{text}");
        }
    }
}
