//! One made-up machine: eight GPUs, four network ports, two file systems, and what ails them.

use crate::link::ConnectionCommand;
use crate::rng::Rng;
use muster_link::messages::{FromAgent, Telemetry};
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::node::{Gpu as GpuPart, GpuFacts, Inventory, Nic};
use muster_model::units::{Bytes, Time};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

pub(crate) const GPUS: usize = 8;
pub(crate) const PORTS: usize = 4;
pub(crate) const MOUNTS: [&str; 2] = ["/data", "/scratch"];
/// Watts that a GPU may draw.
pub(crate) const LIMIT_W: f64 = 700.0;
const IDLE_W: f64 = 78.0;
const BOOST_MHZ: f64 = 1830.0;
const SLOWDOWN_C: f64 = 87.0;

/// Names of the figures of a GPU, in the order of `Node::row`.
pub(crate) const COLUMNS: [&str; 27] = [
    "util",
    "mem_used",
    "sm_clock",
    "mem_clock",
    "temp",
    "mem_temp",
    "power",
    "energy",
    "pcie_rx",
    "pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "ecc_sbe",
    "ecc_dbe",
    "remapped_rows",
    "replay",
    "throttle",
    "sm_active",
    "tensor_active",
    "dram_active",
    "remap_pending",
    "remap_failed",
    "nvlink_errors",
    "thermal_margin",
    "pcie_width",
    "pcie_gen",
    "power_limit",
];

/// What a GPU does during a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Share of the time in which it computes.
    pub(crate) act: f64,
    /// Share in which it spins and waits for others.
    pub(crate) wait: f64,
    /// Watts at full work.
    pub(crate) watts: f64,
    /// Memory in use, bytes.
    pub(crate) memory: f64,
}

/// What ails a GPU; the default is health.
#[derive(Debug, Clone)]
pub(crate) struct GpuFx {
    pub(crate) gone: bool,
    /// Work takes so many times as long, with nothing to show for it.
    pub(crate) slow: f64,
    /// Clocks are so many times as high.
    pub(crate) clock: f64,
    pub(crate) throttle: u32,
    pub(crate) heat: f64,
    pub(crate) cap: f64,
    pub(crate) sbe_s: f64,
    pub(crate) replay_min: f64,
    pub(crate) nvlink_s: f64,
    pub(crate) width: f64,
    pub(crate) generation: f64,
    /// The bus rests while the GPU does.
    pub(crate) rests: bool,
}

impl Default for GpuFx {
    fn default() -> GpuFx {
        GpuFx {
            gone: false,
            slow: 1.0,
            clock: 1.0,
            throttle: 0,
            heat: 0.0,
            cap: LIMIT_W,
            sbe_s: 0.0,
            replay_min: 0.0,
            nvlink_s: 0.0,
            width: 16.0,
            generation: 5.0,
            rests: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    /// No two are quite alike.
    warm: f64,
    thirsty: f64,
    eager: f64,
    pub(crate) temp: f64,
    energy: f64,
    pub(crate) sbe: f64,
    pub(crate) dbe: f64,
    pub(crate) remapped: f64,
    pub(crate) pending: bool,
    pub(crate) failed: bool,
    pub(crate) replay: f64,
    pub(crate) nvlink: f64,
    pub(crate) fx: GpuFx,
}

/// What ails a port.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortFx {
    pub(crate) down: bool,
    /// Up and down again, once in so many seconds.
    pub(crate) flap_s: f64,
    pub(crate) symbols_s: f64,
    pub(crate) recoveries_min: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) name: String,
    up: bool,
    downed: f64,
    symbols: f64,
    recoveries: f64,
    received: f64,
    discards: f64,
    pub(crate) fx: PortFx,
}

/// What ails a host.
#[derive(Debug, Clone)]
pub(crate) struct NodeFx {
    /// The agent lives and reports nothing of the machine.
    pub(crate) mute: bool,
    /// Sending takes so many times as long.
    pub(crate) send: f64,
    pub(crate) dstate: f64,
    /// Since when a mount answers nobody.
    pub(crate) stalled: Option<(usize, Time)>,
    /// A mount is so many times as slow.
    pub(crate) slow_fs: Option<(usize, f64)>,
    /// Its clock is off.
    pub(crate) skew_ms: i64,
    /// Its rows come late, all at once.
    pub(crate) late: bool,
    /// Air that comes in is warmer.
    pub(crate) inlet: f64,
}

