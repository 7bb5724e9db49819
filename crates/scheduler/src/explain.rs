//! Why a job waits, from the predicates that decided it, and what would start it sooner.

use crate::cluster::Cluster;
use crate::domain::Domain;
use crate::fleet::Fleet;
use crate::never::{self, Unmet};
use crate::node::{Ask, Block, Entry};
use crate::place::{Placed, Query, place};
use crate::power::Added;
use crate::rights::UserRights;
use crate::suggest;
use crate::timeline::earliest;
use crate::words::plural;
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::names::{Label, NodeName};
use muster_model::node::NodeRole;
use muster_model::policy::SitePolicy;
use muster_model::spec::{GpuPart, Group, Tier};
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// One constraint, and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// Short name.
    pub name: String,
    /// What it asks for, for people.
    pub detail: String,
    /// Nodes left after it.
    pub nodes_left: u32,
    /// Free GPUs on them, or all of them before occupancy is looked at.
    pub gpus_left: u64,
    /// This is the one that stops the job.
    pub binding: bool,
    /// Whoever submits the job has to know it at once: waiting does not change it, or it costs work.
    pub warning: bool,
}

/// A job that goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAhead {
    /// The job that goes first.
    pub job: JobId,
    /// Why it is first.
    pub why: String,
}

/// When it may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// Not before this by durations seen; none when too few were seen, or nobody asked (see
    /// [`forecast`](crate::forecast)).
    pub earliest: Option<Time>,
    /// Not after this by time limits as written.
    pub at: Time,
    /// Nodes are reserved for it from `at` on: no job that is let in before delays it. Otherwise `at`
    /// follows from the jobs that are there now, and others that go first move it.
    pub reserved: bool,
    /// What it rests on.
    pub basis: String,
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// One sentence.
    pub summary: String,
    /// Would start in the next cycle.
    pub starts_now: bool,
    /// Could never start on this fleet, even when empty.
    pub impossible: bool,
    /// Each constraint in the order it was looked at.
    pub constraints: Vec<Constraint>,
    /// The first few jobs ahead.
    pub ahead: Vec<JobAhead>,
    /// How many jobs are ahead in all.
    pub ahead_count: u32,
    /// When it may start.
    pub estimate: Option<Estimate>,
    /// Smallest changes that would start it now.
    pub suggestions: Vec<String>,
    /// Jobs that would be stopped or shrunk for it; the plan's own.
    pub gives_way: Vec<JobId>,
    /// From when on they may be, where they have not run for long enough yet.
    pub gives_way_from: Option<Time>,
    /// Where it would go if it started now.
    pub would_go: Option<String>,
}

/// How every reason begins that is about what is free. Lists say only this: what is missing costs more
/// to find out.
pub const WAITS: &str = "waits for free capacity";

/// What is said of a job that nothing keeps from starting.
pub const STARTS_NEXT: &str = "there is free capacity: it starts in the next cycle";

/// So many nodes, and the verb that goes with them.
fn satisfying(n: u32) -> (String, &'static str) {
    (plural(n.into(), "node"), if n == 1 { "satisfies" } else { "satisfy" })
}

fn are(n: u32) -> String {
    if n == 1 { "1 is".into() } else { format!("{n} are") }
}

fn ask(g: &Group) -> String {
    let mut parts = Vec::new();
    match &g.part {
        Some(GpuPart::Milli(m)) => parts.push(format!("{m} thousandths of a GPU")),
        Some(GpuPart::Mig(p)) => parts.push(format!("a MIG slice {p}")),
        None if g.gpus > 0 => parts.push(plural(g.gpus.into(), "GPU")),
        None => {}
    }
    parts.push(plural(g.cpus.into(), "CPU"));
    if g.memory.0 > 0 {
        parts.push(format!("{} memory", g.memory));
    }
    let sku = g.sku.as_ref().map(|s| format!(" of SKU {}", s.replace('|', " or ")));
    format!(
        "{} with {}{}",
        plural(g.nodes.into(), "node"),
        parts.join(", "),
        sku.unwrap_or_default()
    )
}

/// A gang at the smallest size with which it starts, where that is another than it asks for.
pub(crate) fn smallest(w: &Work) -> Option<Work> {
    w.elastic.map(|(min, _)| Work {
        demand: Arc::new(w.demand.resized(min.min(w.demand.nodes()))),
        ..w.clone()
    })
}

