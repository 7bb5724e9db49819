//! What operators choose about scheduling. Data in the log, so that a replay with another
//! policy is a replay with other data.

use crate::near::closest;
use crate::object::object;
use crate::resolve::one_line;
use crate::spec::{SpecProblem, problem};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The site's scheduling policy. Every field has a default that is safe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SitePolicy {
    /// Order of the queue, reserved starts and backfill.
    #[serde(deserialize_with = "object")]
    pub backfill: Backfill,
    /// Fair share.
    #[serde(deserialize_with = "object")]
    pub fair_share: FairShare,
    /// Who may be stopped for whom.
    #[serde(deserialize_with = "object")]
    pub preemption: Preemption,
    /// Gangs that grow and shrink.
    #[serde(deserialize_with = "object")]
    pub elastic: ElasticPolicy,
    /// Moving work so that a waiting gang fits.
    #[serde(deserialize_with = "object")]
    pub defrag: Defrag,
    /// Budgets of power.
    #[serde(deserialize_with = "object")]
    pub power: Power,
    /// Limits on what one user may have.
    #[serde(deserialize_with = "object")]
    pub limits: Limits,
    /// GPUs that are allocated and do nothing.
    #[serde(deserialize_with = "object")]
    pub idle: Idle,
    /// What unhealthy hardware is still good for.
    #[serde(deserialize_with = "object")]
    pub hazard: Hazard,
    /// How often hardware fails, as far as it is not measured yet.
    #[serde(deserialize_with = "object")]
    pub reliability: Reliability,
    /// When nodes are tested.
    #[serde(deserialize_with = "object")]
    pub qualification: QualificationPolicy,
    /// Remediation of unhealthy hardware, and how far automation may go.
    #[serde(deserialize_with = "object")]
    pub remediations: crate::remediation::Remediations,
    /// When the network between nodes is tested. Not in records that do not change it.
    #[serde(deserialize_with = "object", skip_serializing_if = "FabricPolicy::is_default")]
    pub fabric: FabricPolicy,
}

/// When the network between nodes is tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FabricPolicy {
    /// The nodes of a gang that has at least so many are tested with each other before its ranks
    /// start; 0 for never.
    pub preflight_nodes: u32,
    /// Ranks start after so long though the test is not over.
    pub within: Span,
    /// Nodes that were tested and found good within this are not tested again.
    pub max_age: Span,
}

impl Default for FabricPolicy {
    fn default() -> Self {
        FabricPolicy { preflight_nodes: 0, within: Span::secs(60), max_age: Span::hours(24) }
    }
}

impl FabricPolicy {
    fn is_default(&self) -> bool {
        *self == FabricPolicy::default()
    }
}

/// When nodes are tested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QualificationPolicy {
    /// What is required of a node that joins, before it gets work.
    pub on_join: OnJoin,
}

/// What is required of a node that joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnJoin {
    /// It takes work untested.
    #[default]
    None,
    /// A quick test.
    Quick,
    /// A thorough test.
    Standard,
}

impl OnJoin {
    /// The test, if there is one.
    #[must_use]
    pub fn level(self) -> Option<crate::qualification::Level> {
        match self {
            OnJoin::None => None,
            OnJoin::Quick => Some(crate::qualification::Level::Quick),
            OnJoin::Standard => Some(crate::qualification::Level::Standard),
        }
    }
}

/// What is assumed until the site has measured it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Reliability {
    /// Failures in a million node-days that interrupt what runs on a node.
    pub failures_per_million_node_days: u32,
    /// The assumption weighs as much as so many failures that were seen.
    pub weight: u32,
    /// How long a checkpoint blocks a job, until it has reported one.
    pub checkpoint_cost: Span,
}

impl Default for Reliability {
    fn default() -> Self {
        // Between what was published for 16,384 H100 (3,789) and for 16,000 A100 (6,500).
        Reliability {
            failures_per_million_node_days: 5000,
            weight: 5,
            checkpoint_cost: Span::secs(10),
        }
    }
}

