//! What a fault is called.

use std::fmt;

/// A fault's name: stable, and what rules and people say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// What NVIDIA's driver says of a GPU: `xid-79`.
    Xid(u32),
    /// What an NVSwitch says: `sxid-12028`.
    Sxid(u32),
    /// Anything else: `oom`, `aer-fatal`.
    Other(&'static str),
}

/// XIDs end below this; a larger number is no XID.
const XID_END: u32 = 10_000;
/// SXids have five digits.
const SXID_END: u32 = 100_000;

impl Code {
    /// An XID, where the number can be one.
    #[must_use]
    pub fn xid(n: u32) -> Option<Code> {
        (n > 0 && n < XID_END).then_some(Code::Xid(n))
    }

    /// An `SXid`, where the number can be one.
    #[must_use]
    pub fn sxid(n: u32) -> Option<Code> {
        (n > 0 && n < SXID_END).then_some(Code::Sxid(n))
    }

    /// From `xid-79` or `sxid-12028`. Other names are known to the catalogue alone.
    #[must_use]
    pub fn numbered(text: &str) -> Option<Code> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let plain = plain && !digits.starts_with('0');
            plain.then(|| digits.parse().ok()).flatten()
        };
        if let Some(digits) = text.strip_prefix("xid-") {
            number(digits).and_then(Code::xid)
        } else {
            text.strip_prefix("sxid-").and_then(number).and_then(Code::sxid)
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Xid(n) => write!(f, "xid-{n}"),
            Code::Sxid(n) => write!(f, "sxid-{n}"),
            Code::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for code in [Code::Xid(79), Code::Sxid(12_028)] {
            assert_eq!(Code::numbered(&code.to_string()), Some(code));
        }
        for no in ["xid-", "xid-0", "xid-079", "xid-79 ", "xid--1", "sxid-100000", "oom", "XID-79"]
        {
            assert_eq!(Code::numbered(no), None, "{no}");
        }
    }
}
