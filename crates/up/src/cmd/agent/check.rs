//! `muster agent check`: is this machine fit for work? Without a server, in a few seconds.

use super::gpus::{Gpus, hostname};
use super::slurm;
use clap::Args;
use colour::Style;
use muster_health::faults::Catalogue;
use muster_model::units::Span;
use muster_monitor::check::{Finding, Report, Verdict, evaluate, named};
use muster_monitor::gather::Gather;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::{self, colour, table};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use table::{Cell, Table, cell, number};

/// Check whether this machine's GPUs and host are fit for work; needs no server
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster agent check\n  muster agent check --expect 8 --since 24h -o json\n  \
muster agent check --slurm --slurm-drain              as Slurm's HealthCheckProgram\n  \
muster agent check --simulated h100-sxm:8 --break 3:lost\n\n\
Exit code: 0 healthy, 20 degraded, 21 failed. With --slurm: 0 healthy or degraded, 21 failed."
)]
pub(crate) struct Check {
    /// The number of GPUs there must be
    #[arg(long, value_name = "N")]
    expect: Option<u32>,
    /// Faults of the kernel's log count when they are younger than this [default: since boot]
    #[arg(long, value_name = "SPAN")]
    since: Option<Span>,
    /// How long to watch: counters that move meanwhile are reported
    #[arg(long, value_name = "SPAN", default_value = "2s")]
    during: Span,
    /// Leave out the host and the kernel's log
    #[arg(long)]
    gpus_only: bool,
    /// Read this file as the kernel's log: what `dmesg` printed, or another /dev/kmsg
    #[arg(long, value_name = "FILE", conflicts_with = "gpus_only")]
    kernel_log: Option<PathBuf>,
    /// Your own rules for what faults mean; they override the built-in ones
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// The pool this machine belongs to, for `--faults`
    #[arg(long, default_value = "", value_name = "POOL", hide_default_value = true)]
    pool: String,
    /// One line, for Slurm's HealthCheckProgram or prolog
    #[arg(long)]
    slurm: bool,
    /// And have Slurm drain this node when it failed
    #[arg(long, requires = "slurm")]
    slurm_drain: bool,
    #[command(flatten)]
    gpus: Gpus,
}

impl Check {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let mut gather = Gather::new(hostname());
        gather.during = Duration::from_millis(self.during.0.min(600_000));
        gather.host = !self.gpus_only;
        gather.log = self.kernel_log;
        gather.since = self.since;
        gather.expect = self.expect;
        gather.pool = self.pool;
        if let Some(file) = &self.faults {
            let text = output::read_text(file)?;
            let catalogue = Catalogue::builtin()
                .with_overrides(&text)
                .map_err(|e| Fail::usage(format!("{}: {e}", file.display())))?;
            gather.catalogue = Arc::new(catalogue);
        }
        let opened = self.gpus.prepare()?;
        let report = evaluate(&gather.observe_node(now(), opened.opener()));
        if self.slurm {
            output::print(&slurm::line(&report))?;
            if self.slurm_drain && report.verdict == Verdict::Failed {
                output::note(&slurm::drain(&report)?);
            }
            // A prolog that ends badly drains the node: what is only degraded goes on working.
            return Ok(if report.verdict == Verdict::Failed { 21 } else { 0 });
        }
        ctx.show(&report, |r| render(r, colour::on()))?;
        Ok(report.verdict.exit_code())
    }
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Healthy => Style::Good,
        Verdict::Degraded => Style::Warn,
        Verdict::Failed => Style::Bad,
    }
}

/// The report as text, for people.
fn render(r: &Report, colours: bool) -> String {
    let mut out = String::new();
    if !r.gpus.is_empty() {
        let mut t = Table::new(&["GPU", "STATE", "SKU", "TEMP", "POWER", "UTIL", "MEMORY", "PCI"]);
        for g in &r.gpus {
            let figure = |v: Option<f64>, unit: &str| -> Cell {
                number(v.map_or_else(|| "-".into(), |v| format!("{v:.0}{unit}")))
            };
            let memory = match (g.memory_used, g.memory_total) {
                (Some(used), Some(all)) => format!("{:.0}/{:.0}GiB", used / 1024.0, all / 1024.0),
                _ => "-".into(),
            };
            t.row(vec![
                number(g.index),
                cell(g.verdict.word()).style(style(g.verdict)),
                cell(g.sku.as_deref().unwrap_or("-")),
                figure(g.temp, "C"),
                figure(g.power, "W"),
                figure(g.util, "%"),
                number(memory),
                cell(g.pci.as_deref().unwrap_or("-")),
            ]);
        }
        out += &t.render();
        out.push('\n');
    }
    for f in &r.findings {
        finding(&mut out, f, colours);
    }
    if !r.findings.is_empty() {
        out.push('\n');
    }
    let _ =
        writeln!(out, "{}: {}", r.hostname, colour::paint(&r.summary, style(r.verdict), colours));
    out
}

fn finding(out: &mut String, f: &Finding, colours: bool) {
    let word = if f.verdict == Verdict::Healthy { "remark" } else { f.verdict.word() };
    let how = if f.verdict == Verdict::Healthy { Style::Faint } else { style(f.verdict) };
    // Padded before it is painted: colours have no width.
    let word = colour::paint(&format!("{word:<8}"), how, colours);
    let _ = writeln!(
        out,
        "{word}  {} [{}]\n          do: {}",
        plain(&named(f)),
        f.code,
        plain(&f.todo)
    );
}

/// Lines of a log may hold anything.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_monitor::check::GpuReport;

    fn report() -> Report {
        Report {
            hostname: "n1".into(),
            verdict: Verdict::Failed,
            summary: "failed: GPU 3: it is gone from the bus".into(),
            gpus: vec![GpuReport { index: 3, verdict: Verdict::Failed, ..GpuReport::default() }],
            findings: vec![Finding {
                verdict: Verdict::Failed,
                code: "gpu-lost".into(),
                gpu: Some(3),
                what: "it is \x1b[31mgone".into(),
                todo: "restart the node".into(),
            }],
            ..Report::default()
        }
    }

    #[test]
    fn a_report_says_what_is_wrong_and_what_to_do() {
        let text = render(&report(), false);
        assert!(text.contains("failed    GPU 3: it is  [31mgone [gpu-lost]\n"), "{text}");
        assert!(text.contains("do: restart the node"), "{text}");
        assert!(text.ends_with("n1: failed: GPU 3: it is gone from the bus\n"), "{text}");
    }
}
