//! Why jobs do not start, as far as that costs little to say: for lists, in the words and in the
//! order of an explanation.

use crate::cluster::Cluster;
use crate::explain::{ExplanationBuilder, smallest};
use crate::rights::UserRights;
use crate::work::{Demand, Work};
use muster_model::policy::SitePolicy;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Jobs for which the fleet is alike, whoever they belong to: what they ask for, the smallest size
/// that will do, and whether they may be stopped for others (they may go to lemons).
type Alike = (Arc<Demand>, Option<u32>, bool);

/// What the fleet has not, whatever is free.
#[derive(Debug)]
struct MissingCapability {
    words: String,
    /// Also if all nodes were in service.
    never: bool,
}

/// Why jobs do not start. Made once for a whole list: the fleet is looked at once for all who are
/// alike, and not at all for what is free.
#[derive(Debug)]
pub struct Reasons<'a> {
    rights: UserRights<'a>,
    now: Time,
    known: BTreeMap<Alike, Option<MissingCapability>>,
}

impl<'a> Reasons<'a> {
    /// As the cluster is now.
    #[must_use]
    pub fn new(c: &'a Cluster, policy: &'a SitePolicy, now: Time) -> Reasons<'a> {
        Reasons { rights: UserRights::new(c, policy, now), now, known: BTreeMap::new() }
    }

    /// Why it can never start on this fleet, if so.
    #[must_use]
    pub fn never(&mut self, w: &Work) -> Option<String> {
        self.lack(w).filter(|l| l.never).map(|l| l.words.clone())
    }

    /// Why it can never start as the nodes, the quotas and the limits are, if so: no reserved start
    /// could be met. A sentence about the job.
    #[must_use]
    pub fn never_starts(&mut self, w: &Work) -> Option<String> {
        let never = self.never(w).map(|words| format!("it {words}"));
        never.or_else(|| self.rights.never_allowed(w))
    }

    /// Why a job does not start, if it is not for want of room: what stops it for good, then what
    /// the site does not allow, then nodes that are not in service.
    #[must_use]
    pub fn stop(&mut self, w: &Work) -> Option<String> {
        self.never(w)
            .or_else(|| self.rights.denied(w).map(|d| d.words))
            .or_else(|| self.lack(w).map(|l| l.words.clone()))
    }

    fn lack(&mut self, w: &Work) -> Option<&MissingCapability> {
        let alike = (w.demand.clone(), w.elastic.map(|(min, _)| min), w.preemptible());
        let (rights, now) = (&self.rights, self.now);
        let found = self.known.entry(alike).or_insert_with(|| {
            let small = smallest(w);
            let why = ExplanationBuilder::new(rights, (w, small.as_ref().unwrap_or(w)), now);
            let never = why.never().map(|words| MissingCapability { words, never: true });
            never.or_else(|| {
                why.out_of_service().map(|words| MissingCapability { words, never: false })
            })
        });
        found.as_ref()
    }
}
