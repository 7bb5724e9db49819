//! Figures of the host and of this process.

use super::labels::{head, push};
use crate::host::HostSample;
use crate::snapshot::Snapshot;
use std::fmt::Write as _;

/// One figure with its lines; nothing is written for one without lines.
struct Metric<'a> {
    out: &'a mut String,
    name: &'static str,
    counter: bool,
    help: &'static str,
    headed: bool,
}

impl<'a> Metric<'a> {
    fn gauge(out: &'a mut String, name: &'static str, help: &'static str) -> Metric<'a> {
        Metric { out, name, counter: false, help, headed: false }
    }

    fn counter(out: &'a mut String, name: &'static str, help: &'static str) -> Metric<'a> {
        Metric { out, name, counter: true, help, headed: false }
    }

    fn put(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Metric<'a> {
        if !std::mem::replace(&mut self.headed, true) {
            head(self.out, self.name, self.counter, self.help);
        }
        self.out.push_str(self.name);
        if !labels.is_empty() {
            self.out.push('{');
            for (name, value) in labels {
                push(self.out, name, value);
            }
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
        self
    }

    fn maybe(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(v) = value {
            self.put(labels, v);
        }
    }
}

fn number(n: u64) -> f64 {
    n as f64
}

/// Writes the host's metrics as Prometheus reads them.
pub(super) fn write(out: &mut String, h: &HostSample) {
    if let Some(cpu) = &h.cpu {
        Metric::gauge(out, "muster_host_cpus", "Processors.").put(&[], f64::from(cpu.count));
        let mut m =
            Metric::counter(out, "muster_host_cpu_seconds_total", "Processor time by mode.");
        for (mode, seconds) in &cpu.seconds {
            m.put(&[("mode", mode)], *seconds);
        }
    }
    if let Some(load) = h.load {
        Metric::gauge(out, "muster_host_load1", "Load over a minute.").put(&[], load[0]);
    }
    if let Some(m) = &h.memory {
        for (name, help, value) in [
            ("muster_host_memory_total_bytes", "Memory in all.", Some(m.total)),
            ("muster_host_memory_available_bytes", "Memory that programs can have.", m.available),
            ("muster_host_memory_dirty_bytes", "Memory that waits for disks.", m.dirty),
            ("muster_host_memory_corrupted_bytes", "Memory lost to errors.", m.corrupted),
        ] {
            Metric::gauge(out, name, help).maybe(&[], value.map(number));
        }
    }
    let mut m = Metric::counter(
        out,
        "muster_host_pressure_seconds_total",
        "Time in which work waited for a resource.",
    );
    for p in &h.pressure {
        m.put(&[("resource", p.resource), ("kind", p.kind)], p.seconds);
    }
    Metric::counter(out, "muster_host_oom_kills_total", "Processes killed by the OOM killer.")
        .maybe(&[], h.oom_kills.map(number));
    if let Some(t) = &h.tasks {
        Metric::gauge(out, "muster_host_tasks", "Processes.").put(&[], f64::from(t.all));
        Metric::gauge(out, "muster_host_tasks_blocked", "Processes stuck in the kernel (D).")
            .put(&[], f64::from(t.blocked));
        Metric::gauge(
            out,
            "muster_host_tasks_zombie",
            "Processes that ended and were not waited for.",
        )
        .put(&[], f64::from(t.zombies));
    }
    disks(out, h);
    network(out, h);
}

fn disks(out: &mut String, h: &HostSample) {
    type Of<T> = fn(&T) -> Option<f64>;
    const DISK: [(&str, &str, Of<crate::host::DiskIo>); 3] = [
        ("muster_host_disk_read_bytes_total", "Bytes read.", |d| Some(d.read_bytes as f64)),
        ("muster_host_disk_written_bytes_total", "Bytes written.", |d| {
            Some(d.written_bytes as f64)
        }),
        ("muster_host_disk_busy_seconds_total", "Time with something to do.", |d| {
            Some(d.busy_seconds)
        }),
    ];
    for (name, help, of) in DISK {
        let mut m = Metric::counter(out, name, help);
        for d in &h.disks {
            m.maybe(&[("device", &d.name)], of(d));
        }
    }
    const MOUNT: [(&str, &str, Of<crate::host::Mount>); 4] = [
        ("muster_host_filesystem_size_bytes", "Size.", |m| Some(m.space?.size as f64)),
        ("muster_host_filesystem_free_bytes", "Space for users.", |m| Some(m.space?.free as f64)),
        ("muster_host_filesystem_files_free", "Files that can be made.", |m| {
            m.space.filter(|s| s.files > 0).map(|s| s.files_free as f64)
        }),
        ("muster_host_filesystem_readonly", "1 when nothing can be written.", |m| {
            Some(f64::from(u8::from(m.readonly)))
        }),
    ];
    for (name, help, of) in MOUNT {
        let mut m = Metric::gauge(out, name, help);
        for mount in h.mounts.iter().filter(|m| m.kind != "tmpfs") {
            let labels = [
                ("mountpoint", mount.point.as_str()),
                ("device", mount.device.as_str()),
                ("fstype", mount.kind.as_str()),
            ];
            m.maybe(&labels, of(mount));
        }
    }
}

fn network(out: &mut String, h: &HostSample) {
    let mut m = Metric::gauge(out, "muster_host_net_up", "1 while the link is there.");
    for n in &h.nics {
        m.maybe(&[("nic", &n.name)], n.up.map(|u| f64::from(u8::from(u))));
    }
    let mut m = Metric::gauge(out, "muster_host_net_speed_mbps", "Speed of the link.");
    for n in &h.nics {
        m.maybe(&[("nic", &n.name)], n.speed_mbps.map(number));
    }
    let mut m = Metric::counter(
        out,
        "muster_host_net_carrier_changes_total",
        "Comings and goings of the link.",
    );
    for n in &h.nics {
        m.maybe(&[("nic", &n.name)], n.carrier_changes.map(number));
    }
    let mut m =
        Metric::counter(out, "muster_host_net_total", "The kernel's counters of an interface.");
    for n in &h.nics {
        for (counter, value) in &n.counters {
            m.put(&[("nic", &n.name), ("counter", counter)], number(*value));
        }
    }
    let mut m = Metric::gauge(out, "muster_host_ib_up", "1 while the port is active.");
    let ports: Vec<String> = h.ib.iter().map(|p| p.port.to_string()).collect();
    for (p, port) in h.ib.iter().zip(&ports) {
        let up = p.state.as_deref().map(|s| f64::from(u8::from(s == "ACTIVE")));
        m.maybe(&[("device", &p.device), ("port", port)], up);
    }
    let mut m = Metric::gauge(out, "muster_host_ib_rate_gbps", "Rate of the port.");
    for (p, port) in h.ib.iter().zip(&ports) {
        m.maybe(&[("device", &p.device), ("port", port)], p.rate_gbps);
    }
    let mut m = Metric::counter(out, "muster_host_ib_total", "The kernel's counters of a port.");
    for (p, port) in h.ib.iter().zip(&ports) {
        for (counter, value) in &p.counters {
            let labels = [("device", p.device.as_str()), ("port", port), ("counter", counter)];
            m.put(&labels, number(*value));
        }
    }
}

/// The monitor and this process.
pub(super) fn own(out: &mut String, now: &Snapshot, scrapes: u64) {
    Metric::gauge(out, "muster_driver_up", "1 while a driver answers.")
        .put(&[("driver", now.driver)], f64::from(u8::from(now.no_driver.is_none())));
    Metric::gauge(
        out,
        "muster_driver_stuck_calls",
        "Calls into the driver that have not come back.",
    )
    .put(&[], number(now.stuck as u64));
    Metric::counter(out, "muster_monitor_faults_total", "Faults seen on this node.")
        .put(&[], number(now.faults.0));
    Metric::counter(
        out,
        "muster_monitor_faults_dropped_total",
        "Faults that were dropped because nobody read them in time.",
    )
    .put(&[], number(now.faults.1));
    Metric::gauge(out, "muster_kernel_log_up", "1 while the kernel's log is read.")
        .put(&[], f64::from(u8::from(now.log.from.is_some() && now.log.why_not.is_none())));
    Metric::counter(out, "muster_kernel_log_records_total", "Records of the kernel's log.")
        .put(&[], number(now.log.records));
    Metric::counter(
        out,
        "muster_kernel_log_missed_total",
        "Records overwritten before they were read.",
    )
    .put(&[], number(now.log.missed));
    let mut m =
        Metric::counter(out, "muster_kernel_log_faults_total", "Faults in the kernel's log.");
    for (code, n) in &now.log.codes {
        m.put(&[("code", code)], number(*n));
    }
    Metric::counter(out, "muster_exporter_scrapes_total", "Pages written.")
        .put(&[], number(scrapes));
    let usage = usage_of_self();
    Metric::counter(out, "process_cpu_seconds_total", "Processor time of this process.")
        .maybe(&[], usage.0);
    Metric::gauge(out, "process_resident_memory_bytes", "Memory of this process.")
        .maybe(&[], usage.1);
}

/// Processor time and memory of this process.
fn usage_of_self() -> (Option<f64>, Option<f64>) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |n: usize| fields.split_ascii_whitespace().nth(n - 3)?.parse::<u64>().ok();
    let second = rustix::param::clock_ticks_per_second() as f64;
    let cpu = ticks(14).zip(ticks(15)).map(|(u, s)| (u + s) as f64 / second);
    let rss = ticks(24).map(|pages| pages as f64 * rustix::param::page_size() as f64);
    (cpu, rss)
}
