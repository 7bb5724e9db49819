//! What the site allows a user, quotas and limits, and in which words it says so: the same for a
//! list and for an explanation.

use crate::claims::Claims;
use crate::cluster::{Cluster, UserLimit, UserUsage, limit_on};
use crate::node::Ask;
use crate::quota::{LeftParts, QuotaShortage};
use crate::words::plural;
use crate::work::Work;
use muster_model::policy::SitePolicy;
use muster_model::spec::Tier;
use muster_model::units::Time;

/// What users may have as things are. Made once for many jobs.
#[derive(Debug)]
pub(crate) struct UserRights<'a> {
    pub(crate) c: &'a Cluster,
    pub(crate) policy: &'a SitePolicy,
    now: Time,
    claims: Option<Claims>,
}

/// What a job may not have.
pub(crate) struct Denied {
    /// Short name of the constraint.
    pub(crate) name: &'static str,
    pub(crate) words: String,
    /// GPUs that the quota leaves, in thousandths.
    pub(crate) left: u64,
    /// Waiting does not change it.
    pub(crate) warning: bool,
}

impl<'a> UserRights<'a> {
    /// As the cluster is now.
    pub(crate) fn new(c: &'a Cluster, policy: &'a SitePolicy, now: Time) -> UserRights<'a> {
        UserRights { c, policy, now, claims: Claims::if_made(c, now) }
    }

    /// For questions that no quota has a part in: what is claimed of them is not looked for, which
    /// would copy them all.
    pub(crate) fn unclaimed(c: &'a Cluster, policy: &'a SitePolicy, now: Time) -> UserRights<'a> {
        UserRights { c, policy, now, claims: None }
    }

    /// SKUs of which the quota leaves enough, as a mask.
    pub(crate) fn skus(&self, w: &Work) -> u64 {
        self.c.skus_by(w, |sku| self.c.quota_left(w, sku, self.claims.as_ref()))
    }

    /// Which reservation that it has not, quota or limit on users keeps a job from starting, if one
    /// does.
    pub(crate) fn denied(&self, w: &Work) -> Option<Denied> {
        if self.c.fleet.lacks_reservation(w, self.now) {
            let words = format!(
                "project {} has no reservation, and work of tier reserved runs only inside one: \
                 `muster reservation create` makes one",
                w.project
            );
            return Some(Denied { name: "tier", words, left: 0, warning: true });
        }
        if let Some(limit) = self.c.user_limit(w, &self.policy.limits) {
            let held = self.c.held(&w.project, &w.user);
            let words = match limit {
                UserLimit::Jobs(n) => format!("{} already runs {} of {n} jobs", w.user, held.jobs),
                UserLimit::Gpus(n) => format!(
                    "{} already has {} of {n} GPUs and requests {} more",
                    w.user,
                    held.milli / 1000,
                    w.demand.gpus()
                ),
            };
            return Some(Denied { name: "user limit", words, left: 0, warning: false });
        }
        if self.c.ledger.is_empty() || w.demand.gpus() == 0 {
            return None;
        }
        let f = &self.c.fleet;
        let skus = self.skus(w) & ((1u64 << f.skus.len().min(63)) - 1);
        if f.asks(&w.demand, f.lemon_will_do(w)).iter().all(|a| a.skus & skus != 0) {
            return None;
        }
        let sku = f.skus.iter().map(String::as_str).find(|s| {
            let named = |n: &String| n.split('|').any(|x| x == *s);
            w.demand.groups.iter().all(|g| g.sku.as_ref().is_none_or(named)) && *s != "cpu"
        });
        let sku = sku.unwrap_or_default();
        let milli = w.demand.milli(sku);
        let mut short = self.c.quota_left(w, sku, self.claims.as_ref()).err()?;
        let ledger = &self.c.ledger;
        let warning = self.c.is_beyond_quota(w);
        // What the quotas never leave is why, whatever else is used up now.
        let never = ledger.check_unused(&w.project, sku, w.tier, milli).err().filter(|_| warning);
        if let Some(never) = never.as_ref().filter(|never| never.kind != short.kind) {
            let left = ledger.left_parts(&w.project, &never.kind).left;
            short = QuotaShortage { left, ..never.clone() };
        }
        let of = short.kind.sku.as_ref().map(|s| format!(" of SKU {s}")).unwrap_or_default();
        let mut words = format!(
            "quota {} leaves {} of the {} GPUs{of} it asks for",
            short.quota,
            gpus(short.left),
            gpus(milli)
        );
        if warning {
            words += ", and never will as the quotas are set";
        }
        let parts = ledger.left_parts(&w.project, &short.kind);
        // What is left now, and not any more when those whom others make room for run.
        let reserved = parts.left.saturating_sub(short.left);
        words += &format!(": {}", sum_words(&parts, reserved));
        if warning {
            words += &never.map(|never| self.never_words(&never)).unwrap_or_default();
        } else {
            let used = ledger.tree_usage(&w.project, &short.kind);
            let kept = self.claims.as_ref().map_or(0, |c| c.reserved_for_others(w, &short.kind));
            let later = kept.saturating_sub(reserved);
            if later > 0 {
                let whom = if reserved > 0 { "them" } else { PREEMPTED_FOR };
                let later = gpus(later);
                words += &format!("; {later} of what is given back are reserved for {whom}");
            }
            // What it would have stays within its own: the same that makes a claim.
            let within = used.borrowed > 0 && parts.used + milli <= parts.owned;
            let p = &self.policy.preemption;
            if within && p.enabled && w.tier != Tier::Spot {
                words += &format!(
                    "; what it owns is reclaimed from spot work at once, from other work once that \
                     has run for {}",
                    p.min_run
                );
            }
            if parts.owned == 0 || parts.borrowed > 0 {
                words += if used.borrowed_all {
                    "; it has borrowed all that it may"
                } else {
                    "; it may borrow what others do not use now"
                };
            }
        }
        Some(Denied { name: "quota", words, left: short.left, warning })
    }
}

