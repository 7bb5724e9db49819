//! The options of `sbatch`: those with a meaning here, and those that are known and have none.

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Takes {
    No,
    Value,
    /// Only as `--option=VALUE`.
    Maybe,
}
use Takes::{Maybe, No, Value};

/// Options with a meaning here: short, long, value.
const OPTIONS: [(&str, &str, Takes); 40] = [
    ("J", "job-name", Value),
    ("N", "nodes", Value),
    ("n", "ntasks", Value),
    ("", "ntasks-per-node", Value),
    ("", "tasks-per-node", Value),
    ("", "ntasks-per-gpu", Value),
    ("", "gpus-per-node", Value),
    ("", "gpus-per-task", Value),
    ("", "gres", Value),
    ("G", "gpus", Value),
    ("c", "cpus-per-task", Value),
    ("", "cpus-per-gpu", Value),
    ("", "mem", Value),
    ("", "mem-per-cpu", Value),
    ("", "mem-per-gpu", Value),
    ("t", "time", Value),
    ("p", "partition", Value),
    ("q", "qos", Value),
    ("A", "account", Value),
    ("a", "array", Value),
    ("d", "dependency", Value),
    ("D", "chdir", Value),
    ("", "workdir", Value),
    ("", "export", Value),
    ("", "requeue", No),
    ("", "no-requeue", No),
    ("", "signal", Value),
    ("", "exclusive", Maybe),
    ("C", "constraint", Value),
    ("o", "output", Value),
    ("e", "error", Value),
    ("", "comment", Value),
    ("", "mail-type", Value),
    ("", "mail-user", Value),
    ("", "switches", Value),
    ("H", "hold", No),
    ("", "container-image", Value),
    ("", "begin", Value),
    ("b", "begin", Value),
    ("", "wrap", Value),
];

/// Options that are known and have no effect: short, long, value, why.
const IGNORED: [(&str, &str, Takes, &str); 54] = [
    ("", "parsable", No, ""),
    ("Q", "quiet", No, ""),
    ("v", "verbose", No, ""),
    ("W", "wait", No, "use `muster wait JOB`"),
    ("", "test-only", No, "use `muster submit --dry-run`"),
    ("i", "input", Value, "the ranks read from /dev/null"),
    ("", "open-mode", Value, "output is stored for each attempt; use `muster logs`"),
    ("w", "nodelist", Value, "nodes are chosen by the scheduler; use `--topology` of #MUSTER"),
    ("x", "exclude", Value, "nodes are chosen by the scheduler; an operator can cordon a node"),
    ("", "reservation", Value, "jobs of a project use its reservations by themselves"),
    ("L", "licenses", Value, "licences are not counted"),
    ("M", "clusters", Value, "choose the site with --server"),
    ("", "nice", Maybe, "use --priority of #MUSTER"),
    ("", "priority", Value, "use --priority of #MUSTER"),
    ("", "deadline", Value, "deadlines are not supported yet"),
    ("", "wckey", Value, ""),
    ("O", "overcommit", No, "GPUs and processors are never shared between jobs"),
    ("s", "oversubscribe", No, "a GPU is shared with `--gpu-milli` of #MUSTER only"),
    ("k", "no-kill", Maybe, "a gang that loses a node starts again from its checkpoint"),
    ("", "kill-on-invalid-dep", Value, "a job whose dependency cannot be met is cancelled"),
    ("", "spread-job", No, "use `--spread leaf` of #MUSTER"),
    ("", "contiguous", No, "use `--topology leaf` of #MUSTER"),
    ("", "use-min-nodes", No, ""),
    ("m", "distribution", Value, "ranks are numbered node by node"),
    ("", "cpu-bind", Value, ""),
    ("", "gpu-bind", Value, "each rank sees the GPUs of its node; use LOCAL_RANK"),
    ("", "mem-bind", Value, ""),
    ("", "hint", Value, ""),
    ("", "threads-per-core", Value, ""),
    ("", "ntasks-per-core", Value, ""),
    ("", "ntasks-per-socket", Value, ""),
    ("", "sockets-per-node", Value, ""),
    ("", "cores-per-socket", Value, ""),
    ("B", "extra-node-info", Value, ""),
    ("S", "core-spec", Value, ""),
    ("", "thread-spec", Value, ""),
    ("", "cpu-freq", Value, ""),
    ("", "gpu-freq", Value, ""),
    ("", "tmp", Value, "local disks are not scheduled"),
    ("", "get-user-env", Maybe, "the submitting shell's environment is not passed on"),
    ("", "propagate", Maybe, ""),
    ("", "profile", Value, ""),
    ("", "acctg-freq", Value, ""),
    ("", "network", Value, ""),
    ("", "x11", Maybe, ""),
    ("", "reboot", No, ""),
    ("", "ignore-pbs", No, ""),
    ("F", "nodefile", Value, ""),
    ("", "wait-all-nodes", Value, "ranks start when all their nodes are ready"),
    ("", "time-min", Value, "a job has the whole of its `--time`"),
    ("", "delay-boot", Value, ""),
    ("", "gres-flags", Value, ""),
    ("", "prefer", Value, "choose GPUs with --sku of #MUSTER"),
    ("", "tres-bind", Value, "each rank sees the GPUs of its node; use LOCAL_RANK"),
];

/// `N2`, `N` or `J` with its value glued on.
pub(super) fn short_option(short: &str) -> Option<(String, Option<String>)> {
    let letter = short.chars().next()?;
    let rest = &short[letter.len_utf8()..];
    let letter = letter.to_string();
    let options = OPTIONS.iter().map(|o| (o.0, o.1));
    let ignored = IGNORED.iter().map(|o| (o.0, o.1));
    let long = options.chain(ignored).find(|(s, _)| *s == letter)?.1;
    Some((long.to_owned(), Some(rest.to_owned()).filter(|r| !r.is_empty())))
}

/// Name, value, and for ignored options why.
pub(super) fn known(long: &str) -> Option<(&'static str, Takes, Option<&'static str>)> {
    if let Some((_, name, takes)) = OPTIONS.iter().find(|o| o.1 == long) {
        return Some((name, *takes, None));
    }
    IGNORED.iter().find(|o| o.1 == long).map(|(_, name, takes, why)| (*name, *takes, Some(*why)))
}

/// Every option that is known, for suggestions.
pub(super) fn all_names() -> Vec<&'static str> {
    OPTIONS.iter().map(|o| o.1).chain(IGNORED.iter().map(|o| o.1)).collect()
}
