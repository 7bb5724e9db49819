//! `muster agent qualify`: this machine's GPUs put to work and measured, without any server.

use clap::{Args, ValueEnum};
use muster_gpu::simulated::{SimSku, SimSkuError};
use muster_health::qualify::evaluate_against;
use muster_machine::{Simulated, Spawned, TestOrder, WantOrder};
use muster_model::qualification::{Level, Outcome, PastQualification, Qualification};
use muster_terminal::config;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::{self, Style};
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::{self, time};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How thoroughly
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    /// Under a minute: inventory, bus, memory bandwidth, matrix rates, a sample of the memory
    Quick,
    /// About six minutes: and all memory, full power, the same result every time, links, disk
    Standard,
    /// Hours of it, in rounds
    Full,
}

impl LevelArg {
    pub(crate) fn level(self) -> Level {
        match self {
            LevelArg::Quick => Level::Quick,
            LevelArg::Standard => Level::Standard,
            LevelArg::Full => Level::Full,
        }
    }
}

/// Put this machine's GPUs to work and measure them; needs no server
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster agent qualify\n  muster agent qualify --level standard --want h200-sxm:8\n  \
muster agent qualify --level full --hours 12\n  muster agent qualify --simulated h100-sxm:8 --slow 3:20\n\n\
Nothing else should use the GPUs meanwhile. Exit code: 0 passed, 20 degraded, 21 failed."
)]
pub(crate) struct Qualify {
    /// How thoroughly
    #[arg(long, value_enum, default_value = "quick")]
    level: LevelArg,
    /// Only these GPUs
    #[arg(long = "gpu", value_name = "INDEX")]
    gpus: Vec<u32>,
    /// What the machine must have, such as `h200-sxm:8` or `8`
    #[arg(long, value_name = "SKU:N", value_parser = want)]
    want: Option<WantOrder>,
    /// Your own targets; they override the built-in ones
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// How long a full one runs
    #[arg(long, default_value_t = 4.0, value_name = "HOURS", value_parser = hours)]
    hours: f64,
    /// Where the disk is tried
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Do not compare with earlier results, nor save this one
    #[arg(long)]
    no_history: bool,
    /// Simulated GPUs instead of this machine's
    #[arg(long, value_name = "SKU:N", value_parser = simulated)]
    simulated: Option<(String, u32)>,
    /// A simulated GPU that is so many percent too slow
    #[arg(long, value_name = "GPU:PERCENT", value_parser = slow, requires = "simulated")]
    slow: Vec<(u32, u8)>,
    /// A simulated GPU that computes wrongly
    #[arg(long, value_name = "GPU", requires = "simulated")]
    wrong: Vec<u32>,
    /// How many times faster than the clock simulated tests go
    #[arg(long, default_value_t = 1.0, value_name = "X", requires = "simulated", value_parser = speed)]
    speed: f64,
}

pub(super) fn want(text: &str) -> Result<WantOrder, String> {
    if let Ok(n) = text.parse() {
        return Ok(WantOrder { gpus: Some(n), sku: None });
    }
    let (sku, n) = simulated(text)?;
    Ok(WantOrder { gpus: Some(n), sku: Some(sku) })
}

pub(super) fn simulated(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("`{text}` is not a kind and a number, such as `h200-sxm:8`");
    let (sku, n) = text.split_once(':').ok_or_else(wrong)?;
    let sku: SimSku = sku.parse().map_err(|e: SimSkuError| e.to_string())?;
    let n: u32 = n.parse().map_err(|_| wrong())?;
    if !(1..=64).contains(&n) {
        return Err("between 1 and 64 GPUs".into());
    }
    Ok((sku.name().to_owned(), n))
}

fn slow(text: &str) -> Result<(u32, u8), String> {
    let wrong = || format!("`{text}` is not a GPU and a percentage, such as `3:20`");
    let (gpu, percent) = text.split_once(':').ok_or_else(wrong)?;
    let percent: u8 = percent.parse().map_err(|_| wrong())?;
    if percent > 99 {
        return Err("the percentage lies between 0 and 99".into());
    }
    Ok((gpu.parse().map_err(|_| wrong())?, percent))
}

fn hours(text: &str) -> Result<f64, String> {
    let h: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of hours"))?;
    if (0.1..=1000.0).contains(&h) { Ok(h) } else { Err("between 0.1 and 1000 hours".into()) }
}

fn speed(text: &str) -> Result<f64, String> {
    let x: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.01..=1e6).contains(&x) { Ok(x) } else { Err("between 0.01 and 1000000".into()) }
}

