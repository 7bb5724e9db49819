//! What became of a reserved start, in words.

use super::Job;

impl Job {
    /// That its reserved start was withdrawn, and why; none where it was not, or it has another.
    #[must_use]
    pub fn start_withdrawn_words(&self) -> Option<String> {
        let why = self.start_withdrawn.as_ref()?;
        Some(format!("its reserved start was withdrawn: {why}"))
    }
}
