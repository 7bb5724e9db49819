//! What a child that works on GPUs is told, and what it says.

use muster_gpu::qualify::{Expectations, Options, Want};
use muster_model::qualification::{Level, Qualification};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What the child is to do; one JSON object on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Test the machine.
    Test(TestOrder),
    /// Overwrite the free memory of these GPUs with zeros.
    Scrub {
        /// Which.
        gpus: Vec<u32>,
    },
    /// Make a fault on purpose, for a drill.
    Fault {
        /// On which GPU.
        gpu: u32,
        /// 31 writes out of bounds, 43 traps.
        xid: u32,
    },
}

/// How a test is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestOrder {
    /// How thoroughly.
    pub level: Level,
    /// Only these GPUs.
    #[serde(default)]
    pub gpus: Option<Vec<u32>>,
    /// Seconds that a full one goes on.
    pub length_s: u64,
    /// The operator's own bars, as a file's text.
    #[serde(default)]
    pub expect: Option<String>,
    /// What the node must have.
    #[serde(default)]
    pub want: WantOrder,
    /// Where the disk is tried.
    pub dir: PathBuf,
    /// Simulated GPUs instead of this machine's.
    #[serde(default)]
    pub simulated: Option<Simulated>,
}

/// What the node must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantOrder {
    /// So many GPUs.
    pub gpus: Option<u32>,
    /// Of this kind.
    pub sku: Option<String>,
}

/// GPUs that are only simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Their kind.
    pub sku: String,
    /// How many.
    pub gpus: u32,
    /// Percent by which one is too slow.
    #[serde(default)]
    pub slow: BTreeMap<u32, u8>,
    /// GPUs that compute wrongly.
    #[serde(default)]
    pub wrong: Vec<u32>,
    /// How many times faster than the clock the tests go.
    pub speed: f64,
}

impl TestOrder {
    /// The usual one for a level.
    #[must_use]
    pub fn of(level: Level) -> TestOrder {
        let usual = Options::of(level);
        TestOrder {
            level,
            gpus: None,
            length_s: usual.length.as_secs(),
            expect: None,
            want: WantOrder::default(),
            dir: usual.dir,
            simulated: None,
        }
    }

    pub(crate) fn options(&self) -> Result<Options, String> {
        let mut expect = Expectations::builtin();
        if let Some(text) = &self.expect {
            expect = expect.with(Expectations::parse(text).map_err(|e| e.to_string())?);
        }
        Ok(Options {
            level: self.level,
            gpus: self.gpus.clone(),
            length: Duration::from_secs(self.length_s),
            expect,
            want: Want { gpus: self.want.gpus, sku: self.want.sku.clone() },
            dir: self.dir.clone(),
            host: self.simulated.is_none(),
        })
    }
}

/// What the child says; one JSON object a line on its standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// How far it is.
    Progress {
        /// Seconds of work done.
        done: u64,
        /// Seconds of work in all.
        of: u64,
        /// What is being done.
        doing: String,
    },
    /// The test is over.
    Report(Box<Qualification>),
    /// So many bytes were overwritten.
    Scrubbed(u64),
    /// It could not be done.
    Failed(String),
}