impl Default for NodeFx {
    fn default() -> NodeFx {
        NodeFx {
            mute: false,
            send: 1.0,
            dstate: 0.0,
            stalled: None,
            slow_fs: None,
            skew_ms: 0,
            late: false,
            inlet: 0.0,
        }
    }
}

pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) leaf: String,
    pub(crate) rack: String,
    pub(crate) feed: String,
    pub(crate) say: mpsc::UnboundedSender<ConnectionCommand>,
    pub(crate) up: bool,
    /// Away until then, by the fleet's clock.
    pub(crate) back_at: Option<Time>,
    pub(crate) boot: u32,
    pub(crate) columns_reported: bool,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) ports: Vec<Port>,
    pub(crate) work: BTreeMap<AttemptKey, u32>,
    pub(crate) ended: BTreeMap<AttemptKey, SlotEnd>,
    /// What is going on here.
    pub(crate) episode: Option<u64>,
    /// Nothing new happens before.
    pub(crate) free_after: Time,
    pub(crate) fx: NodeFx,
    /// Acts to report after a restart.
    pub(crate) acted: Vec<u64>,
    kept: Vec<Telemetry>,
    inlet: f64,
    fs: [f64; 2],
}

pub(crate) fn inventory(name: &str) -> Inventory {
    let gpu = |i: u32| GpuPart {
        index: i,
        sku: "h100-sxm".into(),
        uuid: format!("GPU-{name}-{i}"),
        serial: Some(format!(
            "16524{i:02}{:06}",
            name.bytes().fold(7u32, |h, b| { h.wrapping_mul(31).wrapping_add(u32::from(b)) })
                % 1_000_000
        )),
        memory: Bytes(80 << 30),
        pci: Some(format!("0000:{:02x}:00.0", 0x1b + i * 0x10)),
        numa: Some(i / 4),
        mig: Some(false),
        facts: Some(Box::new(GpuFacts {
            pcie_gen: Some(5),
            pcie_width: Some(16),
            power_limit: Some(700),
            ..GpuFacts::default()
        })),
    };
    let nic = |i: usize| Nic {
        name: format!("mlx5_{i}"),
        kind: "infiniband".into(),
        address: None,
        speed_mbps: Some(400_000),
        state: Some("up".into()),
        rail: None,
    };
    Inventory {
        cpu_model: "made up".into(),
        cpus: 128,
        sockets: 2,
        memory: Bytes(1 << 40),
        gpus: (0..GPUS as u32).map(gpu).collect(),
        nics: (0..PORTS).map(nic).collect(),
        kernel: "6.8.0".into(),
        versions: [("driver".to_string(), "580.95.05".to_string())].into(),
        isolation: "cgroup2".into(),
        simulated: true,
        can: ["qualify", "reset", "reboot"].map(String::from).into(),
        ..Inventory::default()
    }
}

impl Node {
    pub(crate) fn new(
        name: NodeName,
        place: &crate::settings::NodeLocation,
        say: mpsc::UnboundedSender<ConnectionCommand>,
        rng: &mut Rng,
    ) -> Node {
        let gpu = |rng: &mut Rng, i: usize| Gpu {
            // Those at the end of the air stream are warmer.
            warm: rng.normal() * 1.6 + if i % 4 >= 2 { 2.0 } else { 0.0 },
            thirsty: rng.normal() * 0.02,
            eager: rng.normal() * 0.004,
            temp: 32.0,
            energy: rng.range(0.0, 1e9),
            sbe: (rng.range(-20.0, 6.0)).max(0.0).round(),
            dbe: 0.0,
            remapped: if rng.chance(0.03) { 1.0 } else { 0.0 },
            pending: false,
            failed: false,
            replay: (rng.range(-10.0, 12.0)).max(0.0).round(),
            nvlink: (rng.range(-4.0, 4.0)).max(0.0).round(),
            fx: GpuFx::default(),
        };
        let port = |i: usize, rng: &mut Rng| Port {
            name: format!("mlx5_{i}"),
            up: true,
            downed: rng.below(3) as f64,
            symbols: rng.below(40) as f64,
            recoveries: rng.below(3) as f64,
            received: rng.below(5) as f64,
            discards: rng.below(900) as f64,
            fx: PortFx::default(),
        };
        Node {
            name,
            leaf: place.leaf.clone(),
            rack: place.rack.clone(),
            feed: place.feed.clone(),
            say,
            up: false,
            back_at: None,
            boot: 1,
            columns_reported: false,
            gpus: (0..GPUS).map(|i| gpu(rng, i)).collect(),
            ports: (0..PORTS).map(|i| port(i, rng)).collect(),
            work: BTreeMap::new(),
            ended: BTreeMap::new(),
            episode: None,
            free_after: Time(0),
            fx: NodeFx::default(),
            acted: Vec::new(),
            kept: Vec::new(),
            inlet: 24.0 + rng.normal(),
            fs: [rng.range(1.5, 3.0), rng.range(0.4, 1.2)],
        }
    }

