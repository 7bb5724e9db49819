//! The host around the GPUs of a simulated node: network ports, a file system, stuck processes,
//! and an agent that may stop reporting.

use crate::condition::Counter;
use muster_model::inject::Inject as Fault;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// A flapping port is down for so long of every [`FLAP_EVERY`].
const FLAP_DOWN: Span = Span::secs(5);
/// See [`FLAP_DOWN`].
const FLAP_EVERY: Span = Span::secs(60);
/// Where the simulated file system is mounted.
const MOUNT: &str = "/data";
/// What a sound file system takes, in hundredths of a millisecond: reading, writing, metadata.
const SOUND: [u64; 3] = [180, 420, 90];
/// Milliseconds between two looks of a sound agent.
const LOOK_MS: u64 = 1000;

/// A port of a network card.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) lost: bool,
    down_until: Option<Time>,
    downed: u64,
    flaps_since: Option<Time>,
    symbols: Counter,
    recoveries: Counter,
}

impl Port {
    fn new(name: String) -> Port {
        Port {
            name,
            lost: false,
            down_until: None,
            downed: 0,
            flaps_since: None,
            symbols: Counter::default(),
            recoveries: Counter::default(),
        }
    }

    pub(crate) fn up(&self, now: Time) -> bool {
        let flapped = |since: Time| now.since(since).0 % FLAP_EVERY.0 < FLAP_DOWN.0;
        self.down_until.is_none_or(|until| now >= until) && !self.flaps_since.is_some_and(flapped)
    }

    fn downed(&self, now: Time) -> u64 {
        let flaps = |since: Time| 1 + now.since(since).0 / FLAP_EVERY.0;
        self.downed + self.flaps_since.map_or(0, flaps)
    }

    pub(crate) fn down(&mut self, until: Time, now: Time) {
        if self.up(now) {
            self.downed += 1;
        }
        self.down_until = self.down_until.max(Some(until));
    }

    pub(crate) fn flap(&mut self, now: Time) {
        self.flaps_since = self.flaps_since.or(Some(now));
    }

    /// A port with so many symbol errors trains its link again now and then.
    pub(crate) fn symbols(&mut self, per_s: u32, now: Time) {
        self.symbols.pace(u64::from(per_s) * 3600, now);
        self.recoveries.pace(u64::from(per_s) * 36, now);
    }

    fn repair(&mut self, now: Time) {
        self.downed = self.downed(now);
        (self.lost, self.down_until, self.flaps_since) = (false, None, None);
        self.symbols(0, now);
    }
}

/// A file system.
#[derive(Debug, Clone)]
struct Mount {
    path: String,
    stalled: Option<(Time, Time)>,
    factor: u32,
}

/// The host of a simulated node.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) ports: Vec<Port>,
    mounts: Vec<Mount>,
    pub(crate) stuck: u32,
    /// The power supply asks the GPUs to slow down.
    pub(crate) brake: bool,
    /// The agent reports nothing from here to there.
    hang: Option<(Time, Time)>,
}

impl Host {
    pub(crate) fn new(nics: u32) -> Host {
        Host {
            ports: (0..nics).map(|i| Port::new(nic_name(i))).collect(),
            mounts: vec![Mount { path: MOUNT.into(), stalled: None, factor: 1 }],
            stuck: 0,
            brake: false,
            hang: None,
        }
    }

    /// A port by its name or the number at its end.
    pub(crate) fn port(&mut self, wanted: &str) -> Result<&mut Port, String> {
        let place = self.ports.iter().position(|p| {
            !p.lost && (p.name == wanted || p.name.strip_prefix("mlx5_") == Some(wanted))
        });
        match place {
            Some(i) => Ok(&mut self.ports[i]),
            None => {
                let there = self.ports.iter().filter(|p| !p.lost).map(|p| p.name.as_str());
                let there: Vec<&str> = there.collect();
                Err(format!("there is no port `{wanted}`; there are {}", there.join(", ")))
            }
        }
    }

    fn mount(&mut self, wanted: &str) -> Result<&mut Mount, String> {
        let there: Vec<String> = self.mounts.iter().map(|m| m.path.clone()).collect();
        let found = self.mounts.iter_mut().find(|m| m.path == wanted);
        found.ok_or_else(|| {
            format!("no file system is mounted at `{wanted}`; there are {}", there.join(", "))
        })
    }

    pub(crate) fn stall(&mut self, mount: &str, length: Span, now: Time) -> Result<(), String> {
        let m = self.mount(mount)?;
        let from = m.stalled.filter(|(_, until)| now < *until).map_or(now, |(from, _)| from);
        m.stalled = Some((from, now + length));
        Ok(())
    }

