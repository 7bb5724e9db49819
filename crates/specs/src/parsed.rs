//! What comes of reading a job, in whichever form it was written.

use muster_model::resolve::{check_run, resolve};
use muster_model::spec::{JobSpec, SpecProblem};
use std::fmt;

/// A job and what its author should know about how it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The job as it will be submitted.
    pub spec: JobSpec,
    /// Directives that were understood but have no effect, or another one than in Slurm.
    pub notes: Vec<Note>,
}

/// Something worth knowing that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line it is about.
    pub line: u32,
    /// What to know.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Everything that can be judged from the spec alone.
pub(crate) fn check(spec: &JobSpec) -> Result<(), SpecProblem> {
    resolve(spec)?;
    check_run(&spec.run, spec.simulate.is_some())
}
