//! A stream of jobs with the shapes, run times and owners of the traces.

use super::traces::TraceJob;
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::spec::{GpuPart, Group, Priority, Tier};
use muster_model::topology::Level;
use muster_model::units::{Bytes, Span, Time};
use muster_scheduler::{Demand, Work};
use std::sync::Arc;

/// The SKU of every node.
pub(crate) const SKU: &str = "h100-sxm";
/// Philly's paper (ATC'19) counts 319 users.
const USERS: u64 = 319;
/// Limits that people write, in seconds.
const LIMITS: [u64; 10] =
    [900, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 604_800, 2_592_000];

/// Small numbers that look random and are the same every time.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A job that may be submitted, and how long it would run.
#[derive(Debug, Clone)]
pub(crate) struct CandidateJob {
    pub(crate) work: Arc<Work>,
    pub(crate) run: Span,
}

/// Draws jobs.
pub(crate) struct Mix {
    philly: Vec<TraceJob>,
    openb: Vec<TraceJob>,
    /// Run times summed up, to draw what runs at a moment rather than what arrives.
    philly_runs: Vec<f64>,
    openb_runs: Vec<f64>,
    pub(crate) projects: Vec<ProjectName>,
    users: Vec<Arc<str>>,
    pub(crate) dice: Dice,
    next: u64,
}

/// Which jobs are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    /// As they arrive.
    Arriving,
    /// As they are found running: long ones more often.
    Running,
    /// On one node, as they arrive.
    Single,
    /// On several nodes, all of them in one leaf.
    LeafGang,
}

/// Longest run of the mix: a fleet that is full of work of months has nothing to measure.
const LONGEST: f64 = 14.0 * 86_400.0;

fn summed(jobs: &[TraceJob]) -> Vec<f64> {
    let mut sum = 0.0;
    jobs.iter()
        .map(|j| {
            sum += j.run.min(LONGEST);
            sum
        })
        .collect()
}

impl Mix {
    pub(crate) fn new(philly: Vec<TraceJob>, openb: Vec<TraceJob>) -> Mix {
        let most = philly.iter().chain(&openb).map(|j| j.project).max().unwrap_or(0);
        Mix {
            philly_runs: summed(&philly),
            openb_runs: summed(&openb),
            philly,
            openb,
            projects: (0..=most).map(|i| name(&format!("vc{i:02}"))).collect(),
            users: (0..USERS).map(|i| Arc::from(format!("user{i:03}"))).collect(),
            dice: Dice(7),
            next: 1,
        }
    }

    /// Mean part of the GPU time of each project.
    pub(crate) fn parts(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.projects.len()];
        for j in self.philly.iter().chain(&self.openb) {
            out[j.project] += j.run.min(LONGEST) * f64::from(j.nodes * j.gpus);
        }
        let sum: f64 = out.iter().sum();
        out.iter().map(|x| x / sum).collect()
    }

    fn pick(&mut self, draw: Draw) -> TraceJob {
        loop {
            let philly = draw == Draw::LeafGang || self.dice.below(4) < 3;
            let (jobs, runs) = if philly {
                (&self.philly, &self.philly_runs)
            } else {
                (&self.openb, &self.openb_runs)
            };
            let i = if draw == Draw::Running {
                let at = self.dice.unit() * runs.last().copied().unwrap_or(0.0);
                runs.partition_point(|s| *s < at).min(jobs.len() - 1)
            } else {
                self.dice.below(jobs.len() as u64) as usize
            };
            let good = match draw {
                Draw::Arriving | Draw::Running => true,
                Draw::Single => jobs[i].nodes == 1,
                Draw::LeafGang => jobs[i].nodes > 1,
            };
            if good {
                return jobs[i].clone();
            }
        }
    }

    pub(crate) fn draw(&mut self, draw: Draw, since: Time) -> CandidateJob {
        let j = self.pick(draw);
        let job = JobId(self.next);
        self.next += 1;
        // Users ask for more than they need: the run time as it is, twice or five times that.
        let factor = [1.0, 2.0, 2.0, 5.0][self.dice.below(4) as usize];
        let run = j.run.clamp(30.0, LONGEST);
        let wish = (run * factor) as u64;
        let limit = LIMITS.iter().copied().find(|l| *l >= wish).unwrap_or(LIMITS[9]);
        let many = j.nodes > 1;
        let demand = Demand {
            groups: Arc::from([Group {
                name: "main".into(),
                nodes: j.nodes,
                gpus: j.gpus,
                ranks: j.gpus.max(1),
                cpus: j.cpus,
                memory: Bytes::gib(j.memory_gib.into()),
                sku: None,
                part: j.milli.map(GpuPart::Milli),
            }]),
            required: (draw == Draw::LeafGang).then_some(Level::Leaf),
            preferred: (many && draw != Draw::LeafGang).then_some(Level::Leaf),
            segment: None,
            spread: None,
            simulated: false,
        };
        // Users belong to one project each; a few of them submit most jobs.
        let some = USERS as f64 / self.projects.len() as f64;
        let nth = (self.dice.unit() * self.dice.unit() * some) as usize;
        let user = nth * self.projects.len() + j.project;
        let work = Work {
            job,
            demand: Arc::new(demand),
            priority: Priority::Normal,
            tier: Tier::OnDemand,
            project: self.projects[j.project].clone(),
            user: self.users[user.min(self.users.len() - 1)].clone(),
            since,
            limit: Some(Span::secs(limit)),
            checkpoints: many,
            elastic: None,
        };
        CandidateJob { work: Arc::new(work), run: Span((run * 1000.0) as u64) }
    }

    /// A number for a job that is not drawn.
    pub(crate) fn number(&mut self) -> JobId {
        self.next += 1;
        JobId(self.next - 1)
    }
}

pub(crate) fn name<T: std::str::FromStr>(s: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    s.parse().expect("made of letters and digits")
}