    pub(crate) fn slow(&mut self, mount: &str, factor: u32) -> Result<(), String> {
        self.mount(mount)?.factor = factor.max(1);
        Ok(())
    }

    pub(crate) fn hang(&mut self, length: Span, now: Time) {
        self.hang = Some((now, now + length));
    }

    /// Whether the agent reports its figures.
    pub(crate) fn reports(&self, now: Time) -> bool {
        self.hang.is_none_or(|(_, until)| now >= until)
    }

    /// What a boot repairs: cards are found again and nothing hangs.
    pub(crate) fn boot(&mut self) {
        for p in &mut self.ports {
            p.lost = false;
        }
        (self.stuck, self.hang) = (0, None);
    }

    pub(crate) fn repair(&mut self, now: Time) {
        self.boot();
        self.brake = false;
        for p in &mut self.ports {
            p.repair(now);
        }
        for m in &mut self.mounts {
            (m.stalled, m.factor) = (None, 1);
        }
    }

    /// Faults that a sound host must have to be as this one is.
    pub(crate) fn current_faults(&self, now: Time) -> Vec<Fault> {
        let left = |until: Option<Time>| until.filter(|t| *t > now).map(|t| t.since(now));
        let mut all = Vec::new();
        for p in &self.ports {
            let port = || p.name.clone();
            let per_s = u32::try_from(p.symbols.per_hour() / 3600).unwrap_or(u32::MAX);
            let down = left(p.down_until);
            all.extend(down.map(|length| Fault::PortDown { port: port(), length }));
            all.extend(p.flaps_since.map(|_| Fault::PortFlap { port: port() }));
            all.extend((per_s > 0).then(|| Fault::SymbolErrors { port: port(), per_s }));
            // The last one: a port that is not there has nothing else.
            all.extend(p.lost.then(|| Fault::LosePort { port: port() }));
        }
        for m in &self.mounts {
            let (mount, factor) = (|| m.path.clone(), m.factor);
            let stalled = left(m.stalled.map(|(_, until)| until));
            all.extend(stalled.map(|length| Fault::StorageStall { mount: mount(), length }));
            all.extend((factor > 1).then(|| Fault::StorageSlow { mount: mount(), factor }));
        }
        let hung = left(self.hang.map(|(_, until)| until));
        all.extend(hung.map(|length| Fault::AgentHang { length }));
        all.extend((self.stuck > 0).then_some(Fault::StuckProcesses { count: self.stuck }));
        all.extend(self.brake.then_some(Fault::PowerBrake));
        all
    }

    /// Figures of the host by name. The first after a hang knows how long it was.
    pub(crate) fn metrics(&mut self, now: Time) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for p in self.ports.iter().filter(|p| !p.lost) {
            let mut put = |name: &str, value: u64| {
                all.insert(format!("port.{}.{name}", p.name), wide(value));
            };
            put("up", u64::from(p.up(now)));
            put("downed", p.downed(now));
            put("symbol_errors", p.symbols.value(now));
            put("recoveries", p.recoveries.value(now));
            put("rcv_errors", p.symbols.value(now) / 100);
            put("discards", 0);
        }
        for m in &self.mounts {
            let mut put = |name: &str, value: f64| {
                all.insert(format!("fs.{}.{name}", m.path), value);
            };
            match m.stalled.filter(|(_, until)| now < *until) {
                // What the last probe found says nothing of now.
                Some((from, _)) => put("stalled_s", wide(now.since(from).0) / 1000.0),
                None => {
                    put("stalled_s", 0.0);
                    let ripple = (now.0 / 1000).rem_euclid(7).unsigned_abs();
                    for (name, sound) in ["read_ms", "write_ms", "meta_ms"].iter().zip(SOUND) {
                        let v = (sound + sound * ripple / 50) * u64::from(m.factor);
                        put(name, wide(v) / 100.0);
                    }
                }
            }
        }
        all.insert("dstate".into(), f64::from(self.stuck));
        let over = self.hang.take_if(|(_, until)| now >= *until);
        let gap = over.map_or(LOOK_MS, |(from, until)| until.since(from).0.max(LOOK_MS));
        all.insert("agent.gap_ms".into(), wide(gap));
        all
    }
}

pub(crate) fn nic_name(i: u32) -> String {
    format!("mlx5_{i}")
}

// The wire wants floats; no decision of the node reads them.
#[expect(clippy::cast_precision_loss, reason = "telemetry is approximate by nature")]
fn wide(v: u64) -> f64 {
    v as f64
}
