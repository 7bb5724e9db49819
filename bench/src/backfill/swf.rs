//! Jobs of a log in the Standard Workload Format, as the published runs take them.

use muster_sim::traces::{self, Ask, OnBadRow, TraceError, TraceJob};

/// One rigid job; times in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) submit: u64,
    /// Known to the simulator only, never to a policy.
    pub(crate) run: u64,
    pub(crate) width: u32,
    pub(crate) limit: u64,
    /// `None` where the log names no user.
    pub(crate) user: Option<u64>,
}

/// How a log's fields are read.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Processors of the machine.
    pub(crate) machine: u32,
    /// Processors of a node; a job takes whole nodes.
    pub(crate) node: u32,
    /// Width is the larger of asked and allocated processors, not the asked one.
    pub(crate) widest: bool,
    /// For a log without estimates: the limit is the run time times 1..=factor, by a hash of the job's number.
    pub(crate) factor: u64,
}

/// Reads jobs in submit order, with times relative to the first submit. As in the published runs, a job that ran past
/// its limit is cut at it, and an unknown or empty run time is one second.
///
/// # Errors
/// When a row cannot be read.
pub(crate) fn read(file: &str, bytes: &[u8], rules: Rules) -> Result<Vec<Job>, TraceError> {
    let read = traces::swf::jobs(file, bytes, OnBadRow::Stop)?;
    let mut jobs: Vec<Job> = read.items.iter().map(|j| job(j, rules)).collect();
    rebase(&mut jobs);
    Ok(jobs)
}

fn job(j: &TraceJob, rules: Rules) -> Job {
    let (asked, used) = match j.ask {
        Ask::Procs { asked, used } => (asked, used),
        _ => (None, None),
    };
    let width = if rules.widest { asked.max(used) } else { asked.or(used) };
    let width = width.unwrap_or(1).min(rules.machine).div_ceil(rules.node.max(1));
    let run = j.run.map_or(1000, |r| r.0).max(1000);
    let limit = j.limit.map_or_else(
        || {
            let hash = (u64::from(j.row) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            run * (1 + hash % rules.factor.max(1))
        },
        |l| l.0,
    );
    Job {
        submit: j.submit.0,
        run: run.min(limit),
        width,
        limit,
        user: j.owner.as_deref().and_then(|u| u.parse().ok()),
    }
}

/// Orders by submit and makes the first submit zero.
pub(crate) fn rebase(jobs: &mut [Job]) {
    jobs.sort_by_key(|j| j.submit);
    let first = jobs.first().map_or(0, |j| j.submit);
    for j in jobs {
        j.submit -= first;
    }
}

/// The same log with every submit moved later by up to two minutes, to see how much of a figure is luck.
#[must_use]
pub(crate) fn jittered(jobs: &[Job], seed: u64) -> Vec<Job> {
    let mut out = jobs.to_vec();
    if seed > 0 {
        for (i, j) in out.iter_mut().enumerate() {
            let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                ^ seed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            j.submit += (mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) % 120 * 1000;
        }
        out.sort_by_key(|j| j.submit);
    }
    out
}
