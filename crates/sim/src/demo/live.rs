//! What comes after the week: the same tenants go on, from the same seed, with shorter jobs, so
//! that whoever looks for a minute sees some come and go.

use super::{NODE_GPUS, complete_demo_spec, site};
use crate::SimError;
use crate::arrivals::{self, Arrival, FleetSize, Source};
use crate::chance::Chance;
use crate::scenario::{Delay, Scenario, Sizes, Workload};
use muster_model::spec::JobSpec;
use muster_model::units::Span;
use std::path::Path;

/// A job that will be submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct UpcomingJob {
    /// So long after the week's end.
    pub after: Span,
    /// The user who submits it.
    pub user: String,
    /// What the job asks for.
    pub spec: JobSpec,
}

/// Everything that comes, without end.
#[derive(Debug)]
pub struct Live {
    sources: Vec<(Source, Option<Arrival>)>,
    chance: Chance,
}

/// Nobody looks longer.
const LENGTH: Span = Span::hours(90 * 24);
/// Jobs of the week have lower numbers.
const FIRST: u64 = 5000;

fn sooner(s: &mut Scenario) {
    s.length = LENGTH;
    s.workload.retain(|w| matches!(w, Workload::Stream(_)));
    for w in &mut s.workload {
        let Workload::Stream(st) = w else { continue };
        let (factor, median, p95) = match st.name.as_str() {
            "exp" => (20.0, Span::mins(4), Span::mins(20)),
            "finetune" => (8.0, Span::mins(9), Span::mins(40)),
            _ => (8.0, Span::mins(12), Span::mins(50)),
        };
        st.per_hour *= factor;
        st.diurnal = 0.0;
        st.run = Delay { median, p95: Some(p95) };
        st.saving.startup = Span::secs(20);
        if st.name == "finetune" {
            st.sizes = Sizes::Weights(vec![(8, 60), (16, 40)]);
        }
    }
}

impl Live {
    /// What comes after the week of this seed.
    ///
    /// # Errors
    /// Never, unless the scenario that comes with this program is broken.
    pub fn new(seed: u64) -> Result<Live, SimError> {
        let mut s = site(seed)?;
        sooner(&mut s);
        let room = FleetSize { node_gpus: NODE_GPUS, nodes: 62 };
        // Another stream of chance than the week's: its jobs are others.
        s.seed = Chance::new(seed, &["live"]).below(u64::MAX);
        let mut all = arrivals::sources(&s, room, Path::new(""))?;
        for source in &mut all {
            source.count_from(FIRST);
        }
        let sources = all
            .into_iter()
            .map(|mut s| {
                let first = s.next();
                (s, first)
            })
            .collect();
        Ok(Live { sources, chance: Chance::new(seed, &["live", "faults"]) })
    }

    /// One of so many, for whoever goes on with the timeline.
    pub fn one_of(&mut self, n: usize) -> usize {
        let n = u64::try_from(n.max(1)).unwrap_or(1);
        usize::try_from(self.chance.below(n)).unwrap_or(0)
    }
}

impl Iterator for Live {
    type Item = UpcomingJob;

    fn next(&mut self) -> Option<UpcomingJob> {
        let coming = self.sources.iter_mut().filter(|(_, a)| a.is_some());
        let (source, slot) = coming.min_by_key(|(_, a)| a.as_ref().map(|a| a.at))?;
        let a = std::mem::replace(slot, source.next())?;
        let mut spec = a.spec;
        complete_demo_spec(&mut spec);
        Some(UpcomingJob { after: a.at, user: a.user, spec })
    }
}
