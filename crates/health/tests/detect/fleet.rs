//! A small made-up fleet: rows and steps as agents would report them, with faults and look-alikes.

use muster_health::watch::{RankAt, Running, Signals, StepObservation, Watch};
use muster_model::finding::ObservedFinding;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Random numbers of our own (xorshift), the same on every machine.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub(crate) fn range(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// About normal: mean 0, deviation 1.
    pub(crate) fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

pub(crate) const COLUMNS: [&str; 17] = [
    "util",
    "sm_clock",
    "temp",
    "power",
    "ecc_sbe",
    "ecc_dbe",
    "replay",
    "throttle",
    "sm_active",
    "remap_pending",
    "remap_failed",
    "nvlink_errors",
    "thermal_margin",
    "pcie_width",
    "pcie_gen",
    "mem_used",
    "tensor_active",
];

/// What goes wrong, or only looks as if.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FaultEffect {
    Dbe,
    Sbe(f64),
    RemapPending,
    RemapFailed,
    Replay(f64),
    Narrow,
    Nvlink(f64),
    Hot,
    Brake,
    LowClock(f64),
    Missing,
    PortDown,
    Flap,
    Symbols(f64),
    Stuck,
    /// The rank's own work takes so many times as long.
    Slow(f64),
    // Nothing is wrong with the node in these:
    PowerCap,
    StraySbe,
    StraySymbols,
    BurstReplay,
    BurstLink,
    OneFlap,
}

/// On which node and GPU, from when (milliseconds).
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultInjection {
    pub(crate) what: FaultEffect,
    pub(crate) node: usize,
    pub(crate) gpu: usize,
    pub(crate) from: i64,
}

/// How a job behaves.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) nodes: Vec<usize>,
    pub(crate) step_s: f64,
    pub(crate) stages: bool,
    /// Reported every so many steps.
    pub(crate) every: u64,
    pub(crate) moe: bool,
    /// One rank after the other has more to do, for two minutes each.
    pub(crate) turns: bool,
    /// Pauses for a checkpoint every so many milliseconds.
    pub(crate) checkpoint: Option<i64>,
    /// All of it becomes slower by this, from then on.
    pub(crate) slower: Option<(f64, i64)>,
    /// It stops from then on, at this rank.
    pub(crate) hang: Option<(i64, u32)>,
    /// Reads for this share of a step.
    pub(crate) read: f64,
}

