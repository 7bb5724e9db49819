//! Drives the scheduler of the product over a log of rigid jobs on identical processors. The
//! scheduler sees limits and users, never run times.

use super::swf::Job;
use crate::alike;
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::spec::{Group, Priority, Tier};
use muster_model::units::{Bytes, Span, Time};
use muster_scheduler::fairshare::{ShareNode, Usage, ranks};
use muster_scheduler::history::History;
use muster_scheduler::{Cluster, Demand, Running, Work, plan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// What came of a log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// Mean bounded slowdown.
    pub(crate) mean: f64,
    /// Largest bounded slowdown.
    pub(crate) max: f64,
    /// Reserved starts made to jobs, and those of them that were kept.
    pub(crate) reserved: u64,
    /// See above.
    pub(crate) kept: u64,
    /// A reserved start became later than before, or was not kept.
    pub(crate) broken: u64,
    /// Cycles planned.
    pub(crate) cycles: u64,
    /// Longest wait in seconds.
    pub(crate) longest_wait_s: u64,
}

/// The longest that a run below this counts as in the bounded slowdown.
const TAU_MS: u64 = 10_000;

fn work(
    id: usize,
    j: &Job,
    project: &ProjectName,
    shapes: &mut BTreeMap<u32, Arc<Demand>>,
) -> Work {
    let demand = shapes.entry(j.width).or_insert_with(|| {
        let group = Group {
            name: "main".into(),
            nodes: j.width,
            gpus: 1,
            ranks: 1,
            cpus: 1,
            memory: Bytes(0),
            sku: None,
            part: None,
        };
        Arc::new(Demand {
            groups: [group].into(),
            required: None,
            preferred: None,
            segment: None,
            spread: None,
            simulated: false,
        })
    });
    Work {
        job: JobId(id as u64 + 1),
        demand: demand.clone(),
        priority: Priority::Normal,
        tier: Tier::OnDemand,
        project: project.clone(),
        user: j.user.map_or_else(|| "nobody".to_string(), |u| format!("u{u}")).into(),
        since: time(j.submit),
        limit: Some(Span(j.limit)),
        checkpoints: false,
        elastic: None,
    }
}

/// What users have had, for fair share.
#[derive(Default)]
struct Shares {
    usage: BTreeMap<Arc<str>, Usage>,
}

impl Shares {
    fn change(&mut self, policy: &SitePolicy, now: u64, w: &Work, up: bool) {
        let half = policy.fair_share.half_life;
        let milli = u64::from(w.width()) * 1000;
        self.usage.entry(w.user.clone()).or_default().change(time(now), half, milli, up);
    }

    /// Puts the queue in the order of fair share, as the product does before each cycle.
    fn order(&self, policy: &SitePolicy, now: u64, c: &mut Cluster) {
        if !policy.fair_share.enabled {
            return;
        }
        let half = policy.fair_share.half_life;
        let users: Vec<(Arc<str>, usize)> =
            c.queue.accounts().map(|((_, u), i)| (u.clone(), i)).collect();
        let count = users.len();
        let node = |(user, i): (Arc<str>, usize)| ShareNode {
            shares: 1,
            usage: self.usage.get(&user).map_or(0, |u| u.at(time(now), half)),
            children: Vec::new(),
            account: Some(i),
        };
        c.queue.set_ranks(ranks(users.into_iter().map(node).collect(), count));
    }
}