/// Order of the queue, reserved starts and backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Backfill {
    /// How it is done.
    pub mode: BackfillMode,
    /// The first so many waiting gangs get a reserved start.
    pub reserved_starts: u32,
    /// Estimate run times from each user's history: they order backfill, never a reserved start.
    pub predict: bool,
    /// Once the first of the queue has waited so long, its reserved start moves earlier whenever
    /// it can; before that, what becomes free goes to whoever gains most by it.
    pub hasten_after: Span,
    /// When no start can be reserved because what runs has no time limit, nodes are reserved for
    /// the first gangs after they have waited so long.
    pub patience: Span,
}

impl Default for Backfill {
    fn default() -> Self {
        Backfill {
            mode: BackfillMode::default(),
            reserved_starts: 128,
            predict: true,
            hasten_after: Span::hours(72),
            patience: Span::mins(10),
        }
    }
}

/// How backfill is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BackfillMode {
    /// The first gangs get the earliest start reserved that time limits allow; others may pass
    /// as long as no reserved start moves, those first that gain most for the room they take.
    #[default]
    Conservative,
    /// Only the head of the queue has a reserved start; the rest passes in queue order.
    Easy,
    /// Only the head of the queue has a reserved start, half an hour later than the earliest;
    /// the rest by what is gained. Waits are shorter in the mean, and reserved for fewer.
    Aggressive,
}

/// Fair share: who has had less than their part goes first within a priority class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FairShare {
    /// Past use weighs in the order of the queue.
    pub enabled: bool,
    /// Past use counts half after so long.
    pub half_life: Span,
}

impl Default for FairShare {
    fn default() -> Self {
        FairShare { enabled: true, half_life: Span::hours(7 * 24) }
    }
}

/// Who may be stopped for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Preemption {
    /// Work of a lower class, spot work, and work on borrowed quota may be stopped.
    pub enabled: bool,
    /// Nobody is stopped before having run so long.
    pub min_run: Span,
    /// Longest wait for a checkpoint before the stop, unless the job names its own.
    pub notice: Span,
    /// What a restart costs, in time of the whole gang.
    pub restart_cost: Span,
}

impl Default for Preemption {
    fn default() -> Self {
        Preemption {
            enabled: true,
            min_run: Span::mins(5),
            notice: Span::secs(60),
            restart_cost: Span::mins(3),
        }
    }
}

/// Gangs that grow and shrink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ElasticPolicy {
    /// Gangs with `elastic` are resized.
    pub enabled: bool,
    /// A gang is resized at most once in this time.
    pub settle: Span,
}

impl Default for ElasticPolicy {
    fn default() -> Self {
        ElasticPolicy { enabled: true, settle: Span::mins(10) }
    }
}

/// Moving checkpointable work so that a waiting gang fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Defrag {
    /// Off unless somebody turns it on.
    pub enabled: bool,
    /// Most moves in an hour.
    pub moves_per_hour: u32,
}

impl Default for Defrag {
    fn default() -> Self {
        Defrag { enabled: false, moves_per_hour: 8 }
    }
}

/// Budgets of power, in watts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Power {
    /// Budget of each power feed.
    pub feeds: BTreeMap<String, u64>,
    /// Budget of each rack, by its path.
    pub racks: BTreeMap<String, u64>,
    /// Draw of a GPU at full load, by SKU, where the catalogue is to be overruled.
    pub gpu_watts: BTreeMap<String, u32>,
    /// Draw of a node without its GPUs.
    pub node_watts: u32,
    /// When a start would pass a budget.
    pub over_budget: OverBudget,
    /// At most so many GPUs start in one window; zero for no limit.
    pub stagger_gpus: u32,
    /// Length of that window.
    pub stagger_window: Span,
}

impl Default for Power {
    fn default() -> Self {
        Power {
            feeds: BTreeMap::new(),
            racks: BTreeMap::new(),
            gpu_watts: BTreeMap::new(),
            // Host, fans and NICs of an 8-GPU server: about a quarter of its 10.2 kW.
            node_watts: 2500,
            over_budget: OverBudget::default(),
            stagger_gpus: 0,
            stagger_window: Span::secs(10),
        }
    }
}