    pub(crate) fn send(&self, message: FromAgent) {
        if self.up {
            let _ = self.say.send(ConnectionCommand::Send(Box::new(message)));
        }
    }

    /// Nothing goes on here, and it is there.
    pub(crate) fn free(&self, now: Time) -> bool {
        self.up && self.episode.is_none() && self.free_after <= now
    }

    /// A restart: what ran is gone, and so is what a restart repairs.
    pub(crate) fn restarted(&mut self) {
        self.boot += 1;
        self.work.clear();
        self.ended.clear();
        self.kept.clear();
        for g in &mut self.gpus {
            (g.pending, g.failed, g.temp) = (false, false, 32.0);
            (g.sbe, g.dbe, g.replay, g.nvlink) = (0.0, 0.0, 0.0, 0.0);
        }
    }

    /// As it was before anything ailed it. Counters stay: they only count up.
    pub(crate) fn heal(&mut self) {
        self.fx = NodeFx::default();
        for g in &mut self.gpus {
            g.fx = GpuFx::default();
            (g.pending, g.failed) = (false, false);
        }
        self.ports.iter_mut().for_each(|p| p.fx = PortFx::default());
    }

    /// The rows to send now that there is a new one: usually that, none when the agent is mute or
    /// late.
    pub(crate) fn rows(&mut self, row: Telemetry) -> Vec<Telemetry> {
        if self.fx.mute || !self.up {
            return Vec::new();
        }
        if self.fx.late {
            self.kept.push(row);
            return Vec::new();
        }
        let mut rows = std::mem::take(&mut self.kept);
        rows.push(row);
        if !std::mem::replace(&mut self.columns_reported, true) {
            rows[0].columns = COLUMNS.map(String::from).to_vec();
        }
        rows
    }

    /// What it measures now. Time passes for its parts, whether it is reported or not.
    pub(crate) fn row(
        &mut self,
        now: Time,
        dt: f64,
        day: f64,
        loads: &[Load; GPUS],
        rng: &mut Rng,
    ) -> Telemetry {
        let air = self.inlet + day + self.fx.inlet;
        let gpus = self.gpus.iter_mut().zip(loads).map(|(g, l)| g.row(dt, air, l, rng)).collect();
        let mut host = BTreeMap::new();
        let mut put = |name: String, v: f64| {
            host.insert(name, v);
        };
        for p in &mut self.ports {
            p.live(now, dt, rng);
            for (what, v) in [
                ("up", f64::from(u8::from(p.up))),
                ("downed", p.downed),
                ("symbol_errors", p.symbols.floor()),
                ("recoveries", p.recoveries.floor()),
                ("rcv_errors", p.received),
                ("discards", p.discards.floor()),
            ] {
                put(format!("port.{}.{what}", p.name), v);
            }
        }
        for (i, mount) in MOUNTS.iter().enumerate() {
            let mut slow = 1.0 + rng.unit().powi(6) * 2.0;
            if let Some((at, by)) = self.fx.slow_fs
                && at == i
            {
                slow *= by;
            }
            let base = self.fs[i] * slow * (1.0 + 0.1 * rng.normal()).max(0.3);
            let stalled = match self.fx.stalled {
                Some((at, since)) if at == i => now.since(since).0 as f64 / 1000.0,
                _ => 0.0,
            };
            put(format!("fs.{mount}.read_ms"), base);
            put(format!("fs.{mount}.write_ms"), base * 1.6);
            put(format!("fs.{mount}.meta_ms"), base * 0.7);
            put(format!("fs.{mount}.stalled_s"), stalled);
        }
        put("dstate".into(), self.fx.dstate);
        put("agent.gap_ms".into(), 1000.0 + 40.0 * rng.unit());
        let at = Time(now.0 + self.fx.skew_ms);
        Telemetry { at, columns: Vec::new(), gpus, host }
    }
}

