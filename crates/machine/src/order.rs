//! What a child that works on GPUs is asked, and what it answers.

use muster_gpu::qualify::{Expectations, ExpectedGpus, Options};
use muster_model::qualification::{Level, Qualification};
use serde::{Deserialize, Serialize};
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
        /// The GPUs, by index.
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
    /// How much is tested: quick, standard or full.
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
    /// The kind of GPU, such as `h100-sxm`.
    pub sku: String,
    /// How many GPUs there are.
    pub gpus: u32,
    /// Percent by which one is too slow.
    #[serde(default)]
    pub slow: Vec<(u32, u8)>,
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
            want: ExpectedGpus { gpus: self.want.gpus, sku: self.want.sku.clone() },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_survives_the_pipe() {
        let simulated = Simulated {
            sku: "h100-sxm".into(),
            gpus: 8,
            slow: vec![(3, 20)],
            wrong: vec![5],
            speed: 2.0,
        };
        let test = TestOrder {
            gpus: Some(vec![0, 3]),
            expect: Some("[x]".into()),
            want: WantOrder { gpus: Some(8), sku: Some("h100-sxm".into()) },
            simulated: Some(simulated),
            ..TestOrder::of(Level::Full)
        };
        let orders =
            [Order::Test(test), Order::Scrub { gpus: vec![1] }, Order::Fault { gpu: 0, xid: 31 }];
        for order in orders {
            let text = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order, "{text}");
        }
    }
}