impl Qualify {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let level = self.level.level();
        let real = self.simulated.is_none();
        let order = self.order()?;
        let test = Spawned::here(order)
            .map_err(|e| Fail::failed(format!("cannot find this program: {e}")))?;
        let bar = progress_bar(ctx);
        let mut on_progress = |done: u64, of: u64, doing: &str| {
            if let Some(bar) = &bar {
                bar.set_length(of);
                bar.set_position(done);
                bar.set_message(doing.to_owned());
            }
        };
        let done = test.test(level, &mut on_progress, &AtomicBool::new(false));
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        let mut report = done.map_err(|e| {
            Fail::failed(e.to_string()).hint("`muster agent check` says what state the GPUs are in")
        })?;
        if real && !self.no_history {
            compare(&mut report)?;
        }
        ctx.show(&report, render)?;
        Ok(match report.outcome {
            Outcome::Passed | Outcome::Skipped => 0,
            Outcome::Degraded => 20,
            Outcome::Failed => 21,
        })
    }

    fn order(&self) -> Result<TestOrder, Fail> {
        let mut order = TestOrder::of(self.level.level());
        order.gpus = (!self.gpus.is_empty()).then(|| self.gpus.clone());
        order.want = self.want.clone().unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounded above"
        )]
        {
            order.length_s = (self.hours * 3600.0) as u64;
        }
        order.expect = self.expect.as_deref().map(bars).transpose()?;
        if let Some(dir) = &self.disk {
            order.dir.clone_from(dir);
        }
        order.simulated = self.simulated.clone().map(|(sku, gpus)| Simulated {
            sku,
            gpus,
            slow: self.slow.clone(),
            wrong: self.wrong.clone(),
            speed: self.speed,
        });
        Ok(order)
    }
}

/// A file of targets, once it is known to be one.
pub(super) fn bars(file: &Path) -> Result<String, Fail> {
    let text = output::read_text(file)?;
    muster_gpu::qualify::Expectations::parse(&text)
        .map_err(|e| Fail::usage(format!("{}: {e}", file.display())))?;
    Ok(text)
}

fn progress_bar(ctx: &Ctx) -> Option<indicatif::ProgressBar> {
    if !ctx.is_table() || !output::is_terminal_err() {
        return None;
    }
    let style = "{bar:24} {percent:>3}%  {msg}  about {eta} left";
    let bar = indicatif::ProgressBar::new(1);
    if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    Some(bar)
}

/// Past results that are kept.
const KEPT: usize = 16;

/// Compares with what this machine did before, and keeps this for the next time.
fn compare(report: &mut Qualification) -> Result<(), Fail> {
    let dir = config::data_dir(None)?.join("agent");
    let path = dir.join("qualifications.json");
    let mut past = read_past(&path);
    for j in evaluate_against(report, &past, &[]) {
        let check = &mut report.checks[j.check];
        check.outcome = check.outcome.max(j.outcome);
        check.note =
            [check.note.as_str(), &j.note].join(if check.note.is_empty() { "" } else { "; " });
    }
    report.outcome = report.worst();
    past.push(Arc::new(PastQualification {
        at: muster_terminal::ctx::now(),
        level: report.level,
        outcome: report.outcome,
        figures: report.figures(),
    }));
    past.drain(..past.len().saturating_sub(KEPT));
    let plain: Vec<&PastQualification> = past.iter().map(AsRef::as_ref).collect();
    let text = serde_json::to_vec(&plain).unwrap_or_default();
    let kept = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, text));
    if let Err(e) = kept {
        output::note(&format!("note: not saved for the next time: {}: {e}", path.display()));
    }
    Ok(())
}

fn read_past(path: &Path) -> Vec<Arc<PastQualification>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(_) => return Vec::new(),
    };
    match serde_json::from_slice::<Vec<PastQualification>>(&text) {
        Ok(past) => past.into_iter().map(Arc::new).collect(),
        Err(e) => {
            output::note(&format!("note: {} is not readable and begun anew: {e}", path.display()));
            Vec::new()
        }
    }
}

/// The report as a table with its verdict.
pub(crate) fn render(q: &Qualification) -> String {
    let many = q.checks.iter().filter_map(|c| c.gpu).max().is_some_and(|g| g > 0);
    let mut head = vec!["CHECK", "RESULT", "MEASURED", "EXPECTED", "LIMIT", "NOTE"];
    if many {
        head.insert(1, "GPU");
    }
    let mut table = Table::new(&head);
    for c in &q.checks {
        let unit = |v: Option<_>| v.map_or_else(String::new, |v| format!("{v} {}", c.unit));
        let bare = |v: Option<muster_model::qualification::Milli>| {
            v.map_or_else(String::new, |v| v.to_string())
        };
        let mut row = vec![
            cell(&c.name),
            state(c.outcome.word()),
            number(unit(c.value)),
            number(bare(c.expected)),
            number(bare(c.floor)),
            cell(&c.note),
        ];
        if many {
            row.insert(1, number(c.gpu.map_or_else(String::new, |g| g.to_string())));
        }
        table.row(row);
    }
    let count = |o: Outcome| q.checks.iter().filter(|c| c.outcome == o).count();
    let style = match q.outcome {
        Outcome::Passed | Outcome::Skipped => Style::Good,
        Outcome::Degraded => Style::Warn,
        Outcome::Failed => Style::Bad,
    };
    let mut end = format!(
        "{}: {} passed, {} degraded, {} failed, {} skipped in {}",
        colour::paint(q.outcome.word(), style, colour::on()),
        count(Outcome::Passed),
        count(Outcome::Degraded),
        count(Outcome::Failed),
        count(Outcome::Skipped),
        time::length(q.took),
    );
    if let Some(why) = q.first_failure() {
        end += &format!("\nfirst failure: {why}");
    }
    format!("{}\n{end}\n", table.render())
}
