//! What would have been enough: from what was used, with the figure that it rests on. Silent where
//! too little is known.

use crate::usage::GpuUsage;
use muster_model::units::Span;

/// Rows of a GPU before anything is said: two minutes at the usual pace.
const ROWS: u64 = 12;
/// And so much time between the first and the last.
const WATCHED: Span = Span::secs(60);
/// Nothing ran for more than this, in thousandths: a CPU would do.
const NOTHING: u32 = 10;
/// What was needed at most, and so much more, must fit: in percent.
const ROOM: u64 = 125;
/// Parts of a GPU that are proposed, in thousandths, the smallest first.
const PARTS: [u64; 3] = [125, 250, 500];
/// Below this mean, the GPUs wait for something most of the time, in thousandths.
const LOW: u32 = 400;

/// What an attempt was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenResources {
    /// Whole GPUs.
    pub gpus: u32,
    /// It has parts of GPUs, which others use too: figures of the GPU are not its own.
    pub shared: bool,
    /// At most one GPU on a node: only such work can have a part of one.
    pub single: bool,
    /// Memory of its smallest GPU, in MiB, when known.
    pub memory: Option<u64>,
}

/// What kind of advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceKind {
    /// It needs no GPU.
    Cpu,
    /// It needs fewer GPUs.
    FewerGpus,
    /// A part of a GPU would do.
    Slice,
    /// Its GPUs mostly wait.
    Waits,
}

impl AdviceKind {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AdviceKind::Cpu => "cpu",
            AdviceKind::FewerGpus => "fewer_gpus",
            AdviceKind::Slice => "slice",
            AdviceKind::Waits => "waits",
        }
    }
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What the advice is about.
    pub kind: AdviceKind,
    /// What to do.
    pub text: String,
    /// What it rests on.
    pub because: String,
}

/// A share for people.
fn percent(thousandths: u32) -> String {
    match (thousandths / 10, thousandths % 10) {
        (whole, 0) => format!("{whole}%"),
        (whole, tenth) => format!("{whole}.{tenth}%"),
    }
}

fn gib(mib: u64) -> String {
    format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024)
}

/// What would have been enough.
#[must_use]
pub fn advice(asked: &GivenResources, used: &GpuUsage) -> Vec<Advice> {
    let each = used.rows / u64::from(used.gpus.max(1));
    let watched = used.last.since(used.first);
    let all_reported = used.gpus >= asked.gpus;
    let enough = each >= ROWS && watched >= WATCHED && all_reported;
    if asked.gpus == 0 || asked.shared || !enough {
        return Vec::new();
    }
    let (Some(mean), Some(peak)) = (used.util, used.util_peak) else { return Vec::new() };
    let looked = length(watched);
    if peak < NOTHING {
        let because =
            format!("nothing ever ran on them: utilisation {} at most, in {looked}", percent(peak));
        return vec![Advice { kind: AdviceKind::Cpu, text: "a CPU would do".into(), because }];
    }
    let mut out = Vec::new();
    if used.unused > 0 {
        let left = asked.gpus - used.unused.min(asked.gpus);
        let s = if left == 1 { "" } else { "s" };
        out.push(Advice {
            kind: AdviceKind::FewerGpus,
            text: format!("{left} GPU{s} would do instead of {}", asked.gpus),
            because: format!("nothing ever ran on {} of them, in {looked}", used.unused),
        });
    }
    if let Some(slice) = slice(asked, used, peak, &looked) {
        out.push(slice);
    } else if mean < LOW {
        out.push(Advice {
            kind: AdviceKind::Waits,
            text: "its GPUs mostly wait: find the slowest stage, or feed several runs into one GPU"
                .into(),
            because: format!("utilisation {} on average, in {looked}", percent(mean)),
        });
    }
    out
}