/// A question with its predicates, one behind the other.
pub(crate) struct ExplanationBuilder<'a> {
    c: &'a Cluster,
    /// At its smallest size.
    w: &'a Work,
    /// As it asks: what quotas and limits are held against.
    full: &'a Work,
    q: Query<'a>,
    rights: &'a UserRights<'a>,
    wanted: String,
    out: Explanation,
}

/// Why no empty fleet would do.
struct Never {
    words: String,
    /// What to ask for instead.
    instead: Option<String>,
}

impl Never {
    fn because(words: String) -> Option<Never> {
        Some(Never { words, instead: None })
    }
}

/// Explains a demand against the cluster as it is. Order in the queue, holds and dependencies
/// are the caller's to add.
///
/// What stops it for good goes first, then what the site does not allow, then nodes that are not in
/// service, then room: in the same order as in [`Reasons`](crate::Reasons).
#[must_use]
pub fn explain(c: &Cluster, w: &Work, policy: &SitePolicy, now: Time) -> Explanation {
    let (rights, small) = (UserRights::new(c, policy, now), smallest(w));
    let mut why = ExplanationBuilder::new(&rights, (w, small.as_ref().unwrap_or(w)), now);
    why.hardware()
        .and_then(|()| why.budgets())
        .and_then(|()| why.service())
        .and_then(|()| why.rights())
        .and_then(|()| why.room(policy))
        .unwrap_or(());
    why.out
}

/// Why a demand could never start on this fleet, even when empty, as [`explain`] says it; none when it
/// could. What is free now, what quotas leave, and when it may start, is not looked at: each submission
/// is asked this, and everybody's waits for the answer.
#[must_use]
pub fn impossible(c: &Cluster, w: &Work, policy: &SitePolicy, now: Time) -> Option<Explanation> {
    let (rights, small) = (UserRights::unclaimed(c, policy, now), smallest(w));
    let mut why = ExplanationBuilder::new(&rights, (w, small.as_ref().unwrap_or(w)), now);
    why.hardware().and_then(|()| why.budgets()).unwrap_or(());
    why.out.impossible.then_some(why.out)
}