fn time(ms: u64) -> Time {
    Time(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// A job that waits after the cycle in which it was submitted, with all that is known then.
pub(crate) struct WaitingJob<'a> {
    pub(crate) c: &'a Cluster,
    pub(crate) history: &'a History<Arc<str>>,
    pub(crate) job: JobId,
    /// Its place in the log.
    pub(crate) index: usize,
    pub(crate) now: Time,
    pub(crate) reserved: Option<Time>,
}

/// Lives a log through.
///
/// # Panics
/// When the scheduler leaves a job waiting for ever.
#[must_use]
pub(crate) fn run_log(jobs: &[Job], machine: u32, policy: &SitePolicy) -> Outcome {
    run_observed(jobs, machine, policy, &mut |_: &WaitingJob<'_>| {}).0
}

/// The same, and shows every job that waits. Also when each started.
pub(crate) fn run_observed(
    jobs: &[Job],
    machine: u32,
    policy: &SitePolicy,
    waits: &mut dyn FnMut(&WaitingJob<'_>),
) -> (Outcome, Vec<Option<u64>>) {
    let mut c = Cluster::default();
    for i in 0..machine {
        c.fleet.upsert(alike::node(i as usize, "cpu", 1, (1, Bytes(0))));
    }
    let project: ProjectName = "log".parse().expect("a good name");
    let mut shapes = BTreeMap::new();
    let mut history: History<Arc<str>> = History::default();
    let mut starts: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut reserved_starts: BTreeMap<JobId, Time> = BTreeMap::new();
    let mut shares = Shares::default();
    let mut out = Outcome::default();
    let mut next = 0;
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut due: BTreeSet<u64> = BTreeSet::new();
    loop {
        let submit = jobs.get(next).map(|j| j.submit);
        let end = ends.peek().map(|Reverse((t, _))| *t);
        let Some(now) = [submit, end, due.first().copied()].into_iter().flatten().min() else {
            break;
        };
        due.remove(&now);
        while let Some(Reverse((_, id))) = ends.peek().copied().filter(|Reverse((t, _))| *t == now)
        {
            ends.pop();
            c.end(JobId(id as u64 + 1), |_| true);
            let w = work(id, &jobs[id], &project, &mut shapes);
            shares.change(policy, now, &w, false);
            history.observe(w.user.clone(), w.width(), w.limit_ms(), jobs[id].run);
            c.queue.update_estimates(&project, &w.user, |w| {
                history.runtime_estimate(&w.user, w.width(), w.limit_ms())
            });
        }
        let came = next;
        while jobs.get(next).is_some_and(|j| j.submit == now) {
            let w = work(next, &jobs[next], &project, &mut shapes);
            let belief = history.runtime_estimate(&w.user, w.width(), w.limit_ms());
            let job = w.job;
            c.queue.insert(Arc::new(w));
            c.queue.set_estimate(job, belief);
            next += 1;
        }
        loop {
            shares.order(policy, now, &mut c);
            let p = plan(&mut c, policy, time(now));
            out.cycles += 1;
            let more = p.more;
            for s in p.starts {
                let id = usize::try_from(s.job.0 - 1).expect("small");
                if let Some(at) = reserved_starts.remove(&s.job) {
                    if at >= time(now) { out.kept += 1 } else { out.broken += 1 }
                }
                let w = c.queue.get(s.job).cloned().expect("it waited");
                c.queue.remove(s.job);
                c.fleet.release_reservation(s.job);
                let placement = Arc::new(Placement {
                    slots: s.placed.slots,
                    port: 0,
                    domain: s.placed.domain,
                    level: s.placed.level,
                    fabric: s.placed.fabric,
                    cap_watts: None,
                    checkpoint_every: None,
                });
                shares.change(policy, now, &w, true);
                let until = time(now + jobs[id].limit);
                let r = Running {
                    work: w,
                    placement,
                    placed: time(now),
                    saved: time(now),
                    until,
                    stopping: false,
                    sku: "cpu".into(),
                };
                c.run(r, |_| true);
                starts[id] = Some(now);
                ends.push(Reverse((now + jobs[id].run, id)));
            }
            for p in p.reserved_starts {
                match reserved_starts.insert(p.job, p.at) {
                    None => out.reserved += 1,
                    Some(before) if before < p.at => out.broken += 1,
                    Some(_) => {}
                }
                let w = c.queue.get(p.job).cloned().expect("it waits");
                c.fleet.keep(&w, &p.nodes, (p.at, w.ends(p.at)), p.basis);
                due.insert(u64::try_from(p.at.0).unwrap_or(0).max(now + 1));
            }
            if !more {
                break;
            }
        }
        for index in (came..next).filter(|i| starts[*i].is_none()) {
            let job = JobId(index as u64 + 1);
            let reserved = reserved_starts.get(&job).copied();
            waits(&WaitingJob { c: &c, history: &history, job, index, now: time(now), reserved });
        }
    }
    measure(jobs, &starts, &mut out);
    (out, starts)
}

fn measure(jobs: &[Job], starts: &[Option<u64>], out: &mut Outcome) {
    let count = jobs.len() as f64;
    for (j, start) in jobs.iter().zip(starts) {
        let wait = start.expect("every job starts") - j.submit;
        let slowdown = ((wait + j.run) as f64 / j.run.max(TAU_MS) as f64).max(1.0);
        out.mean += slowdown / count;
        out.max = out.max.max(slowdown);
        out.longest_wait_s = out.longest_wait_s.max(wait / 1000);
    }
}
