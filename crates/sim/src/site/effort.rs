//! How much is simulated in the time that there is, and the whole question asked at once.

use super::plan::Plan;
use super::{Change, SimulatedPair, Site, answer};
use crate::SimError;
use crate::outcome::History;
use muster_model::units::Span;
use muster_model::whatif::WhatIfAnswer;

/// A run of this length shows how long the others take.
const PILOT: Span = Span::hours(24);
/// With fewer pairs nothing is certain; a shorter horizon comes first.
const FEWEST: u64 = super::answer::CERTAIN_PAIRS;
/// The shortest horizon that is chosen.
const SHORTEST_H: u64 = 6;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Pairs of runs.
    pub seeds: u64,
    /// How far ahead.
    pub horizon: Span,
}

/// A question to a site.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is changed.
    pub changes: Vec<Change>,
    /// Pairs of runs, if there is time.
    pub seeds: u64,
    /// How far ahead; where it is not given, it may be chosen.
    pub horizon: Option<Span>,
    /// About how long it may take, in seconds.
    pub budget_s: f64,
    /// With more nodes than this it is refused.
    pub most_nodes: usize,
}

impl Ask {
    /// Why less was simulated than was asked for: `made` pairs, `horizon` ahead of `asked`.
    #[must_use]
    pub fn shortfall(&self, made: u64, asked: Span, horizon: Span) -> Option<String> {
        let fewer = (made < self.seeds).then(|| format!("{made} of {} pairs", self.seeds));
        let shorter = (horizon < asked).then(|| format!("{horizon} ahead instead of {asked}"));
        let less: Vec<String> = fewer.into_iter().chain(shorter).collect();
        let budget = Span((self.budget_s * 1000.0) as u64);
        (!less.is_empty()).then(|| {
            let less = less.join(", ");
            format!("{less}: more does not fit into {budget}; `--budget` allows more time")
        })
    }
}

impl Plan<'_> {
    /// The same, only as long as is needed to see how long the others take.
    #[must_use]
    pub fn pilot(&self) -> Self {
        let mut pilot = self.clone();
        pilot.shorten(PILOT);
        pilot
    }

    /// How many pairs of runs there is time for, and how far ahead. The pilot took `took_s`; so many
    /// runs are made at the same time.
    #[must_use]
    pub fn effort(&self, ask: &Ask, took_s: f64, at_once: u64) -> Effort {
        let asked = self.horizon();
        let took = took_s.max(0.001);
        let budget = (ask.budget_s - took).max(0.5);
        // Where nothing comes, what is there now makes nearly all of the work, whenever it runs.
        let days = if self.goes_on() { asked.0 as f64 / PILOT.0 as f64 } else { 2.0 };
        // The first day is the lightest where a queue grows.
        let per_life = took * days.max(1.0) * if days > 1.0 { 1.5 } else { 1.0 };
        // So many lives one after the other.
        let rounds = |seeds: u64| (2 * seeds).div_ceil(at_once.max(1)) as f64;
        let mut seeds = ask.seeds;
        while seeds > FEWEST && rounds(seeds) * per_life > budget {
            seeds -= 1;
        }
        let over = rounds(seeds) * per_life / budget;
        let mut horizon = asked;
        if over > 1.0 && ask.horizon.is_none() && self.goes_on() {
            let hours = (asked.0 as f64 / over) as u64 / 3_600_000;
            horizon = asked.min(Span::hours(hours.max(SHORTEST_H)));
        }
        Effort { seeds, horizon }
    }
}

impl Site {
    /// Simulates the site as it is and with the changes, one run after the other, and compares them.
    /// `clock` says how many seconds have passed, and nothing once it is to stop: then the pairs that
    /// are complete are the answer.
    ///
    /// # Errors
    /// When a change is not possible here, or it was stopped before the first pair was complete.
    pub fn ask(
        &self,
        ask: &Ask,
        clock: &dyn Fn() -> Option<f64>,
    ) -> Result<WhatIfAnswer, SimError> {
        let mut base = self.plan(&[], ask.horizon)?;
        let mut other = self.plan(&ask.changes, ask.horizon)?;
        let nodes = base.size().0.max(other.size().0);
        if nodes > ask.most_nodes {
            let most = ask.most_nodes;
            return Err(SimError::new(format!("{nodes} nodes; at most {most} are simulated here")));
        }
        let goes_on = || clock().is_some();
        let began = clock().ok_or(SimError::Stopped)?;
        base.pilot().live_while(1, &goes_on)?;
        let took = clock().ok_or(SimError::Stopped)? - began;
        let asked = base.horizon();
        let effort = base.effort(ask, took, 1);
        base.shorten(effort.horizon);
        other.shorten(effort.horizon);
        let mut pairs = Vec::new();
        for seed in 1..=effort.seeds {
            let run = |plan: &Plan<'_>| {
                // Its course is for pages with pictures: many of them take much memory.
                plan.live_while(seed, &goes_on).map(|mut r| {
                    r.history = History::default();
                    r
                })
            };
            match run(&base).and_then(|b| Ok(SimulatedPair::of(b, run(&other)?))) {
                Ok(pair) => pairs.push(pair),
                Err(SimError::Stopped) => break,
                Err(e) => return Err(e),
            }
        }
        if pairs.is_empty() {
            return Err(SimError::Stopped);
        }
        let mut out = answer(self, &base, &other, &ask.changes, &pairs);
        if let Some(less) = ask.shortfall(pairs.len() as u64, asked, base.horizon()) {
            out.notes.insert(0, less);
        }
        Ok(out)
    }
}