impl<'a> ExplanationBuilder<'a> {
    /// A gang as it asks, and at its smallest size: an elastic one starts as soon as that fits.
    pub(crate) fn new(
        rights: &'a UserRights<'a>,
        (full, w): (&'a Work, &'a Work),
        now: Time,
    ) -> ExplanationBuilder<'a> {
        let c = rights.c;
        let wanted: Vec<String> = full.demand.groups.iter().map(ask).collect();
        let mut q = Query::new(&c.fleet, w, now, rights.policy.hazard.large_gang, u64::MAX);
        // As the plan does: reserved starts of lower classes do not keep it waiting.
        q.who.above = c.fleet.overruled_by(w.priority);
        let (wanted, out) = (wanted.join(" and "), Explanation::default());
        ExplanationBuilder { c, w, full, q, rights, wanted, out }
    }

    /// Nodes that pass for any group, and GPUs on them.
    fn count(
        &self,
        test: impl Fn(&Entry, &Ask) -> bool,
        gpus: impl Fn(&Entry) -> u32,
    ) -> (u32, u64) {
        let mut out = (0, 0);
        for e in self.c.fleet.entries() {
            if self.q.asks.iter().any(|a| test(e, a)) {
                out.0 += 1;
                out.1 += u64::from(gpus(e));
            }
        }
        out
    }

    /// For the allowed domain that comes closest: nodes of each group's kind that pass.
    fn most(&self, level: Level, test: impl Fn(&Entry, &Ask) -> bool) -> Vec<u32> {
        let f = &self.c.fleet;
        let asks = &self.q.asks;
        if level == Level::Node {
            return asks.iter().map(|a| u32::from(f.entries().any(|e| test(e, a)))).collect();
        }
        let mut best: Option<(u64, Vec<u32>)> = None;
        for d in f.level(level) {
            let count = |a: &Ask| {
                let n = d.nodes.iter().filter(|p| test(f.entry(p.ix), a)).count();
                u32::try_from(n).unwrap_or(u32::MAX)
            };
            let have: Vec<u32> = asks.iter().map(count).collect();
            let missing: u64 =
                asks.iter().zip(&have).map(|(a, h)| u64::from(a.nodes.saturating_sub(*h))).sum();
            if best.as_ref().is_none_or(|(m, _)| missing < *m) {
                best = Some((missing, have));
            }
        }
        best.map_or_else(|| vec![0; asks.len()], |(_, have)| have)
    }

    /// Has no allowed domain enough nodes that pass for each group? Looks no further than it must.
    fn short(&self, level: Level, test: impl Fn(&Entry, &Ask) -> bool) -> bool {
        let f = &self.c.fleet;
        let asks = &self.q.asks;
        if level == Level::Node {
            return asks.iter().any(|a| a.nodes > u32::from(f.entries().any(|e| test(e, a))));
        }
        let enough = |d: &Domain, a: &Ask| {
            let n = a.nodes as usize;
            d.nodes.iter().filter(|p| test(f.entry(p.ix), a)).take(n).count() == n
        };
        !f.level(level).any(|d| asks.iter().all(|a| enough(d, a)))
    }

    fn push(&mut self, name: &str, detail: String, (nodes_left, gpus_left): (u32, u64)) {
        self.out.constraints.push(Constraint {
            name: name.into(),
            detail,
            nodes_left,
            gpus_left,
            binding: false,
            warning: false,
        });
    }

    /// The last constraint is something that whoever submits the job has to know at once.
    fn warn(&mut self) {
        if let Some(c) = self.out.constraints.last_mut() {
            c.warning = true;
        }
    }

    /// The last constraint stops the job.
    fn bind(&mut self, summary: String) -> Option<()> {
        if let Some(c) = self.out.constraints.last_mut() {
            c.binding = true;
        }
        self.out.summary = summary;
        None
    }

    fn hardware(&mut self) -> Option<()> {
        let f = &self.c.fleet;
        let own = |e: &Entry| e.own_gpus().len();
        let gpus: u64 = f.entries().map(|e| u64::from(own(e))).sum();
        let all = (u32::try_from(f.len()).unwrap_or(u32::MAX), gpus);
        let words =
            format!("the fleet has {} and {}", plural(all.0.into(), "node"), plural(gpus, "GPU"));
        self.push("fleet", words, all);
        let kind = if self.w.demand.simulated { " on simulated nodes" } else { "" };
        self.push(
            "hardware",
            format!("{}{kind}", self.wanted),
            self.count(Entry::ever_capable, own),
        );
        let Some(Never { words, instead }) = self.lacking() else { return Some(()) };
        self.out.impossible = true;
        self.out.suggestions.extend(instead);
        self.bind(words)
    }

    /// Why the fleet has not the nodes, were they all empty, in service and whole.
    fn lacking(&self) -> Option<Never> {
        let f = &self.c.fleet;
        let level = self.w.demand.widest();
        if self.short(level, Entry::ever_capable) {
            let groups = self.w.demand.groups.iter();
            let unmet = groups.zip(&self.q.asks).find_map(|(g, a)| never::unmet(f, g, a));
            let (but, instead) = match unmet {
                Some(Unmet { words, instead }) => (words, instead),
                None => {
                    let most: u32 = self.most(level, Entry::ever_capable).iter().sum();
                    let (nodes, verb) = satisfying(most);
                    let words = format!(
                        "no {level} of this fleet has more than {nodes} that {verb} the per-node request"
                    );
                    (words, suggest::fewer_nodes(&self.w.demand, most))
                }
            };
            return Some(Never { words: format!("asks for {}, but {but}", self.wanted), instead });
        }
        // Of one group alone there are as many as were just found.
        let apart = if self.q.asks.len() > 1 { self.apart(level) } else { u32::MAX };
        if apart < self.w.demand.nodes() {
            return Never::because(format!(
                "asks for {}: that is {}, because a node runs one group of a gang only, but no {level} of this fleet has more than {} that satisfies a per-node request; put them into one group with more `ranks_per_node`, or ask for less",
                self.wanted,
                plural(self.w.demand.nodes().into(), "node"),
                plural(apart.into(), "node"),
            ));
        }
        if let Some(size) = self.w.demand.segment
            && self.pieces(level, size) < self.w.demand.nodes()
        {
            return Never::because(format!(
                "asks for {} in pieces of {size} inside one NVLink domain, but no {level} of this fleet has more than {} in such pieces: the largest NVLink domain has {}",
                self.wanted,
                plural(self.pieces(level, size).into(), "node"),
                plural(self.apart(Level::Nvlink).into(), "such node")
            ));
        }
        None
    }

    /// Nodes of the best domain that satisfy the per-node request of any group, were it empty: groups of a
    /// gang never share a node.
    fn apart(&self, level: Level) -> u32 {
        let f = &self.c.fleet;
        let able = |e: &Entry| self.q.asks.iter().any(|a| e.ever_capable(a));
        if level == Level::Node {
            return 1;
        }
        let count = |d: &Domain| d.nodes.iter().filter(|p| able(f.entry(p.ix))).count();
        let most = f.level(level).map(count).max().unwrap_or(0);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Nodes in whole pieces that the best domain could carry, were it empty.
    fn pieces(&self, level: Level, size: u32) -> u32 {
        let f = &self.c.fleet;
        let size = size.max(1);
        let able = |e: &Entry| self.q.asks.iter().any(|a| e.ever_capable(a));
        let whole = |nodes: &mut dyn Iterator<Item = &Entry>| {
            let mut domains: Vec<u32> = nodes.filter(|e| able(e)).map(|e| e.domains[0]).collect();
            domains.sort_unstable();
            let counts = domains.chunk_by(|a, b| a == b).map(|d| u32::try_from(d.len()));
            counts.map(|n| n.unwrap_or(u32::MAX) / size * size).sum::<u32>()
        };
        match level {
            Level::Node => u32::from(size == 1),
            l => {
                let all = f.level(l);
                all.map(|d| whole(&mut d.nodes.iter().map(|p| f.entry(p.ix)))).max().unwrap_or(0)
            }
        }
    }

    /// Budgets of power that could not carry it even if nothing else ran.
    fn budgets(&mut self) -> Option<()> {
        let Some(words) = self.unpowered() else { return Some(()) };
        self.out.impossible = true;
        self.push("power", "within the budgets of feeds and racks".into(), (0, 0));
        self.bind(words)
    }

    fn unpowered(&self) -> Option<String> {
        let most = self.c.fleet.never_powered(&self.q)? as u64;
        Some(format!(
            "asks for {}, more than the power budgets of its racks and feeds carry: at most {} of it",
            self.wanted,
            plural(most, "node")
        ))
    }

    /// Why it can never start on this fleet, were it empty, in service and whole.
    pub(crate) fn never(&self) -> Option<String> {
        self.lacking().map(|n| n.words).or_else(|| self.unpowered())
    }

    fn service(&mut self) -> Option<()> {
        let left = self.count(Entry::takes, Entry::usable_gpus);
        self.push("service", self.blocked_words(), left);
        let Some(words) = self.out_of_service() else { return Some(()) };
        self.allowed()?;
        self.bind(words)
    }

    /// That it could start if more of the nodes were in service.
    pub(crate) fn out_of_service(&self) -> Option<String> {
        if !self.short(self.w.demand.widest(), Entry::takes) {
            let most = self.c.fleet.unpowered(&self.q, Entry::takes)? as u64;
            return Some(format!(
                "asks for {}, more than the power budgets of racks and feeds carry on the nodes in service: at most {} of it",
                self.wanted,
                plural(most, "node")
            ));
        }
        let (n, _) = self.count(Entry::ever_capable, Entry::usable_gpus);
        let (left, _) = self.count(Entry::takes, Entry::usable_gpus);
        let (nodes, verb) = satisfying(n);
        Some(format!(
            "asks for {}; {nodes} {verb} the per-node request, but only {} in service",
            self.wanted,
            are(left)
        ))
    }

    fn blocked_words(&self) -> String {
        let mut all: Vec<&'static str> = Vec::new();
        for e in self.c.fleet.entries() {
            if self.q.asks.iter().any(|a| e.ever_capable(a)) {
                match e.facts.block {
                    Some(b) => all.push(b.words()),
                    None if e.facts.role == NodeRole::Suspect => {
                        all.push(Block::Suspect.words());
                    }
                    None if !e.open() => all.push("reserved as spares"),
                    None if !self.q.asks.iter().any(|a| e.capable(a)) => {
                        all.push("with a GPU missing or excluded");
                    }
                    None => {}
                }
            }
        }
        if all.is_empty() {
            return "every such node is in service".into();
        }
        all.sort_unstable();
        let counts = all.chunk_by(|a, b| a == b).map(|of| format!("{} {}", of.len(), of[0]));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// Nothing where a quota or a limit stops the job.
    fn allowed(&mut self) -> Option<()> {
        let Some(denied) = self.rights.denied(self.full) else { return Some(()) };
        self.push(denied.name, denied.words.clone(), (0, 0));
        if denied.warning {
            self.warn();
        }
        if denied.left >= 1000 {
            let n = denied.left / 1000;
            self.out
                .suggestions
                .push(format!("ask for at most {}: the quota leaves that", plural(n, "GPU")));
        }
        self.bind(denied.words)
    }

    /// What the site allows this user: quotas and limits.
    fn rights(&mut self) -> Option<()> {
        let left = self.out.constraints.last().map_or((0, 0), |c| (c.nodes_left, c.gpus_left));
        self.allowed()?;
        if !self.c.ledger.is_empty() && self.full.demand.gpus() > 0 {
            let skus = self.rights.skus(self.full);
            for a in &mut self.q.asks {
                a.skus &= skus;
            }
            self.push("quota", format!("project {} is within its quota", self.full.project), left);
        }
        Some(())
    }

    /// Room, in space and in time.
    fn room(&mut self, policy: &SitePolicy) -> Option<()> {
        let (c, q, now) = (self.c, self.q.clone(), self.q.now);
        let level = self.w.demand.widest();
        let free = |e: &Entry, a: &Ask| e.open() && e.fits(a);
        let left = self.count(free, Entry::free_gpus);
        self.push("capacity", "free now".into(), left);
        if let Ok(p) = place(&self.c.fleet, &self.q) {
            self.out.starts_now = true;
            self.out.summary = STARTS_NEXT.into();
            self.out.would_go = Some(would_go(&p));
            let nodes = p.slots.iter().map(|s| &s.node);
            if let Some(ahead) = self.c.fleet.window_ahead(self.w, nodes, (now, q.end)) {
                self.push("window", window_words(&ahead, now), left);
                self.warn();
            }
            return None;
        }
        self.out.suggestions.extend(suggest::smaller(
            self.c,
            self.w,
            policy,
            now,
            self.rights.skus(self.w),
        ));
        self.out.estimate = self.estimate();
        let free_gpus: u64 =
            self.c.fleet.entries().filter(|e| e.open()).map(|e| u64::from(e.free_gpus())).sum();
        if self.short(Level::Cluster, free) {
            let words = self.describe_no_capacity(left.0, free_gpus);
            return self.bind(words);
        }
        let kept = |e: &Entry, a: &Ask| q.passes(&c.fleet, e, a);
        let after = self.count(kept, Entry::free_gpus);
        if after.0 < left.0 {
            let closed = |e: &Entry, a: &Ask| {
                free(e, a)
                    && c.fleet
                        .closed_times(e, q.who, now)
                        .iter()
                        .all(|(s, t)| *s >= q.end || *t <= now)
            };
            let open = self.count(closed, Entry::free_gpus);
            if open.0 < left.0 {
                let (detail, but) = self.reserved_words(left.0, open.0);
                self.push("reservation", detail, open);
                if self.short(Level::Cluster, closed) {
                    let words = format!("{WAITS}: {}; {but}", self.wanted);
                    return self.bind(words);
                }
            }
            self.push("reserved", "not reserved for jobs with a reserved start".into(), after);
            if self.short(Level::Cluster, kept) {
                let words = format!(
                    "{WAITS}: there is some now, but not for as long as it may run: {} reserved for jobs with a reserved start",
                    plural((open.0 - after.0).into(), "node")
                );
                return self.bind(words);
            }
        }
        if self.short(level, kept) || self.w.demand.segment.is_some() {
            let best: u32 = self.most(level, kept).iter().sum();
            let what = match self.w.demand.segment {
                Some(s) => format!("in pieces of {s} inside one NVLink domain, all in one {level}"),
                None => format!("all in one {level}"),
            };
            self.push("topology", what.clone(), (best, free_gpus));
            let words = format!(
                "{WAITS}: no {level} has enough for {}{}; the best one has {}",
                self.wanted,
                if self.w.demand.segment.is_some() { format!(" {what}") } else { String::new() },
                plural(best.into(), "node")
            );
            return self.bind(words);
        }
        if self.c.fleet.meter.on() {
            let powered =
                |e: &Entry, a: &Ask| kept(e, a) && Added::default().allow(&c.fleet.meter, e, a);
            let left = self.count(powered, Entry::free_gpus);
            self.push("power", "within the budgets of feeds and racks".into(), left);
            return self.bind(format!(
                "{WAITS} within the power budgets: {} would pass that of a feed or rack",
                self.wanted
            ));
        }
        self.push("groups", "every group at once on nodes of its own".into(), after);
        self.bind(format!(
            "{WAITS}: the groups do not fit at the same time, each on nodes of its own: {}",
            self.wanted
        ))
    }

    fn describe_no_capacity(&self, fitting: u32, free_gpus: u64) -> String {
        let d = &self.w.demand;
        let on = self.c.fleet.entries().filter(|e| e.open() && e.free_gpus() > 0).count();
        let mut text = format!("{WAITS}: {}", self.wanted);
        if d.gpus() > 0 && free_gpus >= d.gpus() {
            let enough = match fitting {
                0 => "no node has".into(),
                k => format!(
                    "only {} {}",
                    plural(k.into(), "node"),
                    if k == 1 { "has" } else { "have" }
                ),
            };
            text += &format!(
                "; {} free but on {}, and {enough} enough free",
                if free_gpus == 1 { "1 GPU is".into() } else { format!("{free_gpus} GPUs are") },
                plural(on as u64, "node"),
            );
        } else {
            text += &format!(
                "; {} {} the per-node request now",
                plural(fitting.into(), "node"),
                if fitting == 1 { "satisfies" } else { "satisfy" }
            );
        }
        text
    }

    /// What reservations leave of the nodes that are free, as a constraint and as a reason.
    fn reserved_words(&self, free: u32, open: u32) -> (String, String) {
        if self.w.tier == Tier::Reserved {
            let own = format!("in a reservation of project {}", self.w.project);
            let but =
                format!("{} free {own} for as long as it may run", plural(open.into(), "node"));
            return (own, but);
        }
        let names = self.reservations();
        (
            format!("not reserved for others ({names})"),
            format!(
                "{} free but reserved for others ({names})",
                plural((free - open).into(), "node")
            ),
        )
    }

    /// The reservations that close a free node to it: the first few that its project may know by
    /// their names, of the others how many.
    fn reservations(&self) -> String {
        let (f, q) = (&self.c.fleet, &self.q);
        let free = |e: &Entry| e.open() && q.asks.iter().any(|a| e.fits(a));
        let closing = f
            .closed
            .iter()
            .filter(|c| Fleet::closes(&c.reservation, q.who, (q.now, q.end)))
            .filter(|c| c.nodes.iter().filter_map(|n| f.find(n)).any(|ix| free(f.entry(ix))));
        let (mut known, mut others): (Vec<String>, u32) = (Vec::new(), 0);
        for c in closing {
            match c.reservation.name_for(q.who.project) {
                Some(name) if known.len() < 3 => known.push(name.to_string()),
                Some(_) => {}
                None => others += 1,
            }
        }
        match others {
            0 => {}
            1 => known.push("1 of another project".to_owned()),
            n => known.push(format!("{n} of other projects")),
        }
        known.join(", ")
    }

    fn estimate(&self) -> Option<Estimate> {
        let at = earliest(&self.c.fleet, &self.q, self.q.now)?.at;
        (at > self.q.now && at < FAR).then(|| Estimate {
            earliest: None,
            at,
            reserved: false,
            basis: "the time limits of what runs and what is reserved for others; later if jobs ahead take the \
                    free capacity"
                .into(),
        })
    }
}

/// That a window will stop a job where it is, or would be.
#[must_use]
pub fn window_words((start, name, node): &(Time, Option<Label>, NodeName), now: Time) -> String {
    let wait = Span::secs(start.since(now).0 / 1000);
    let what = match name {
        Some(name) => format!("reservation {name}"),
        None => "a reservation of another project".to_owned(),
    };
    format!("{what} begins on node {node} in {wait}: the job is stopped then and queued again")
}

fn would_go(p: &Placed) -> String {
    let first: Vec<&str> = p.slots.iter().take(4).map(|s| s.node.as_str()).collect();
    let more = p.slots.len().saturating_sub(4);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    // What joins GPUs says nothing about nodes that give none.
    let gpus = p.slots.iter().any(|s| !s.gpus.is_empty());
    let fabric = if gpus { format!(" ({})", p.fabric.words()) } else { String::new() };
    format!("{}{more}{fabric}", first.join(", "))
}
