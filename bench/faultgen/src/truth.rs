//! What really happened, for the scorer alone.

use anyhow::{Context, Result};
use muster_model::units::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// One thing that went wrong, or only looked so.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Truth {
    pub(crate) id: u64,
    /// What it was.
    pub(crate) kind: &'static str,
    /// It was hardware (or the platform under the jobs), not a look-alike.
    pub(crate) fault: bool,
    pub(crate) nodes: Vec<String>,
    pub(crate) gpu: Option<u32>,
    pub(crate) port: Option<String>,
    /// Where it was mounted, for storage.
    pub(crate) mount: Option<String>,
    /// What the nodes share: `leaf` or `feed` with its name.
    pub(crate) group: Option<(String, String)>,
    /// Number of the job.
    pub(crate) job: Option<u64>,
    /// Node of the rank that is the cause.
    pub(crate) culprit: Option<String>,
    pub(crate) params: BTreeMap<&'static str, f64>,
    /// First row or line that showed it, by the fleet's clock.
    pub(crate) onset: Option<Time>,
    /// The same by the machine's clock.
    pub(crate) onset_wall: Option<Time>,
    pub(crate) end: Option<Time>,
    pub(crate) end_wall: Option<Time>,
    /// How it ended: `over`, `repaired`, `rebooted`.
    pub(crate) ended_by: &'static str,
}

/// The file with the truth, one JSON object a line.
pub(crate) struct Log(BufWriter<File>);

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Log> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Log(BufWriter::new(file)))
    }

    pub(crate) fn write<T: Serialize>(&mut self, what: &T) -> Result<()> {
        serde_json::to_writer(&mut self.0, what)?;
        self.0.write_all(b"\n")?;
        self.0.flush()?;
        Ok(())
    }
}
