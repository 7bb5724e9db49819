//! What comes to the site, and when.

use crate::SimError;
use crate::chance::{Chance, millis};
use crate::scenario::{Owner, Saving, Scenario, Serve, Sizes, Stream, TraceLoad, Train, Workload};
use crate::traces;
use muster_model::names::Label;
use muster_model::spec::{
    CheckpointRequest, CheckpointSpec, Elastic, GangSpec, JobSpec, Retries, SERVICE_TAG, Simulate,
    TopologySpec,
};
use muster_model::units::Span;
use std::path::Path;

/// A job that comes.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) at: Span,
    pub(crate) user: String,
    pub(crate) spec: JobSpec,
    /// GPUs that are busy when it works, of those it holds.
    pub(crate) load: f64,
}

/// Jobs of one workload, in order of their arrival.
#[derive(Debug)]
pub(crate) enum Source {
    Given(std::vec::IntoIter<Arrival>),
    Stream(Box<ArrivalStream>),
}

/// A stream under way.
#[derive(Debug)]
pub(crate) struct ArrivalStream {
    spec: Stream,
    chance: Chance,
    sizes: Vec<(u32, f64)>,
    at: f64,
    until: Span,
    count: u64,
    node_gpus: u32,
    largest: u64,
}

/// The fleet as a workload sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetSize {
    /// GPUs of a node.
    pub(crate) node_gpus: u32,
    /// Nodes that are no spares.
    pub(crate) nodes: u32,
}

const HOUR_MS: f64 = 3_600_000.0;

impl Source {
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        match self {
            Source::Given(jobs) => jobs.next(),
            Source::Stream(s) => s.next(),
        }
    }

    /// The next job of a stream has the number after this.
    pub(crate) fn count_from(&mut self, n: u64) {
        if let Source::Stream(s) = self {
            s.count = n;
        }
    }
}

/// Something that is asked for ever ends with the scenario.
fn endless(s: &Scenario) -> Span {
    Span(s.length.0.saturating_mul(4))
}

/// The workloads of a scenario.
pub(crate) fn sources(s: &Scenario, room: FleetSize, dir: &Path) -> Result<Vec<Source>, SimError> {
    let each = |w: &Workload| match w {
        Workload::Train(t) => Ok(train(s, t, room)),
        Workload::Stream(st) => stream(s, st, room),
        Workload::Serve(v) => Ok(serve(s, v)),
        Workload::Trace(t) => trace(t, room, dir),
    };
    s.workload.iter().map(each).collect()
}

fn label(name: &str) -> Option<Label> {
    let clean: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    clean.parse().ok()
}

fn owned(spec: &mut JobSpec, o: &Owner, n: u64) -> String {
    if let Some(p) = o.project.as_ref().and_then(|p| p.parse().ok()) {
        spec.project = Some(p);
    }
    spec.priority = o.priority;
    spec.tier = o.tier;
    let users = &o.users;
    match users.len() {
        0 => o.project.clone().unwrap_or_else(|| "somebody".into()),
        len => users[usize::try_from(n).unwrap_or(0) % len].clone(),
    }
}

/// A gang that trains.
fn training(name: &str, nodes: u32, gpus: u32, run: Span, saving: &Saving) -> JobSpec {
    let every = match saving.every.as_str() {
        "never" => None,
        "auto" => Some(Span(0)),
        fixed => fixed.parse().ok(),
    };
    JobSpec {
        name: label(name),
        gang: GangSpec {
            nodes: Some(nodes),
            gpus_per_node: Some(gpus),
            ranks_per_node: Some(1),
            ..GangSpec::default()
        },
        retries: Retries { infrastructure: 10_000, application: 0 },
        checkpoint: every.map(|e| CheckpointSpec {
            dir: "/ckpt".into(),
            request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
            grace: None,
            interval: Some(if e.0 == 0 { "auto".into() } else { e.to_string() }),
        }),
        simulate: Some(Simulate {
            run,
            checkpoint: every.filter(|e| e.0 > 0),
            startup: saving.startup,
            checkpoint_cost: saving.cost,
            ..Simulate::default()
        }),
        ..JobSpec::default()
    }
}