impl Job {
    pub(crate) fn on(nodes: Vec<usize>) -> Job {
        Job {
            nodes,
            step_s: 1.0,
            stages: true,
            every: 2,
            moe: false,
            turns: false,
            checkpoint: None,
            slower: None,
            hang: None,
            read: 0.03,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Counters {
    sbe: f64,
    dbe: f64,
    replay: f64,
    nvlink: f64,
}

pub(crate) struct Fleet {
    pub(crate) watch: Watch,
    pub(crate) names: Vec<NodeName>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) troubles: Vec<FaultInjection>,
    pub(crate) running: Vec<Arc<Running>>,
    /// File systems that do not answer, from then on.
    pub(crate) storage_stall: Option<i64>,
    /// Degrees that the whole hall is warmer now.
    pub(crate) warm: f64,
    rng: Rng,
    columns: Vec<String>,
    host_columns: Vec<String>,
    counters: Vec<[Counters; 8]>,
    ports: Vec<[f64; 3]>,
    seat: Vec<[f64; 8]>,
    next_step: Vec<(f64, u64)>,
    imbalance: Vec<Vec<f64>>,
    pub(crate) now: i64,
    /// Milliseconds between two rows.
    pub(crate) row_ms: i64,
    /// Steps are placed at the newest row's time, as a server does for simulated nodes.
    pub(crate) coarse: bool,
    /// Looks come only after so many rows.
    pub(crate) look_every: i64,
    /// How much of its time each rank works, by job.
    works: Vec<Vec<f64>>,
    /// How much steps differ.
    pub(crate) noise: f64,
}

impl Fleet {
    pub(crate) fn new(watch: Watch, nodes: usize, jobs: Vec<Job>, seed: u64) -> Fleet {
        let mut rng = Rng::new(seed);
        let names: Vec<NodeName> =
            (0..nodes).map(|i| format!("n{i}").parse().expect("a name")).collect();
        let running = jobs.iter().enumerate().map(|(j, job)| Arc::new(running(j, job, &names)));
        let columns = COLUMNS.iter().map(|c| (*c).to_owned()).collect();
        let host = [
            "port.p0.up",
            "port.p0.downed",
            "port.p0.symbol_errors",
            "port.p0.recoveries",
            "dstate",
            "fs./data.read_ms",
            "fs./data.stalled_s",
        ];
        Fleet {
            watch,
            running: running.collect(),
            works: jobs.iter().map(|j| vec![1.0; j.nodes.len() * 8]).collect(),
            next_step: vec![(0.0, 0); jobs.len()],
            imbalance: jobs.iter().map(|j| vec![1.0; j.nodes.len() * 8]).collect(),
            counters: vec![[Counters::default(); 8]; nodes],
            ports: vec![[0.0; 3]; nodes],
            seat: (0..nodes).map(|_| std::array::from_fn(|_| rng.range(0.0, 4.0))).collect(),
            names,
            jobs,
            troubles: Vec::new(),
            storage_stall: None,
            warm: 0.0,
            rng,
            columns,
            host_columns: host.iter().map(|c| (*c).to_owned()).collect(),
            now: 0,
            row_ms: 5000,
            coarse: false,
            look_every: 1,
            noise: 0.02,
        }
    }

    pub(crate) fn key(job: usize) -> AttemptKey {
        AttemptKey { job: JobId(job as u64 + 1), attempt: 1 }
    }

    fn trouble(&self, node: usize, gpu: usize) -> Option<FaultEffect> {
        let hit = |t: &&FaultInjection| t.node == node && t.gpu == gpu && self.now >= t.from;
        self.troubles.iter().find(hit).map(|t| t.what)
    }

    fn since(&self, node: usize) -> i64 {
        let t = self.troubles.iter().find(|t| t.node == node);
        t.map_or(i64::MAX, |t| self.now - t.from)
    }

    fn job_of(&self, node: usize) -> Option<usize> {
        self.jobs.iter().position(|j| j.nodes.contains(&node))
    }

    fn paused(&self, job: usize) -> bool {
        let j = &self.jobs[job];
        j.checkpoint.is_some_and(|every| self.now % every < 20_000 && self.now > every)
    }

    /// One tick: rows, steps and a look.
    pub(crate) fn tick(&mut self) -> Vec<ObservedFinding> {
        self.now += self.row_ms;
        for node in 0..self.names.len() {
            self.row(node);
        }
        for job in 0..self.jobs.len() {
            self.steps(job);
        }
        if (self.now / self.row_ms) % self.look_every != 0 {
            return Vec::new();
        }
        let running = self.running.clone();
        self.watch.collect_findings(Time(self.now), &running)
    }

    /// Goes on until then, and hands back what was found.
    pub(crate) fn run(&mut self, until: i64) -> Vec<ObservedFinding> {
        let mut out = Vec::new();
        while self.now < until {
            out.extend(self.tick());
        }
        out
    }

    fn row(&mut self, node: usize) {
        let job = self.job_of(node);
        let hung = job.is_some_and(|j| self.jobs[j].hang.is_some_and(|h| self.now >= h.0));
        let paused = job.is_some_and(|j| self.paused(j));
        let mut gpus = Vec::with_capacity(8 * COLUMNS.len());
        for gpu in 0..8 {
            let what = self.trouble(node, gpu);
            let figures = self.gpu(node, gpu, what, (job.is_some(), hung, paused));
            if what == Some(FaultEffect::Missing) {
                gpus.extend([f32::NAN; COLUMNS.len()]);
            } else {
                gpus.extend(figures.map(|f| f as f32));
            }
        }
        let host = self.host(node);
        self.watch.signals(&Signals {
            node: &self.names[node],
            at: Time(self.now),
            columns: &self.columns,
            gpus: &gpus,
            host_columns: &self.host_columns,
            host: &host,
        });
        self.watch.note_contact(&self.names[node], Time(self.now));
    }

    fn gpu(
        &mut self,
        node: usize,
        gpu: usize,
        what: Option<FaultEffect>,
        (placed, hung, paused): (bool, bool, bool),
    ) -> [f64; COLUMNS.len()] {
        let secs = self.row_ms as f64 / 1000.0;
        let busy = placed && !paused;
        let n = self.rng.noise();
        // Who waits for others draws less and has less on its multiprocessors.
        let works = self.job_of(node).map_or(1.0, |j| {
            let place = self.jobs[j].nodes.iter().position(|n| *n == node).unwrap_or(0);
            self.works[j][place * 8 + gpu]
        });
        let mut power = if busy { 200.0 + 360.0 * works + 12.0 * n } else { 75.0 + n };
        let mut clock = if busy { 1965.0 + 6.0 * n } else { 345.0 };
        let mut throttle = if busy { 0.0 } else { 1.0 };
        let (mut util, mut sm) =
            if busy { (97.0 + n.clamp(-3.0, 2.0), 0.8 * works + 0.02 * n) } else { (0.0, 0.0) };
        if hung && placed {
            (power, util, sm) = (190.0 + 4.0 * n, 100.0, 0.12);
        }
        let (mut width, generation) = (16.0, if busy { 5.0 } else { 1.0 });
        let mut hot = 0.0;
        let drip = |rng: &mut Rng, per_sec: f64| {
            let mean = per_sec * secs;
            (mean + mean.sqrt() * rng.noise()).round().max(0.0)
        };
        let first = self.since(node) < self.row_ms;
        let mut flags = (0.0, 0.0);
        match what {
            Some(FaultEffect::Dbe) if first => self.counters[node][gpu].dbe += 1.0,
            Some(FaultEffect::Sbe(rate)) => {
                self.counters[node][gpu].sbe += drip(&mut self.rng, rate);
            }
            Some(FaultEffect::StraySbe) if self.rng.unit() < 0.01 => {
                self.counters[node][gpu].sbe += 1.0;
            }
            Some(FaultEffect::RemapPending) => flags.0 = 1.0,
            Some(FaultEffect::RemapFailed) => flags.1 = 1.0,
            Some(FaultEffect::Replay(rate)) => {
                self.counters[node][gpu].replay += drip(&mut self.rng, rate / 60.0);
            }
            Some(FaultEffect::BurstReplay) if first => self.counters[node][gpu].replay += 900.0,
            Some(FaultEffect::Narrow) => width = 8.0,
            Some(FaultEffect::Nvlink(rate)) => {
                self.counters[node][gpu].nvlink += drip(&mut self.rng, rate);
            }
            Some(FaultEffect::Hot) if busy => {
                (hot, throttle) = (22.0, 32.0);
                clock -= 300.0;
            }
            Some(FaultEffect::Brake) if busy => {
                throttle = 128.0 + 8.0;
                clock -= 600.0;
                power -= 250.0;
            }
            Some(FaultEffect::LowClock(share)) if busy => clock *= 1.0 - share,
            Some(FaultEffect::PowerCap) if busy => {
                throttle = 4.0;
                clock -= 350.0;
            }
            _ => {}
        }
        let temp = 30.0 + self.warm + power * 0.05 + self.seat[node][gpu] + hot;
        let k = self.counters[node][gpu];
        [
            util,
            clock,
            temp,
            power,
            k.sbe,
            k.dbe,
            k.replay,
            throttle,
            sm,
            flags.0,
            flags.1,
            k.nvlink,
            87.0 - temp,
            width,
            generation,
            60_000.0,
            sm * 0.6,
        ]
    }

    fn host(&mut self, node: usize) -> Vec<f32> {
        let what = (0..8).find_map(|g| self.trouble(node, g));
        let since = self.since(node);
        let mut up = 1.0;
        let row = self.row_ms;
        let port = &mut self.ports[node];
        match what {
            Some(FaultEffect::PortDown) => {
                up = 0.0;
                port[0] += f64::from(u8::from(since < row));
            }
            Some(FaultEffect::Flap) if since % 300_000 < row => {
                up = 0.0;
                port[0] += 1.0;
            }
            Some(FaultEffect::OneFlap) if since < row => {
                up = 0.0;
                port[0] += 1.0;
                port[1] += 5000.0;
            }
            Some(FaultEffect::Symbols(rate)) => port[1] += (rate * row as f64 / 1000.0).round(),
            Some(FaultEffect::StraySymbols) if self.rng.unit() < 0.01 * row as f64 / 1000.0 => {
                port[1] += 1.0;
            }
            Some(FaultEffect::BurstLink) if since < row => port[1] += 20_000.0,
            _ => {}
        }
        let stalled = self.storage_stall.filter(|from| self.now >= *from);
        let waits = stalled.map_or(0.0, |from| (self.now - from) as f64 / 1000.0);
        let stuck = if what == Some(FaultEffect::Stuck) || waits > 30.0 { 3.0 } else { 0.0 };
        let read = if waits > 0.0 { f64::NAN } else { 4.0 + self.rng.noise().abs() };
        let port = self.ports[node];
        [up, port[0], port[1], port[2], stuck, read, waits].map(|v| v as f32).to_vec()
    }

    fn steps(&mut self, j: usize) {
        let job = self.jobs[j].clone();
        let stopped = job.hang.filter(|h| self.now >= h.0);
        if self.paused(j) || stopped.is_some() {
            self.next_step[j].0 = self.now as f64;
            return;
        }
        if self.next_step[j].0 < (self.now - self.row_ms) as f64 {
            self.next_step[j].0 = (self.now - self.row_ms) as f64;
        }
        while self.next_step[j].0 < self.now as f64 {
            let at = self.next_step[j].0;
            let mut own: Vec<f64> = Vec::with_capacity(job.nodes.len() * 8);
            for (place, node) in job.nodes.iter().enumerate() {
                for gpu in 0..8 {
                    let slow = match self.trouble(*node, gpu) {
                        Some(FaultEffect::Slow(by)) => by,
                        Some(FaultEffect::LowClock(share)) => 1.0 / (1.0 - share),
                        Some(FaultEffect::Hot) => 1.15,
                        Some(FaultEffect::Brake) => 1.4,
                        _ => 1.0,
                    };
                    if job.moe && self.rng.unit() < 0.2 {
                        self.imbalance[j][place * 8 + gpu] = self.rng.range(0.8, 1.3);
                    }
                    let turn = (self.now / 120_000) as usize * 7 % (job.nodes.len() * 8);
                    let mine = job.turns && turn == place * 8 + gpu;
                    let moe = self.imbalance[j][place * 8 + gpu] * if mine { 1.25 } else { 1.0 };
                    let noise = 1.0 + self.noise * self.rng.noise();
                    own.push(job.step_s * 0.7 * slow * moe * noise);
                }
            }
            let all = job.slower.filter(|s| self.now >= s.1).map_or(1.0, |s| s.0);
            own.iter_mut().for_each(|o| *o *= all);
            let longest = own.iter().copied().fold(0.0, f64::max);
            let comm = job.step_s * 0.2 * all;
            let read = job.step_s * job.read;
            let t = longest + comm + read;
            for (works, own) in self.works[j].iter_mut().zip(&own) {
                *works += (own / longest - *works) * 0.2;
            }
            self.next_step[j].1 += 1;
            let step = self.next_step[j].1;
            if step.is_multiple_of(job.every) {
                for (rank, own) in own.iter().enumerate() {
                    let mut stages = BTreeMap::new();
                    if job.stages {
                        stages.insert("compute".to_owned(), *own);
                        stages.insert("comm".to_owned(), t - own - read);
                        stages.insert("read".to_owned(), read);
                    }
                    self.watch.step(&StepObservation {
                        key: Fleet::key(j),
                        rank: rank as u32,
                        at: Time(if self.coarse { self.now } else { (at + t * 1000.0) as i64 }),
                        step,
                        t: Some(t),
                        stages: &stages,
                    });
                }
            }
            self.next_step[j].0 = at + t * 1000.0;
        }
    }
}

pub(crate) fn running(j: usize, job: &Job, names: &[NodeName]) -> Running {
    let mut ranks = Vec::new();
    for node in &job.nodes {
        for gpu in 0..8 {
            ranks.push(RankAt {
                rank: ranks.len() as u32,
                node: names[*node].clone(),
                gpus: GpuSet(1 << gpu),
            });
        }
    }
    Running { key: Fleet::key(j), started_at: Some(Time(0)), ranks }
}
