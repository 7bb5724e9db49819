//! A busy fleet that fails in every way, and knows which. It speaks the agent link like any
//! agent, invents its own physics, and writes the truth down for others to be scored against.
//! It shares nothing with what detects.

mod alike;
mod faults;
mod fleet;
mod link;
mod rng;
mod scale;
mod settings;
mod truth;
mod xid;

use anyhow::{Context, Result};
use muster_model::units::Time;
use settings::{RunMode, Settings};
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's clock.
pub(crate) fn wall() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn main() -> Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read what is wanted")?;
    let settings: Settings = serde_json::from_str(&line).context("cannot read what is wanted")?;
    // Whoever started us went away: so do we.
    std::thread::spawn(|| {
        let mut rest = String::new();
        while std::io::stdin().read_line(&mut rest).is_ok_and(|n| n > 0) {
            rest.clear();
        }
        std::process::exit(3);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        match settings.life.clone() {
            RunMode::Scored { .. } => fleet::live(settings).await,
            RunMode::Signals { .. } => scale::live(settings).await,
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_generator_knows_nothing_of_what_it_is_measured_with() {
        let manifest = include_str!("../Cargo.toml");
        let own: Vec<&str> = manifest
            .lines()
            .filter_map(|l| l.strip_prefix("muster-")?.split_once('.'))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(own, ["link", "model"]);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let faults = crate::faults::KINDS.iter().map(|k| k.0);
        let mut all: Vec<&str> = faults.chain(crate::alike::KINDS.iter().map(|k| k.0)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
