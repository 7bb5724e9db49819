//! The rules, each in one place with its reason.

/// Crates that hold the decisions. The same log must give the same state on every machine, and
/// the simulator lives weeks in seconds in them: so no runtime, clock, file system, network,
/// environment or randomness. What they bring in by dependencies is checked here, what they use
/// of the standard library by Clippy, with `.config/clippy-pure.toml`.
pub(super) const PURE: &[&str] = &[
    "muster-model",
    "muster-records",
    "muster-specs",
    "muster-scheduler",
    "muster-lifecycle",
    "muster-health",
    "muster-metering",
    "muster-slo",
    "muster-runbook",
    "muster-export",
    "muster-engine",
    "muster-simnode",
    "muster-sim",
];

/// The house from top to bottom. A package may depend on packages of lower layers only.
pub(super) const LAYERS: &[&[&str]] = &[
    &["muster-cli"],
    &["muster-up", "muster-top", "muster-gameday", "muster-simcli"],
    &["muster-terminal", "muster-serve", "muster-machine"],
    &["muster-http"],
    &["muster-server", "muster-agent", "muster-monitor", "muster-sim", "muster-brand"],
    &[
        "muster-executors",
        "muster-store",
        "muster-link",
        "muster-client",
        "muster-api",
        "muster-gpu",
        "muster-export",
        "muster-console",
        "muster-history",
        "muster-outsearch",
    ],
    &["muster-engine"],
    &[
        "muster-scheduler",
        "muster-lifecycle",
        "muster-health",
        "muster-metering",
        "muster-slo",
        "muster-runbook",
        "muster-simnode",
        "muster-specs",
        "muster-records",
    ],
    &["muster-model", "muster-supervise"],
    &["muster-edge-features"],
    &["muster-features"],
];

/// Arrows inside one layer that are meant: from, to, why.
pub(super) const SIDEWAYS: &[(&str, &str, &str)] = &[
    ("muster-client", "muster-api", "the client speaks the API's own types"),
    ("muster-executors", "muster-link", "the native executor puts desired state into messages"),
    (
        "muster-lifecycle",
        "muster-health",
        "which remediation follows stands in the map of failure modes",
    ),
];

/// Tools outside the product: they may use all of it, nothing in it may use them.
pub(super) const TOOLS: &[&str] = &[
    "xtask",
    "muster-bench",
    "muster-faultgen",
    "muster-guard",
    "muster-testkit",
    "muster-test-features",
    "muster-engine-tests",
    "muster-scheduler-tests",
];

/// Crates that a pure crate must not reach, with what they bring in. A name that ends in `*`
/// stands for all that begin so.
pub(super) const DENIED: &[(&str, &str)] = &[
    ("tokio*", "a runtime"),
    ("async-std", "a runtime"),
    ("async-io", "a runtime"),
    ("async-executor", "a runtime"),
    ("smol", "a runtime"),
    ("futures-executor", "a runtime"),
    ("rayon*", "threads: order that differs from run to run"),
    ("crossbeam-channel", "threads"),
    ("mio", "the network"),
    ("polling", "the network"),
    ("socket2", "the network"),
    ("hyper*", "the network"),
    ("h2", "the network"),
    ("reqwest", "the network"),
    ("ureq", "the network"),
    ("axum*", "the network"),
    ("tonic*", "the network"),
    ("tower-http", "the network"),
    ("rustls", "the network"),
    ("native-tls", "the network"),
    ("openssl*", "the network and randomness"),
    ("rusqlite", "a database"),
    ("libsqlite3-sys", "a database"),
    ("postgres", "a database"),
    ("sqlx*", "a database"),
    ("tempfile", "the file system"),
    ("walkdir", "the file system"),
    ("ignore", "the file system"),
    ("glob", "the file system"),
    ("notify", "the file system"),
    ("memmap2", "the file system"),
    ("dirs*", "the file system"),
    ("rustix", "the operating system"),
    ("nix", "the operating system"),
    ("libc", "the operating system"),
    ("windows-sys", "the operating system"),
    ("signal-hook*", "the operating system"),
    ("ctrlc", "the operating system"),
    ("hostname", "the operating system"),
    ("sysinfo", "the operating system"),
    ("chrono", "a clock"),
    ("jiff", "a clock"),
    ("time", "a clock"),
    ("quanta", "a clock"),
    ("coarsetime", "a clock"),
    ("iana-time-zone", "a clock"),
    ("rand", "global randomness"),
    ("getrandom", "global randomness"),
    ("fastrand", "global randomness"),
    ("oorandom", "randomness; use a seed from the log and integer arithmetic"),
    ("ahash", "hashing that differs from run to run"),
    ("uuid", "global randomness"),
    ("ulid", "global randomness"),
    ("ring", "global randomness"),
    ("aws-lc-*", "global randomness"),
    ("tracing-subscriber", "output"),
    ("env_logger", "output and the environment"),
];

/// Dependencies that the list above forbids and that cannot be avoided: from, to, why it is
/// harmless there.
pub(super) const ALLOWED: &[(&str, &str, &str)] = &[(
    "cpufeatures",
    "libc",
    "blake3 asks the processor which instructions it has; the hash is the same either way",
)];

/// What a denied crate brings in, if `name` is one.
pub(super) fn denied(name: &str) -> Option<&'static str> {
    DENIED
        .iter()
        .find(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *pattern == name,
        })
        .map(|(_, brings)| *brings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_every_ending() {
        assert!(denied("tokio").is_some());
        assert!(denied("tokio-util").is_some());
        assert!(denied("aws-lc-rs").is_some());
        assert!(denied("serde").is_none());
        assert!(denied("rand_core").is_none());
        assert!(denied("time-core").is_none());
    }

    #[test]
    fn every_pure_crate_has_its_layer_and_none_is_in_two() {
        let all: Vec<&str> = LAYERS.iter().flat_map(|l| l.iter().copied()).collect();
        for pure in PURE {
            assert!(all.contains(pure), "{pure}");
        }
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
    }
}