/// When a start would pass a power budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OverBudget {
    /// It waits or goes elsewhere.
    #[default]
    Refuse,
    /// It starts, and the placement carries the cap per GPU that keeps the budget.
    Cap,
}

/// Jobs that may wait in all where the policy does not say: about 3 KiB of the server's memory
/// each, so 3 GiB.
pub const QUEUED_JOBS: u32 = 1_000_000;
/// Jobs of one project that may wait where the policy does not say: 750 MiB.
pub const QUEUED_JOBS_PER_PROJECT: u32 = 250_000;
/// Secrets of one project where the policy does not say: 64 MiB of the store at most.
pub const SECRETS_PER_PROJECT: u32 = 1000;
/// MiB of what its jobs run that one project may store where the policy does not say.
pub const STORED_MIB_PER_PROJECT: u32 = 1024;

/// Limits on what one user may have. Only what may wait, secrets and what is
/// stored are limited by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
// The limits of remediations have the same name.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = UserLimits))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Jobs of one user that hold resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_jobs_per_user: Option<u32>,
    /// GPUs of one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_user: Option<u32>,
    /// Jobs of one user that wait, held ones too; more are refused at submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_jobs_per_user: Option<u32>,
    /// Jobs of one project that wait; [`QUEUED_JOBS_PER_PROJECT`] when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_jobs_per_project: Option<u32>,
    /// Jobs that wait in all; [`QUEUED_JOBS`] when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_jobs: Option<u32>,
    /// Secrets of one project; [`SECRETS_PER_PROJECT`] when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_per_project: Option<u32>,
    /// MiB of scripts and environments that one project may store, those of ended jobs included;
    /// [`STORED_MIB_PER_PROJECT`] when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_mib_per_project: Option<u32>,
    /// Longest time limit; a job without one gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
}

/// GPUs that are allocated and do nothing: memory in use, no kernels, low power.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Idle {
    /// The job is warned after so long; never when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_after: Option<Span>,
    /// The job is ended after so long; never when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_after: Option<Span>,
}

/// What hardware that is likely to fail is still good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Hazard {
    /// A lemon node only takes preemptible work of at most so many nodes.
    pub lemon_max_nodes: u32,
    /// Gangs of at least so many nodes avoid nodes with a hazard where they can.
    pub large_gang: u32,
}

impl Default for Hazard {
    fn default() -> Self {
        Hazard { lemon_max_nodes: 1, large_gang: 8 }
    }
}

/// What a site has today that a policy can name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SiteNames {
    /// Kinds of GPU.
    pub skus: BTreeSet<String>,
    /// Pools of nodes.
    pub pools: BTreeSet<String>,
    /// Power feeds.
    pub feeds: BTreeSet<String>,
    /// Racks, by their whole path and by their last name.
    pub racks: BTreeSet<String>,
}

impl SitePolicy {
    /// What of the policy matches nothing of a site, in words: a slip, or of a time to come.
    #[must_use]
    pub fn unmatched(&self, site: &SiteNames) -> Vec<String> {
        let mut named: Vec<(String, &String, &BTreeSet<String>)> = Vec::new();
        for (i, r) in self.remediations.rules.iter().enumerate() {
            let field = |what: &str| format!("remediations.rules[{i}].{what}");
            named.extend(r.sku.iter().map(|s| (field("sku"), s, &site.skus)));
            named.extend(r.pool.iter().map(|p| (field("pool"), p, &site.pools)));
        }
        named.extend(self.power.feeds.keys().map(|f| ("power.feeds".to_owned(), f, &site.feeds)));
        named.extend(self.power.racks.keys().map(|r| ("power.racks".to_owned(), r, &site.racks)));
        let unknown = named.into_iter().filter(|(_, name, known)| !known.contains(*name));
        let words = unknown.map(|(field, name, known)| {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let near = closest(name, &known).map(|n| format!("; did you mean `{n}`?"));
            let near = near.unwrap_or_default();
            format!("{field}: `{name}` matches nothing of this site today{near}")
        });
        words.collect()
    }
}

/// Most budgets of feeds, and of racks.
const MAX_BUDGETS: usize = 10_000;