impl Port {
    fn live(&mut self, now: Time, dt: f64, rng: &mut Rng) {
        let fx = &self.fx;
        let flapped = fx.flap_s > 0.0 && (now.0 as f64 / 1000.0 / fx.flap_s).fract() < 0.35;
        let up = !(fx.down || flapped);
        if self.up && !up {
            self.downed += 1.0;
            self.recoveries += 1.0;
        }
        self.up = up;
        // Links of this speed always have a few that are corrected.
        if rng.chance(dt / 7200.0) {
            self.symbols += 1.0;
        }
        self.symbols += fx.symbols_s * dt * rng.range(0.6, 1.4);
        self.recoveries += fx.recoveries_min * dt / 60.0 * rng.range(0.6, 1.4);
        self.discards += rng.unit() * 0.2;
    }
}

impl Gpu {
    fn row(&mut self, dt: f64, air: f64, load: &Load, rng: &mut Rng) -> Vec<Option<f32>> {
        let fx = self.fx.clone();
        if fx.gone {
            return vec![None; COLUMNS.len()];
        }
        let busy = load.act + load.wait > 0.05;
        let full = load.watts * (1.0 + self.thirsty) * fx.clock.powf(1.4);
        let work = load.act + 0.42 * load.wait;
        let wanted = IDLE_W + (full - IDLE_W).max(0.0) * work + 4.0 * rng.normal();
        let power = wanted.min(fx.cap);
        let capped = wanted > fx.cap;
        // Less power is less clock, by about a square root at this end.
        let squeeze = if capped { (power / wanted).powf(0.6) } else { 1.0 };
        let clock = if busy {
            BOOST_MHZ * (1.0 + self.eager + 0.003 * rng.normal()) * fx.clock * squeeze
        } else {
            345.0
        };
        let goal = air + self.warm + fx.heat + power * 0.058;
        self.temp += (goal - self.temp) * (dt / (dt + 35.0));
        let temp = self.temp + 0.4 * rng.normal();
        self.energy += power * dt * 1000.0;
        if rng.chance(dt / 1.5e6) {
            self.sbe += 1.0;
        }
        self.sbe += fx.sbe_s * dt * rng.range(0.5, 1.5);
        self.replay += fx.replay_min * dt / 60.0 * rng.range(0.6, 1.4);
        self.nvlink += fx.nvlink_s * dt * rng.range(0.6, 1.4);
        let mut throttle = fx.throttle;
        if !busy {
            throttle |= 1;
        }
        if capped {
            throttle |= 4;
        }
        let rests = fx.rests && !busy;
        let generation = if rests { 1.0 } else { fx.generation };
        let pace = load.act * fx.width / 16.0;
        let noise = 1.0 + 0.05 * rng.normal();
        let util = (100.0 * (load.act + load.wait) + 1.5 * rng.normal()).clamp(0.0, 100.0);
        let values = [
            if busy { util.round() } else { 0.0 },
            load.memory,
            clock.round(),
            2619.0,
            temp.round(),
            (temp + 9.0).round(),
            power,
            self.energy,
            3e9 * pace * noise,
            2e9 * pace * noise,
            120e9 * load.act * noise,
            120e9 * load.act * noise,
            self.sbe.floor(),
            self.dbe,
            self.remapped,
            self.replay.floor(),
            f64::from(throttle),
            (0.86 * load.act + 0.12 * load.wait).min(1.0),
            (0.55 * load.act).min(1.0),
            (0.45 * load.act + 0.03 * load.wait).min(1.0),
            f64::from(u8::from(self.pending)),
            f64::from(u8::from(self.failed)),
            self.nvlink.floor(),
            (SLOWDOWN_C - temp).round(),
            fx.width,
            generation,
            fx.cap,
        ];
        values.iter().map(|v| Some(*v as f32)).collect()
    }
}
