//! Labels, written once and kept: they change with jobs, figures change with every look.

use super::{HostnameLabel, PageConfig};
use crate::snapshot::GpuNow;
use std::fmt::Write as _;

/// Longest value of a label, in bytes.
const LONGEST: usize = 200;

/// Which job a GPU works for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobLabels {
    /// The job's id.
    pub job: String,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The rank that has this GPU, where it is one rank's.
    pub rank: Option<u32>,
    /// The project that owns the job.
    pub project: String,
    /// The node's pool.
    pub pool: String,
}

/// `# HELP` and `# TYPE`.
pub(super) fn head(out: &mut String, name: &str, counter: bool, help: &str) {
    let kind = if counter { "counter" } else { "gauge" };
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes `name="value"`, with a comma before it unless it is the first.
pub(super) fn push(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() && !out.ends_with('{') {
        out.push(',');
    }
    write(out, name, value);
}

/// Writes `,name="value"`: for labels that come after others.
pub(super) fn after(out: &mut String, name: &str, value: &str) {
    out.push(',');
    write(out, name, value);
}

fn write(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    let mut end = value.len().min(LONGEST);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    for c in value[..end].chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A name that Prometheus takes: letters, digits and `_`, not beginning with a digit.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The labels of one device, as text: those before the slice's, and those after.
#[derive(Debug, Default)]
pub(super) struct Cached {
    key: Option<Key>,
    /// `gpu` to `modelName`.
    pub(super) device: String,
    /// Host, static and job labels, with a comma before them.
    pub(super) rest: String,
}

#[derive(Debug, PartialEq)]
struct Key {
    uuid: std::sync::Arc<str>,
    known: bool,
    driver: Option<String>,
    job: Option<JobLabels>,
}

impl Cached {
    /// Writes them anew if something about them changed.
    pub(super) fn refresh(&mut self, config: &PageConfig, gpu: &GpuNow, driver: Option<&str>) {
        let job = (config.labels_of)(gpu.index);
        let key = Key {
            uuid: gpu.uuid.clone(),
            known: gpu.gpu.is_some(),
            driver: driver.map(str::to_owned),
            job,
        };
        if self.key.as_ref() == Some(&key) {
            return;
        }
        let number = gpu.index.to_string();
        self.device.clear();
        push(&mut self.device, "gpu", &number);
        push(&mut self.device, "UUID", &gpu.uuid);
        push(&mut self.device, "pci_bus_id", gpu.pci.as_deref().unwrap_or_default());
        push(&mut self.device, "device", &format!("nvidia{}", gpu.index));
        let model = gpu.gpu.as_ref().map_or("", |g| {
            let product = g.facts.as_ref().and_then(|f| f.product.as_deref());
            product.unwrap_or(&g.sku)
        });
        push(&mut self.device, "modelName", model);

        let rest = &mut self.rest;
        rest.clear();
        let host = match config.hostname_label {
            HostnameLabel::Upper => "Hostname",
            HostnameLabel::Lower => "hostname",
        };
        after(rest, host, &config.hostname);
        if let Some(driver) = driver {
            after(rest, "DCGM_FI_DRIVER_VERSION", driver);
        }
        if let Some(j) = &key.job {
            after(rest, "hpc_job", &j.job);
            let p = &config.job_prefix;
            after(rest, &format!("{p}job"), &j.job);
            after(rest, &format!("{p}attempt"), &j.attempt.to_string());
            if let Some(rank) = j.rank {
                after(rest, &format!("{p}rank"), &rank.to_string());
            }
            after(rest, &format!("{p}project"), &j.project);
            after(rest, &format!("{p}pool"), &j.pool);
        }
        self.key = Some(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_bounded() {
        let mut out = String::new();
        push(&mut out, "a", "x\\y\"z\nw");
        push(&mut out, "b", &"ä".repeat(300));
        assert!(out.starts_with("a=\"x\\\\y\\\"z\\nw\",b=\"ää"), "{out}");
        assert_eq!(out.matches('ä').count(), LONGEST / 2);
    }

    #[test]
    fn names_are_those_that_prometheus_takes() {
        assert!(is_name("muster_") && is_name(""));
        assert!(!is_name("1x") && !is_name("a-b"));
    }
}