fn train(s: &Scenario, t: &Train, room: FleetSize) -> Source {
    let nodes = if t.nodes == 0 { room.nodes } else { t.nodes };
    let run = if t.run.0 == 0 { endless(s) } else { t.run };
    let one = |i: u32| {
        let name = if t.count == 1 { t.name.clone() } else { format!("{}-{i}", t.name) };
        let mut spec = training(&name, nodes, t.gpus_per_node, run, &t.saving);
        // A job that is to run to the end is tried again whatever fails it.
        spec.retries.application = 10_000;
        spec.topology = TopologySpec {
            required: t.topology.as_ref().and_then(|l| l.parse().ok()),
            ..TopologySpec::default()
        };
        spec.elastic = t.elastic.map(|[min, max]| Elastic { min_nodes: min, max_nodes: max });
        let user = owned(&mut spec, &t.owner, u64::from(i));
        let at = Span(t.at.0 + t.apart.0 * u64::from(i));
        Arrival { at, user, spec, load: 1.0 - t.data_loading }
    };
    Source::Given((0..t.count).map(one).collect::<Vec<_>>().into_iter())
}

fn serve(s: &Scenario, v: &Serve) -> Source {
    let one = |i: u32| {
        let saving = Saving { every: "never".into(), cost: Span(0), startup: v.startup };
        let mut spec = training(&format!("{}-{i}", v.name), 1, v.gpus, endless(s), &saving);
        spec.retries.application = 10_000;
        let (key, value) = SERVICE_TAG;
        spec.tags.insert(key.into(), value.into());
        let user = owned(&mut spec, &v.owner, u64::from(i));
        Arrival { at: Span(0), user, spec, load: served(v) }
    };
    Source::Given((0..v.replicas).map(one).collect::<Vec<_>>().into_iter())
}

/// Share of what a service could do that it does, over a day: what is asked beyond it at noon is
/// not made up for at night.
fn served(v: &Serve) -> f64 {
    let hours = 0..24u8;
    let at = |h: u8| (v.load * (1.0 + v.diurnal * daytime(f64::from(h) * HOUR_MS))).min(1.0);
    hours.map(at).sum::<f64>() / 24.0
}

fn stream(s: &Scenario, st: &Stream, room: FleetSize) -> Result<Source, SimError> {
    let weights = match &st.sizes {
        Sizes::Weights(w) => w.clone(),
        Sizes::Mix(m) if m == "philly" => traces::mixes::PHILLY_GPUS.to_vec(),
        Sizes::Mix(m) if m == "acme" => traces::mixes::KALOS_GPUS.to_vec(),
        Sizes::Mix(m) => {
            return Err(SimError::new(format!("there is no mix `{m}`; there are philly and acme")));
        }
    };
    let sizes: Vec<(u32, f64)> = weights.iter().map(|(g, w)| (*g, f64::from(*w))).collect();
    Ok(Source::Stream(Box::new(ArrivalStream {
        chance: Chance::new(s.seed, &["stream", &st.name]),
        sizes,
        at: st.from.0 as f64,
        until: st.until.unwrap_or(s.length).min(s.length),
        count: 0,
        node_gpus: room.node_gpus,
        largest: u64::from(room.nodes) * u64::from(room.node_gpus),
        spec: st.clone(),
    })))
}

/// How much more comes at this hour than on average, between -1 (midnight) and 1 (noon).
pub(crate) fn daytime(ms: f64) -> f64 {
    let day = ms / (24.0 * HOUR_MS);
    let phase = day - day.floor();
    1.0 - 4.0 * (phase - 0.5).abs()
}

