//! The page itself.

use super::labels::{Cached, head};
use super::names::shown;
use super::{PageConfig, host, labels};
use crate::snapshot::{GpuNow, Snapshot, XID_WINDOW_MS};
use muster_gpu::sample::{FIELDS, Field, Sample};
use muster_health::faults::{Catalogue, Code};
use muster_model::node::MigSlice;
use std::fmt::Write as _;

/// Writes the page, and keeps what does not change between two looks.
#[derive(Debug)]
pub struct Page {
    config: PageConfig,
    cached: Vec<Cached>,
    text: String,
    scrapes: u64,
}

/// Processes reported for one GPU; a machine that has more has other troubles.
const MOST_PROCESSES: usize = 32;

impl Page {
    /// A page as it is configured. A prefix that makes no names is left out.
    #[must_use]
    pub fn new(mut config: PageConfig) -> Page {
        if !labels::is_name(&config.job_prefix) {
            config.job_prefix.clear();
        }
        Page { config, cached: Vec::new(), text: String::new(), scrapes: 0 }
    }

    /// The page for this moment.
    pub fn render(&mut self, now: &Snapshot) -> &str {
        self.scrapes += 1;
        self.cached.resize_with(now.gpus.len(), Cached::default);
        let driver = now.versions.get("driver").map(String::as_str);
        for (cached, gpu) in self.cached.iter_mut().zip(&now.gpus) {
            cached.refresh(&self.config, gpu, driver);
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.devices(&mut text, now);
        self.xids(&mut text, now);
        self.state(&mut text, now);
        self.processes(&mut text, now);
        if let Some(h) = &now.host {
            host::write(&mut text, h);
        }
        host::own(&mut text, now, self.scrapes);
        self.text = text;
        &self.text
    }

    fn each<'a>(&'a self, now: &'a Snapshot) -> impl Iterator<Item = (&'a Cached, &'a GpuNow)> {
        self.cached.iter().zip(&now.gpus)
    }

    fn devices(&self, out: &mut String, now: &Snapshot) {
        for field in FIELDS {
            if field == Field::Xid {
                continue;
            }
            let Some(s) = shown(field, self.config.names) else { continue };
            let mut headed = false;
            let mut head = |out: &mut String| {
                if !std::mem::replace(&mut headed, true) {
                    self::head(out, s.name, s.counter, s.help);
                }
            };
            for (c, gpu) in self.each(now) {
                if let Some(v) = gpu.sample.as_ref().and_then(|x| x.get(field)) {
                    head(out);
                    line(out, s.name, c, "", v * s.factor);
                }
                for slice in gpu.slices.iter() {
                    if let Some(v) = slice.2.get(field) {
                        head(out);
                        line(out, s.name, c, &slice_labels(gpu, slice), v * s.factor);
                    }
                }
            }
        }
    }

    fn xids(&self, out: &mut String, now: &Snapshot) {
        let last = match self.config.names {
            super::Names::Dcgm4 => "DCGM_FI_DEV_XID_ERRORS",
            super::Names::Dcgm46 => "DCGM_FI_DEV_XID_ERROR",
        };
        let mut headed = false;
        for (c, gpu) in self.each(now).filter(|(_, g)| g.up) {
            if !std::mem::replace(&mut headed, true) {
                head(out, last, false, "Number of the last XID; 0 when there was none.");
            }
            let reported = gpu.sample.as_ref().and_then(|s| s.get(Field::Xid)).unwrap_or(0.0);
            let xid = gpu.xid.unwrap_or(reported as u32);
            let mut more = String::new();
            labels::after(&mut more, "err_code", &xid.to_string());
            labels::after(&mut more, "err_msg", name_of(xid));
            line(out, last, c, &more, f64::from(xid));
        }
        let counted = "DCGM_EXP_XID_ERRORS_COUNT";
        let mut headed = false;
        for (c, gpu) in self.each(now) {
            for (xid, n) in &gpu.xids {
                if !std::mem::replace(&mut headed, true) {
                    head(out, counted, false, "XIDs seen within the window, by code.");
                }
                let more = format!(",window_size_in_ms=\"{XID_WINDOW_MS}\",xid=\"{xid}\"");
                line(out, counted, c, &more, *n as f64);
            }
        }
    }

    /// Memory by process, and so by job and rank.
    fn processes(&self, out: &mut String, now: &Snapshot) {
        let name = "muster_gpu_process_memory_bytes";
        let mut headed = false;
        for (c, gpu) in self.each(now) {
            let reported = gpu.processes.iter().filter_map(|p| Some((p, p.memory?)));
            for (p, bytes) in reported.take(MOST_PROCESSES) {
                if !std::mem::replace(&mut headed, true) {
                    head(out, name, false, "Memory of the GPU that a process uses.");
                }
                let mut more = String::new();
                labels::after(&mut more, "pid", &p.pid.to_string());
                if let Some((key, rank)) = (self.config.owner_of)(p.pid) {
                    labels::after(&mut more, "owner", &key.to_string());
                    labels::after(&mut more, "owner_rank", &rank.to_string());
                }
                line(out, name, c, &more, bytes as f64);
            }
        }
    }

    fn state(&self, out: &mut String, now: &Snapshot) {
        if now.gpus.is_empty() {
            return;
        }
        type State = (&'static str, &'static str, fn(&GpuNow) -> bool);
        const STATES: [State; 3] = [
            (
                "muster_gpu_up",
                "1 while the GPU answers; its other metrics are gone when it does not.",
                |g| g.up,
            ),
            ("muster_gpu_hung", "1 while a call to it has not come back.", |g| g.hung),
            ("muster_gpu_lost", "1 when it is gone from the bus.", |g| g.lost),
        ];
        for (name, help, is) in STATES {
            head(out, name, false, help);
            for (c, gpu) in self.each(now) {
                line(out, name, c, "", f64::from(u8::from(is(gpu))));
            }
        }
    }
}

/// One figure of a device; `more` are labels between those of the device and the rest.
fn line(out: &mut String, name: &str, c: &Cached, more: &str, value: f64) {
    out.push_str(name);
    out.push('{');
    out.push_str(&c.device);
    out.push_str(more);
    out.push_str(&c.rest);
    out.push_str("} ");
    let _ = writeln!(out, "{value}");
}

fn slice_labels(gpu: &GpuNow, (gi, ci, _): &(u32, u32, Sample)) -> String {
    let profile = gpu
        .gpu
        .as_ref()
        .and_then(|g| g.facts.as_ref())
        .and_then(|f| {
            f.mig_slices
                .iter()
                .find(|s: &&MigSlice| s.gpu_instance == *gi && s.compute_instance == *ci)
        })
        .map_or("", |s| s.profile.as_str());
    let mut out = String::new();
    labels::after(&mut out, "GPU_I_PROFILE", profile);
    labels::after(&mut out, "GPU_I_ID", &gi.to_string());
    out
}

fn name_of(xid: u32) -> &'static str {
    if xid == 0 {
        return "No Error";
    }
    let entry = Code::xid(xid).and_then(|c| Catalogue::builtin().entry(c));
    entry.map_or("Unknown Error", |e| e.name)
}
