//! What is changed in a site before it is lived on.

use crate::SimError;
use muster_model::policy::SitePolicy;
use muster_model::units::Span;
use muster_simnode::Sku;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// More nodes, or fewer.
    Nodes {
        /// How many more; negative for fewer.
        by: i64,
        /// Of which kind; like the others when absent.
        sku: Option<Sku>,
    },
    /// So many nodes are held as spares.
    Spares(u32),
    /// The policy of this file, which the caller reads.
    PolicyFile(String),
    /// Another policy in place of the site's.
    Policy(Box<SitePolicy>),
    /// One field of the policy, by its path.
    PolicyField {
        /// Such as `backfill.mode`.
        path: String,
        /// The new value, as a policy file has it.
        value: String,
    },
    /// Every job that saves its work does so this often.
    Checkpoint(Span),
    /// Nodes fail so many times as often.
    FailureRate(f64),
    /// All GPUs are of this kind.
    Sku(Sku),
}

/// Every change there is, with an example of each.
pub const CHANGES: &str = "there are: nodes=+64, nodes=-8, nodes=+64:h200-sxm, spares=4, \
     policy=FILE (not with --from server), policy.backfill.mode=aggressive, checkpoint=10m, \
     failure_rate=x2, failure_rate=0.5, sku=h200-sxm";

/// More nodes than any site has.
const MOST_NODES: i64 = 100_000;

impl FromStr for Change {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Change, SimError> {
        let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
        let bad = |why: &str| SimError::new(format!("`{shown}`: {why}; {CHANGES}"));
        let (key, value) =
            text.split_once('=').ok_or_else(|| bad("a change is written KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        let sku = |s: &str| s.parse::<Sku>().map_err(|e| bad(&e.to_string()));
        if value.is_empty() {
            return Err(bad("nothing follows the `=`"));
        }
        match key {
            "nodes" => {
                let (count, kind) = match value.split_once(':') {
                    Some((n, kind)) => (n, Some(sku(kind)?)),
                    None => (value, None),
                };
                let signed = count.starts_with(['+', '-']);
                let by = count.parse::<i64>().ok().filter(|n| *n != 0 && n.abs() <= MOST_NODES);
                match by.filter(|_| signed) {
                    Some(by) if by < 0 && kind.is_some() => {
                        Err(bad("nodes that go need no kind of GPU"))
                    }
                    Some(by) => Ok(Change::Nodes { by, sku: kind }),
                    None => Err(bad("give how many more or fewer, with a sign")),
                }
            }
            "spares" => value
                .parse()
                .map(Change::Spares)
                .map_err(|_| bad("give how many nodes are spares in all")),
            "policy" => Ok(Change::PolicyFile(value.into())),
            "checkpoint" => value
                .parse()
                .ok()
                .filter(|s: &Span| s.0 > 0)
                .map(Change::Checkpoint)
                .ok_or_else(|| bad("give how often, like 10m")),
            "failure_rate" => value
                .strip_prefix(['x', 'X', '*'])
                .unwrap_or(value)
                .parse::<f64>()
                .ok()
                .filter(|f| (0.0..=1000.0).contains(f))
                .map(Change::FailureRate)
                .ok_or_else(|| bad("give how many times as often, from 0 to 1000")),
            "sku" => sku(value).map(Change::Sku),
            _ => match key.strip_prefix("policy.").filter(|p| !p.is_empty()) {
                Some(path) => Ok(Change::PolicyField { path: path.into(), value: value.into() }),
                None => Err(bad("there is no such change")),
            },
        }
    }
}

impl fmt::Display for Change {
    /// As the subject of a sentence with "would".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Nodes { by, sku } => {
                let n = by.unsigned_abs();
                let how = if *by > 0 { "more" } else { "fewer" };
                write!(f, "{n} {how} node{}", if n == 1 { "" } else { "s" })?;
                sku.map_or(Ok(()), |s| write!(f, " with {s}"))
            }
            Change::Spares(n) => write!(f, "{n} spare{}", if *n == 1 { "" } else { "s" }),
            Change::PolicyFile(file) => write!(f, "the policy of {file}"),
            Change::Policy(_) => f.write_str("the other policy"),
            Change::PolicyField { path, value } => write!(f, "policy.{path}={value}"),
            Change::Checkpoint(every) => write!(f, "checkpoints every {every}"),
            Change::FailureRate(x) => write!(f, "{x} times the failures"),
            Change::Sku(s) => write!(f, "{s} in every node"),
        }
    }
}

