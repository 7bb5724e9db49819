//! What really happened, as the generator wrote it down.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One thing that went wrong, or only looked so. Times in milliseconds.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Truth {
    pub(super) id: u64,
    pub(super) kind: String,
    /// It was hardware or the platform, not a look-alike.
    pub(super) fault: bool,
    pub(super) nodes: Vec<String>,
    pub(super) gpu: Option<u32>,
    #[serde(default)]
    pub(super) port: Option<String>,
    #[serde(default)]
    pub(super) mount: Option<String>,
    #[serde(default)]
    pub(super) group: Option<(String, String)>,
    #[serde(default)]
    pub(super) job: Option<u64>,
    #[serde(default)]
    pub(super) params: BTreeMap<String, f64>,
    /// By the fleet's clock.
    #[serde(default)]
    pub(super) onset: Option<i64>,
    /// By the machine's clock.
    #[serde(default)]
    pub(super) onset_wall: Option<i64>,
    #[serde(default)]
    pub(super) end_wall: Option<i64>,
    #[serde(default)]
    pub(super) ended_by: String,
}

/// The fleet's clock beside the machine's.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Tick {
    row: i64,
    wall: i64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Tick { clock: Tick },
    Truth(Box<Truth>),
}

/// Everything of one life.
#[derive(Debug, Default)]
pub(super) struct GroundTruth {
    pub(super) truths: Vec<Truth>,
    ticks: Vec<Tick>,
}

impl GroundTruth {
    pub(super) fn read(path: &Path) -> Result<GroundTruth> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut life = GroundTruth::default();
        for line in text.lines() {
            match serde_json::from_str(line)
                .with_context(|| format!("a line of the ground truth: {line}"))?
            {
                Line::Tick { clock } => life.ticks.push(clock),
                // What was never shown to anybody is not asked for.
                Line::Truth(t) if t.onset_wall.is_some() => life.truths.push(*t),
                Line::Truth(_) => {}
            }
        }
        Ok(life)
    }

    /// The fleet's clock at a moment of the machine's.
    pub(super) fn row_time(&self, wall: i64) -> Option<i64> {
        let after = self.ticks.partition_point(|t| t.wall <= wall);
        let a = self.ticks.get(after.checked_sub(1)?)?;
        let b = self.ticks.get(after).or_else(|| self.ticks.last())?;
        if b.wall <= a.wall {
            return Some(a.row);
        }
        Some(a.row + (b.row - a.row) * (wall - a.wall) / (b.wall - a.wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fleets_clock_is_found_between_two_ticks() {
        let tick = |row, wall| Tick { row, wall };
        let life = GroundTruth { ticks: vec![tick(1000, 10), tick(4000, 110)], truths: vec![] };
        assert_eq!(life.row_time(60), Some(2500));
        assert_eq!(life.row_time(5), None);
        assert_eq!(life.row_time(500), Some(4000));
    }
}