/// The smallest part of a GPU that its peaks fit into.
fn slice(asked: &GivenResources, used: &GpuUsage, util_peak: u32, looked: &str) -> Option<Advice> {
    if !asked.single || used.unused > 0 {
        return None;
    }
    let (memory, of) = (used.memory_peak?, asked.memory.filter(|m| *m > 0)?);
    // How much of the GPU's processors ran says more than whether anything did.
    let (busy, what) = match used.sm_peak {
        Some(sm) => (sm, "processors active"),
        None => (util_peak, "utilisation"),
    };
    let needs = u64::from(busy).max(memory.saturating_mul(1000) / of).saturating_mul(ROOM) / 100;
    let part = PARTS.into_iter().find(|p| needs <= *p)?;
    let digits = format!("{part:03}");
    Some(Advice {
        kind: AdviceKind::Slice,
        text: format!("0.{} of a GPU would do for each", digits.trim_end_matches('0')),
        because: format!(
            "{what} {} at most and {} of {} in use, in {looked}",
            percent(busy),
            gib(memory),
            gib(of)
        ),
    })
}

/// `45s`, `3m20s`, `2h05m`.
fn length(span: Span) -> String {
    let s = span.0 / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Time;

    fn used(util: u32, peak: u32) -> GpuUsage {
        GpuUsage {
            first: Time(0),
            last: Time(600_000),
            rows: 8 * 60,
            gpus: 8,
            unused: 0,
            util: Some(util),
            util_peak: Some(peak),
            sm: None,
            sm_peak: None,
            tensor: None,
            dram: None,
            memory_peak: Some(70_000),
            power_mw: None,
            energy_j: None,
        }
    }
    const NODE: GivenResources =
        GivenResources { gpus: 8, shared: false, single: false, memory: Some(81_920) };

    #[test]
    fn work_that_uses_what_it_has_hears_nothing() {
        assert_eq!(advice(&NODE, &used(900, 1000)), []);
    }

    #[test]
    fn a_cpu_would_do_for_what_never_runs_anything() {
        let got = advice(&NODE, &used(0, 3));
        assert_eq!((got.len(), got[0].kind), (1, AdviceKind::Cpu));
        assert_eq!(got[0].because, "nothing ever ran on them: utilisation 0.3% at most, in 10m00s");
    }

    #[test]
    fn gpus_that_were_never_used_are_counted() {
        let got = advice(&NODE, &GpuUsage { unused: 7, ..used(120, 1000) });
        assert_eq!(got[0].text, "1 GPU would do instead of 8");
        assert_eq!(got[0].because, "nothing ever ran on 7 of them, in 10m00s");
        assert_eq!(got[1].kind, AdviceKind::Waits);
    }

    #[test]
    fn a_part_of_a_gpu_is_proposed_when_its_peaks_fit() {
        let one = GivenResources { gpus: 1, single: true, ..NODE };
        let used = GpuUsage {
            gpus: 1,
            rows: 60,
            sm_peak: Some(150),
            memory_peak: Some(9_216),
            ..used(300, 800)
        };
        let got = advice(&one, &used);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].text, "0.25 of a GPU would do for each");
        assert_eq!(
            got[0].because,
            "processors active 15% at most and 9.0 GiB of 80.0 GiB in use, in 10m00s"
        );
        let full = GpuUsage { memory_peak: Some(70_000), ..used.clone() };
        assert_eq!(advice(&one, &full)[0].kind, AdviceKind::Waits, "its memory does not fit");
        assert_eq!(
            advice(&NODE, &GpuUsage { gpus: 8, rows: 480, ..used })[0].kind,
            AdviceKind::Waits
        );
    }

    #[test]
    fn nothing_is_said_when_too_little_is_known() {
        let idle = used(0, 0);
        for (asked, used) in [
            (NODE, GpuUsage { rows: 8 * 11, ..idle.clone() }),
            (NODE, GpuUsage { last: Time(59_000), ..idle.clone() }),
            (NODE, GpuUsage { gpus: 7, ..idle.clone() }),
            (NODE, GpuUsage { util: None, util_peak: None, ..idle.clone() }),
            (GivenResources { shared: true, ..NODE }, idle.clone()),
            (GivenResources { gpus: 0, ..NODE }, idle),
        ] {
            assert_eq!(advice(&asked, &used), [], "{asked:?} {used:?}");
        }
    }
}