/// A policy with one field changed.
pub(crate) fn set_field(p: &SitePolicy, path: &str, value: &str) -> Result<SitePolicy, SimError> {
    let bad = |why: &str| SimError::new(format!("policy.{path}={value}: {why}"));
    // TOML, because the policy of a scenario is read from that: reading it from another tree would
    // be a second copy of that code.
    let whole = toml::Value::try_from(p).map_err(|e| bad(&e.to_string()))?;
    // Without a value the field is as if nobody had set it.
    let with = |v: Option<toml::Value>| {
        let mut whole = whole.clone();
        let mut at = &mut whole;
        let mut steps = path.split('.').peekable();
        while let Some(step) = steps.next() {
            let map = at.as_table_mut().ok_or_else(|| bad("it has no fields of its own"))?;
            if steps.peek().is_none() {
                match v {
                    Some(v) => map.insert(step.into(), v),
                    None => map.remove(step),
                };
                break;
            }
            let known: Vec<String> = map.keys().cloned().collect();
            at = map
                .get_mut(step)
                .ok_or_else(|| bad(&format!("no `{step}`; there are {}", known.join(", "))))?;
        }
        SitePolicy::deserialize(whole).map_err(|e| bad(e.message()))
    };
    // A number or a truth value where it reads as one, a word otherwise.
    let word = || with(Some(toml::Value::String(value.into())));
    let changed = match serde_json::from_str::<serde_json::Value>(value) {
        Ok(serde_json::Value::Null) => with(None),
        Ok(v) => match toml::Value::try_from(v) {
            Ok(v) => with(Some(v)).or_else(|first| word().map_err(|_| first)),
            Err(_) => word(),
        },
        Err(_) => word(),
    }?;
    changed.check().map_err(|e| bad(&e.to_string()))?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::policy::BackfillMode;

    #[test]
    fn changes_are_read() {
        let read = |t: &str| t.parse::<Change>().map_err(|e| e.to_string());
        assert_eq!(read("nodes=+64"), Ok(Change::Nodes { by: 64, sku: None }));
        assert_eq!(read("nodes=-8"), Ok(Change::Nodes { by: -8, sku: None }));
        let with = Change::Nodes { by: 64, sku: Some(Sku::H200Sxm) };
        assert_eq!(read("nodes=+64:h200-sxm"), Ok(with));
        assert_eq!(read("spares=4"), Ok(Change::Spares(4)));
        assert_eq!(read("policy=p.yaml"), Ok(Change::PolicyFile("p.yaml".into())));
        assert_eq!(read("checkpoint=10m"), Ok(Change::Checkpoint(Span::mins(10))));
        assert_eq!(read("failure_rate=x2"), Ok(Change::FailureRate(2.0)));
        assert_eq!(read("failure_rate=0.5"), Ok(Change::FailureRate(0.5)));
        assert_eq!(read("sku=h200"), Ok(Change::Sku(Sku::H200Sxm)));
        let field = |p: &str, v: &str| Change::PolicyField { path: p.into(), value: v.into() };
        assert_eq!(read("policy.backfill.mode=easy"), Ok(field("backfill.mode", "easy")));
    }

    #[test]
    fn what_is_no_change_is_answered_with_all_of_them() {
        for wrong in [
            "nodes=64",
            "nodes=+0",
            "nodes=many",
            "nodes=-8:h100",
            "nodes=+1000000",
            "spares=-1",
            "policy=",
            "policy.=1",
            "checkpoint=0s",
            "checkpoint=soon",
            "failure_rate=-1",
            "failure_rate=nan",
            "sku=a5",
            "gpus=8",
            "faster",
            "=",
        ] {
            let e = wrong.parse::<Change>().unwrap_err().to_string();
            assert!(e.contains(&format!("`{wrong}`")), "{e}");
            assert!(e.contains("nodes=+64") && e.contains("sku=h200-sxm"), "{e}");
        }
    }

    #[test]
    fn fields_of_the_policy_are_set_by_path() {
        let p = SitePolicy::default();
        let set = |path: &str, v: &str| set_field(&p, path, v).map_err(|e| e.to_string());
        assert_eq!(
            set("backfill.mode", "aggressive").unwrap().backfill.mode,
            BackfillMode::Aggressive
        );
        assert_eq!(set("backfill.reserved_starts", "5").unwrap().backfill.reserved_starts, 5);
        assert_eq!(set("limits.gpus_per_user", "64").unwrap().limits.gpus_per_user, Some(64));
        assert_eq!(set("preemption.min_run", "1h").unwrap().preemption.min_run, Span::hours(1));
        assert!(!set("defrag.enabled", "false").unwrap().defrag.enabled);
        let e = set("backfill.mod", "easy").unwrap_err();
        assert!(e.contains("backfill.mod=easy") && e.contains("`mode`"), "{e}");
        let e = set("back.mode", "easy").unwrap_err();
        assert!(e.contains("no `back`") && e.contains("backfill"), "{e}");
        assert!(set("fair_share.half_life", "1s").unwrap_err().contains("a minute"));
        assert!(set("backfill.mode", "quick").unwrap_err().contains("conservative"));
    }
}