impl ArrivalStream {
    fn next(&mut self) -> Option<Arrival> {
        let most = self.spec.per_hour * (1.0 + self.spec.diurnal);
        if most <= 0.0 {
            return None;
        }
        loop {
            self.at += self.chance.exponential() / most * HOUR_MS;
            let now = self.spec.per_hour * (1.0 + self.spec.diurnal * daytime(self.at));
            if self.at >= self.until.0 as f64 {
                return None;
            }
            if self.chance.happens(now / most) {
                break;
            }
        }
        self.count += 1;
        let gpus = self.chance.pick(&self.sizes).copied().unwrap_or(1).max(1);
        let gpus = gpus.min(u32::try_from(self.largest).unwrap_or(u32::MAX));
        let (nodes, per_node) = shape(gpus, self.node_gpus);
        let run = self.chance.delay(&self.spec.run);
        let fails = self.chance.happens(self.spec.fails);
        let generous = 1.0 + self.chance.even() * (self.spec.limit_factor - 1.0).max(0.0);
        let name = format!("{}-{}", self.spec.name, self.count);
        // One that fails by itself does so somewhere on its way.
        let run = if fails { millis(run.0 as f64 * self.chance.even()) } else { run };
        let run = Span(run.0.max(1000));
        let mut spec = training(&name, nodes, per_node, run, &self.spec.saving);
        if let Some(sim) = &mut spec.simulate {
            sim.exit_code = u8::from(fails);
        }
        let need = run.0 as f64 * 1.25 + (self.spec.saving.startup.0 + 600_000) as f64;
        spec.time_limit = Some(Span(millis(need * generous).0 / 60_000 * 60_000 + 60_000));
        let user = owned(&mut spec, &self.spec.owner, self.count);
        let load = 1.0 - self.spec.data_loading;
        Some(Arrival { at: millis(self.at), user, spec, load })
    }
}

/// Nodes, and GPUs on each.
pub(crate) fn shape(gpus: u32, node_gpus: u32) -> (u32, u32) {
    if gpus <= node_gpus { (1, gpus) } else { (gpus.div_ceil(node_gpus), node_gpus) }
}

fn trace(t: &TraceLoad, room: FleetSize, dir: &Path) -> Result<Source, SimError> {
    let text = traces::read_file(&dir.join(&t.file))?;
    let bad = if t.bad_rows == "skip" { traces::OnBadRow::Skip } else { traces::OnBadRow::Stop };
    let reader = match t.format.as_str() {
        "swf" => traces::swf::jobs,
        "philly" => traces::philly::jobs,
        "gavel" => traces::gavel::jobs,
        other => {
            let what = format!("`{other}` is no format of a trace: swf, philly or gavel");
            return Err(SimError::new(what));
        }
    };
    let mut read = reader(&t.file, text.as_bytes(), bad)?;
    traces::by_submit(&mut read.items);
    let take = t.jobs.map_or(usize::MAX, |n| n as usize);
    let jobs = read.items.iter().take(take);
    let all = jobs.filter_map(|j| replayed(j, &t.saving, room)).collect::<Vec<_>>();
    Ok(Source::Given(all.into_iter()))
}

/// A job of a trace as one of ours; none when it is not known how long it ran, or when the fleet
/// is too small for it.
pub(crate) fn replayed(j: &traces::TraceJob, saving: &Saving, room: FleetSize) -> Option<Arrival> {
    let run = j.run.filter(|r| r.0 > 0)?;
    let gpus = j.ask.procs().unwrap_or_else(|| j.ask.gpus()).max(1);
    let (nodes, per_node) = shape(gpus, room.node_gpus);
    if nodes > room.nodes {
        return None;
    }
    let mut spec = training(&format!("j{}", j.row), nodes, per_node, run, saving);
    spec.retries.application = 0;
    spec.time_limit = j.limit.filter(|l| l.0 > 0).map(|l| Span(l.0 + saving.startup.0));
    let user = j.owner.clone().unwrap_or_else(|| "somebody".into());
    Some(Arrival { at: j.submit, user, spec, load: 1.0 })
}
