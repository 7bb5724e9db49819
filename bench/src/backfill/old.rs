//! Reader for the Standard Workload Format (18 columns, times in seconds).

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

fn field(line: &[&str], at: usize) -> Option<u64> {
    line.get(at).and_then(|v| v.parse().ok())
}

/// Reads jobs in submit order, with times relative to the first submit. As in the published runs, a job that ran past
/// its limit is cut at it, and an unknown or empty run time is one second.
#[must_use]
pub(crate) fn read(text: &str, rules: Rules) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, line) in text.lines().filter(|l| !l.starts_with(';')).enumerate() {
        let f: Vec<&str> = line.split_whitespace().collect();
        let Some(submit) = field(&f, 1) else { continue };
        let asked = field(&f, 7).filter(|&w| w > 0);
        let used = field(&f, 4).filter(|&w| w > 0);
        let width = if rules.widest { asked.max(used) } else { asked.or(used) };
        let width = u32::try_from(width.unwrap_or(1))
            .unwrap_or(u32::MAX)
            .min(rules.machine)
            .div_ceil(rules.node.max(1));
        let run = field(&f, 3).unwrap_or(1).max(1);
        let limit = field(&f, 8).filter(|&l| l > 0).unwrap_or_else(|| {
            let hash = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            run * (1 + hash % rules.factor.max(1))
        });
        jobs.push(Job {
            submit: submit * 1000,
            run: run.min(limit) * 1000,
            width,
            limit: limit * 1000,
            user: field(&f, 11),
        });
    }
    rebase(&mut jobs);
    jobs
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