impl UserRights<'_> {
    /// Why the site would not allow a job to start even if its project and its user had nothing, if so.
    pub(crate) fn never_allowed(&self, w: &Work) -> Option<String> {
        let (c, project, user) = (self.c, &w.project, &w.user);
        let asked = plural(w.demand.gpus(), "GPU");
        if c.fleet.lacks_reservation(w, self.now) {
            let words = "has no reservation, and work of tier reserved runs only inside one";
            return Some(format!("project {project} {words}"));
        }
        match limit_on(w, &self.policy.limits, UserUsage::default()) {
            Some(UserLimit::Jobs(n)) => return Some(format!("{user} may run {n} jobs")),
            Some(UserLimit::Gpus(n)) => {
                let most = plural(n.into(), "GPU");
                return Some(format!("{user} may have {most}, and it asks for {asked}"));
            }
            None => {}
        }
        c.is_beyond_quota(w)
            .then(|| format!("the quotas never give project {project} the {asked} it asks for"))
    }

    /// Why a quota never leaves a job as many GPUs as it asks for. It waits all the same: an operator may
    /// set other quotas at any time.
    fn never_words(&self, never: &QuotaShortage) -> String {
        let kind = &never.kind;
        match self.c.ledger.usage(&never.quota, kind.sku.as_deref(), kind.tier) {
            Some(u) if !u.may_borrow => "; a root of the tree borrows from nobody".to_owned(),
            _ => format!("; at most {} with what it may borrow", gpus(never.left)),
        }
    }
}

impl Cluster {
    /// Whether a job asks for more than its project's quota ever gives, were nothing used. Not where
    /// the fleet has none of the SKUs that it asks for: what keeps it then is no quota. Costs what the
    /// quotas and the SKUs are, not what the fleet has.
    #[must_use]
    pub fn is_beyond_quota(&self, w: &Work) -> bool {
        if self.ledger.is_empty() || w.demand.gpus() == 0 {
            return false;
        }
        let f = &self.fleet;
        let unused =
            |sku: &str| self.ledger.check_unused(&w.project, sku, w.tier, w.demand.milli(sku));
        let all = (1u64 << f.skus.len().min(63)) - 1;
        let skus = self.skus_by(w, unused) & all;
        let beyond = |a: &Ask| a.skus & all != 0 && a.skus & skus == 0;
        f.asks(&w.demand, f.lemon_will_do(w)).iter().any(beyond)
    }
}

/// Whom quota is reserved for.
const PREEMPTED_FOR: &str = "jobs that others are preempted for";

/// What is named also where it is nothing.
const USED: &str = "used";

/// All that makes up what a quota leaves, so that a reader can add it up.
fn sum_words(parts: &LeftParts, reserved: u64) -> String {
    let for_others = format!("reserved for {PREEMPTED_FOR}");
    let more = [
        (parts.borrowed, "borrowed"),
        (parts.to_borrow, "more to borrow"),
        (parts.used, USED),
        (parts.not_lent, "not lent by quotas below it"),
        (parts.borrowed_by_others, "borrowed by others"),
        (reserved, for_others.as_str()),
    ];
    let mut words = format!("{} owned", gpus(parts.owned));
    for (milli, what) in more.into_iter().filter(|(milli, what)| *milli > 0 || *what == USED) {
        words += &format!(", {} {what}", gpus(milli));
    }
    words
}

fn gpus(milli: u64) -> String {
    if milli.is_multiple_of(1000) {
        (milli / 1000).to_string()
    } else {
        format!("{}.{:03}", milli / 1000, milli % 1000)
    }
}