impl SitePolicy {
    /// Checks what can be judged from the policy alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.backfill.reserved_starts > 10_000 {
            return Err(problem(
                "backfill.reserved_starts",
                "more than 10000 reserved starts make every cycle slow",
                "100 to 1000 is plenty",
            ));
        }
        self.check_numbers()?;
        let named = self.power.feeds.keys().chain(self.power.racks.keys());
        for name in named.chain(self.power.gpu_watts.keys()) {
            one_line("power", name)?;
        }
        if self.fabric.preflight_nodes == 1 {
            return Err(problem(
                "fabric.preflight_nodes",
                "one node has nobody to be tested with",
                "use 0 for never, or the size from which a gang is large, like 8",
            ));
        }
        if !(1_000..=600_000).contains(&self.fabric.within.0) {
            return Err(problem(
                "fabric.within",
                "a gang waits at least a second and at most ten minutes for its test",
                "60s is plenty for gangs of any size",
            ));
        }
        if self.fair_share.half_life.0 < 60_000 {
            return Err(problem(
                "fair_share.half_life",
                "it is shorter than a minute",
                "use hours or days, like 168h",
            ));
        }
        for (field, map) in [("power.feeds", &self.power.feeds), ("power.racks", &self.power.racks)]
        {
            if map.len() > MAX_BUDGETS {
                let message = format!("{} budgets are more than {MAX_BUDGETS}", map.len());
                return Err(problem(field, message, "leave out feeds and racks that are gone"));
            }
            if let Some((k, _)) = map.iter().find(|(_, w)| **w == 0 || **w > 1_000_000_000_000) {
                return Err(problem(
                    &format!("{field}.{k}"),
                    "not a budget",
                    "give watts, like 120000",
                ));
            }
        }
        self.remediations.check()?;
        if self.idle.end_after.is_some_and(|e| self.idle.warn_after.is_none_or(|w| w > e)) {
            return Err(problem(
                "idle.end_after",
                "a job would be ended without a warning before it",
                "set idle.warn_after to a shorter time",
            ));
        }
        Ok(())
    }

    /// No number is larger than any site has a use for.
    fn check_numbers(&self) -> Result<(), SpecProblem> {
        let (limits, power, assumed) = (&self.limits, &self.power, &self.reliability);
        let mut numbers = vec![
            ("defrag.moves_per_hour".to_owned(), self.defrag.moves_per_hour),
            ("fabric.preflight_nodes".to_owned(), self.fabric.preflight_nodes),
            ("hazard.large_gang".to_owned(), self.hazard.large_gang),
            ("hazard.lemon_max_nodes".to_owned(), self.hazard.lemon_max_nodes),
            ("power.node_watts".to_owned(), power.node_watts),
            ("power.stagger_gpus".to_owned(), power.stagger_gpus),
            ("reliability.weight".to_owned(), assumed.weight),
            (
                "reliability.failures_per_million_node_days".to_owned(),
                assumed.failures_per_million_node_days,
            ),
        ];
        let limited = [
            ("limits.running_jobs_per_user", limits.running_jobs_per_user),
            ("limits.gpus_per_user", limits.gpus_per_user),
            ("limits.queued_jobs_per_user", limits.queued_jobs_per_user),
            ("limits.queued_jobs_per_project", limits.queued_jobs_per_project),
            ("limits.queued_jobs", limits.queued_jobs),
            ("limits.secrets_per_project", limits.secrets_per_project),
            ("limits.stored_mib_per_project", limits.stored_mib_per_project),
        ];
        let given = limited.into_iter().filter_map(|(field, n)| Some((field.to_owned(), n?)));
        numbers.extend(given);
        numbers.extend(power.gpu_watts.iter().map(|(k, w)| (format!("power.gpu_watts.{k}"), *w)));
        match numbers.into_iter().find(|(_, n)| *n > NUMBER_MAX) {
            None => Ok(()),
            Some((field, n)) => {
                let message = format!("{n} is more than {NUMBER_MAX}");
                Err(problem(&field, message, "give a smaller number"))
            }
        }
    }
}

