//! The log of a site, lived again from its beginning: the same jobs on the same machines, with
//! the failures that nodes had, under another policy.

use super::Site;
use super::draw::Draw;
use super::machines::{self, Kinds};
use crate::arrivals::Source;
use crate::fleet::Fleet;
use crate::outcome::{History, Outcome};
use crate::run::run_with;
use crate::scenario::{Delay, Failures, Incident, Mode, Scenario, Scope};
use crate::{Options, SimError};
use muster_model::event::Record;
use muster_model::policy::SitePolicy;
use muster_model::units::Span;

/// How long a node that was never back is away.
const FOR_GOOD: Span = Span::hours(365 * 24);

/// The log as a scenario with its machines and its work.
pub(crate) fn replayed(
    site: &Site,
    policy: Option<SitePolicy>,
    seed: u64,
) -> Result<(Scenario, Fleet, Vec<Source>), SimError> {
    let kinds = Kinds::of(site.state.nodes.values().map(|n| n.sku()));
    let fleet = machines::fleet(machines::ever(site, &kinds));
    if fleet.machines.is_empty() {
        return Err(SimError::new("no node ever joined the site of this log"));
    }
    let policy = policy.unwrap_or_else(|| (*site.state.policy).clone());
    // Long enough for a policy that is far worse.
    let length = Span(site.now.since(site.facts.first).0.saturating_mul(4) + 30 * 86_400_000);
    let mut s = site.scenario(&fleet, policy, &kinds, length);
    s.seed = seed;
    // Their windows are over.
    s.reservations.clear();
    let incident = |o: &super::facts::Outage| Incident {
        at: o.from.since(site.facts.first),
        name: "node failure".into(),
        on: vec![o.node.to_string()],
        scope: Scope::Node,
        mode: Mode::FailStop,
        share: None,
        repair: Some(Delay { median: o.back.map_or(FOR_GOOD, |b| b.since(o.from)), p95: None }),
        rate_factor: None,
        lasts: None,
    };
    let outages = site.facts.outages.iter().filter(|o| !o.mass);
    s.failures = Failures { incidents: outages.map(incident).collect(), ..Failures::default() };
    let source = Draw::new(site, &kinds, None).again(seed);
    Ok((s, fleet, vec![source]))
}

/// Lives a log again, under its own policy or another. The seed draws the run times of jobs that
/// had none of their own: those that were not over when the log ended.
///
/// # Errors
/// When the log is broken, or its site never had a node.
pub fn replay(
    records: impl Iterator<Item = Record>,
    policy: Option<SitePolicy>,
    seed: u64,
) -> Result<(Outcome, History), SimError> {
    let site = Site::from_records(records)?;
    let (s, fleet, sources) = replayed(&site, policy, seed)?;
    let to_its_end = Options { until_done: true };
    let run = run_with(&s, &fleet, sources, to_its_end, &|| true, |_, _| {})?;
    Ok((run.outcome, run.history))
}
