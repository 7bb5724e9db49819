//! Where the server may be: one address, or several of which one leads at a time.

use crate::error::AgentError;

/// Addresses to try in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Servers {
    all: Vec<String>,
    at: usize,
}

impl Servers {
    /// Understands `HOST:PORT`, or several of them separated by commas.
    pub(crate) fn parse(given: &str) -> Result<Servers, AgentError> {
        let wrong = |why: String| AgentError::Server { given: given.to_owned(), why };
        let mut all = Vec::new();
        for entry in given.split(',').map(str::trim) {
            if entry.is_empty() {
                return Err(wrong("an entry is empty".into()));
            }
            let port = entry.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if !port.is_some_and(|(_, p)| p.parse::<u16>().is_ok_and(|p| p > 0)) {
                return Err(wrong(format!("`{entry}` has no host or no port")));
            }
            if !all.iter().any(|a| a == entry) {
                all.push(entry.to_owned());
            }
        }
        Ok(Servers { all, at: 0 })
    }

    /// The one to try now.
    pub(crate) fn current(&self) -> &str {
        self.all.get(self.at).map_or("", String::as_str)
    }

    /// The current one did not answer, or does not lead.
    pub(super) fn next(&mut self) {
        self.at = (self.at + 1) % self.all.len().max(1);
    }

    /// Whether another one may lead.
    pub(super) fn several(&self) -> bool {
        self.all.len() > 1
    }

    /// How often each has been tried after so many tries in all.
    pub(super) fn rounds(&self, tries: u32) -> u32 {
        tries.div_ceil(u32::try_from(self.all.len()).unwrap_or(1).max(1))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_are_tried_in_turn() {
        let mut s = Servers::parse("a:1, [::1]:2,a:1").unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(s.current().to_owned());
            s.next();
        }
        assert_eq!(seen, ["a:1", "[::1]:2", "a:1"]);
        assert_eq!((s.rounds(0), s.rounds(1), s.rounds(2), s.rounds(3)), (0, 1, 1, 2));
    }

    #[test]
    fn an_entry_that_is_no_address_is_refused_with_what_to_write() {
        for bad in ["", "a:1,", "a:1,,b:2", "a", "a:", ":7", "a:0", "a:99999"] {
            let e = Servers::parse(bad).unwrap_err().to_string();
            assert!(e.contains("HOST:PORT") && e.contains(bad), "{e}");
        }
    }
}