/// The largest number in a policy.
const NUMBER_MAX: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_no_object() {
        let read = |text: &str| serde_json::from_str::<SitePolicy>(text).map_err(|e| e.to_string());
        assert!(read(r#"{"idle":{"warn_after":"1h"},"limits":{}}"#).is_ok());
        assert!(read(r#"{"limits":[]}"#).unwrap_err().contains("expected an object"));
        assert!(read(r#"{"idle":[null,null]}"#).unwrap_err().contains("expected an object"));
        let whole = serde_json::to_value(SitePolicy::default()).unwrap();
        let mut names: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        names.push("fabric".into());
        for name in names {
            let e = read(&format!(r#"{{"{name}":[]}}"#)).unwrap_err();
            assert!(e.contains("expected an object") && e.contains("line 1"), "{name}: {e}");
        }
        for inner in [
            r#""limits":[]"#,
            r#""limits":{"fleet":[]}"#,
            r#""limits":{"pool":[]}"#,
            r#""limits":{"leaf":[]}"#,
            r#""limits":{"feed":[]}"#,
            r#""rules":[[null,null,null,["watch"],null,null]]"#,
        ] {
            let e = read(&format!(r#"{{"remediations":{{{inner}}}}}"#)).unwrap_err();
            assert!(e.contains("expected an object"), "{inner}: {e}");
        }
        let rule = r#"{"remediations":{"rules":[{"kind":"*","steps":["watch"]}]}}"#;
        assert_eq!(read(rule).unwrap().remediations.rules.len(), 1);
    }

    #[test]
    fn numbers_that_no_site_has_a_use_for_are_refused() {
        let with = |text: &str| policy(text).check().map_err(|p| p.field);
        assert_eq!(with(r#"{"reliability":{"weight":1000000000}}"#), Ok(()));
        for (text, field) in [
            (r#"{"reliability":{"weight":2147483648}}"#, "reliability.weight"),
            (r#"{"limits":{"gpus_per_user":4000000000}}"#, "limits.gpus_per_user"),
            (r#"{"power":{"gpu_watts":{"h100":4000000000}}}"#, "power.gpu_watts.h100"),
        ] {
            assert_eq!(with(text), Err(field.to_owned()));
        }
    }

    fn policy(text: &str) -> SitePolicy {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_rule_names_a_failure_mode_that_there_is() {
        let of = |kind: &str| {
            let rule = format!(r#"{{"kind":"{kind}","steps":["watch"]}}"#);
            policy(&format!(r#"{{"remediations":{{"rules":[{rule}]}}}}"#)).check()
        };
        for known in ["ecc-uncorrectable", "ecc-*", "*"] {
            assert_eq!(of(known), Ok(()), "{known}");
        }
        for wrong in ["ecc-uncorectable", "ecx-*", ""] {
            let no = of(wrong).unwrap_err();
            assert_eq!(no.field, "remediations.rules[0].kind");
            assert!(no.message.contains("no failure mode"), "{no:?}");
        }
        let near = of("ecc-uncorectable").unwrap_err().hint.unwrap();
        assert!(near.contains("did you mean `ecc-uncorrectable`?"), "{near}");
    }

    #[test]
    fn what_matches_nothing_of_a_site_is_named() {
        let text = r#"{"remediations":{"rules":[{"sku":"h999","pool":"train","steps":["watch"]}]},
            "power":{"feeds":{"A":1000},"racks":{"rack99":1000,"r/c/s/l/k1":1000}}}"#;
        let set = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect();
        let site = SiteNames {
            skus: set(&["h100-sxm"]),
            pools: set(&["train"]),
            feeds: set(&["A", "B"]),
            racks: set(&["r/c/s/l/k1", "k1"]),
        };
        let said = policy(text).unmatched(&site);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with("remediations.rules[0].sku: `h999` matches nothing"),
            "{said:?}"
        );
        assert!(said[1].starts_with("power.racks: `rack99` matches nothing"), "{said:?}");
        assert_eq!(SitePolicy::default().unmatched(&SiteNames::default()), Vec::<String>::new());
    }
}
