//! What may stand in a scenario file: every table, its keys and what each of them takes.
//! The types say the same to serde; a test compares the two key by key. This copy exists because
//! serde forgets where a value stood as soon as a tag or a choice is involved.

/// A table and its keys.
#[derive(Debug)]
pub(super) struct Table {
    /// What it is, after "in".
    pub(super) what: &'static str,
    pub(super) keys: &'static [Key],
}

/// One key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) needed: bool,
}

/// What a key takes.
#[derive(Debug)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// A name of the model.
    Name(Naming),
    /// A length of time.
    Span,
    /// A time as a length from the beginning, or in milliseconds.
    Start,
    /// A whole number from 0 to 4294967295.
    Count,
    /// A whole number of at least 0.
    Whole,
    /// A number, with or without a fraction.
    Real,
    /// `true` or `false`.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    List(&'static Kind),
    Pair(&'static Kind),
    Table(&'static Table),
    /// Tables that say by `kind` which of these they are.
    Tagged(&'static [(&'static str, &'static Table)]),
    /// One of the words, or a table with exactly one of the keys.
    Choice(&'static [&'static str], &'static Table),
    /// The second when it is a list or a table, else the first.
    Either(&'static Kind, &'static Kind),
    /// Any keys, each with the same kind of value.
    Map(&'static Kind),
    /// Names of figures, plain or dotted, with their ranges.
    Figures,
}

/// Which kind of name it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Naming {
    Label,
    Project,
    Node,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, needed: false }
}

const fn needed(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, needed: true }
}

const fn table(what: &'static str, keys: &'static [Key]) -> Table {
    Table { what, keys }
}

static LEVELS: &[&str] = &["region", "cluster", "spine", "leaf", "rack", "nvlink", "node"];
static PRIORITIES: &[&str] = &["low", "normal", "high", "critical"];
static TIERS: &[&str] = &["spot", "on-demand", "reserved"];

/// Everything a scenario file may hold.
pub(super) static SCENARIO: Table = table(
    "the scenario",
    &[
        needed("name", Kind::Text),
        key("about", Kind::Text),
        needed("length", Kind::Span),
        key("seed", Kind::Whole),
        needed("fleet", Kind::Tagged(FLEETS)),
        key("policy", Kind::Table(&POLICY)),
        key("quotas", Kind::Table(&QUOTAS)),
        key("reservations", Kind::List(&Kind::Table(&RESERVATION))),
        key("operations", Kind::Table(&OPERATIONS)),
        key("failures", Kind::Table(&FAILURES)),
        key("workload", Kind::List(&Kind::Tagged(WORKLOADS))),
        key("expect", Kind::Figures),
    ],
);

static SPARE_TARGET: Table = table("spares", &[needed("share", Kind::Real)]);

static FLEETS: &[(&str, &Table)] =
    &[("hgx", &HGX), ("nvl72", &NVL72), ("topology", &TOPOLOGY), ("openb", &OPENB)];
static HGX: Table = table(
    "a fleet of kind hgx",
    &[
        key("sku", Kind::Text),
        needed("nodes", Kind::Count),
        key("gpus_per_node", Kind::Count),
        key("spares", Kind::Either(&Kind::Count, &Kind::Table(&SPARE_TARGET))),
    ],
);
static NVL72: Table = table(
    "a fleet of kind nvl72",
    &[
        needed("racks", Kind::Count),
        key("spares", Kind::Either(&Kind::Count, &Kind::Table(&SPARE_TARGET))),
    ],
);
static TOPOLOGY: Table = table(
    "a fleet of kind topology",
    &[
        needed("file", Kind::Text),
        key("sku", Kind::Text),
        key("gpus_per_node", Kind::Count),
        key("spares", Kind::Either(&Kind::Count, &Kind::Table(&SPARE_TARGET))),
    ],
);
static OPENB: Table = table("a fleet of kind openb", &[needed("file", Kind::Text)]);

static OPERATIONS: Table = table(
    "operations",
    &[
        key("response", Kind::Word(&["swap", "requeue"])),
        key("detect", Kind::Span),
        key("watchdog", Kind::Span),
        key("decide", Kind::Span),
        key("repair", Kind::Table(&DELAY)),
        key("detect_slow", Kind::Span),
        key("detect_corruption", Kind::Span),
        key("remove_lemons_after", Kind::Count),
        key("act_on_precursors", Kind::Truth),
        key("checkpoint_records", Kind::Span),
    ],
);
static DELAY: Table =
    table("a length that varies", &[needed("median", Kind::Span), key("p95", Kind::Span)]);

static FAILURES: Table = table(
    "failures",
    &[
        key("preset", Kind::Word(&["llama3", "rsc1", "rsc2", "delta-h100"])),
        key("scale", Kind::Real),
        key("causes", Kind::List(&Kind::Table(&CAUSE))),
        key("infant", Kind::Table(&INFANT)),
        key("lemons", Kind::Table(&LEMONS)),
        key("jobs", Kind::Table(&JOB_HAZARD)),
        key("incidents", Kind::List(&Kind::Table(&INCIDENT))),
        key("titan", Kind::Text),
    ],
);
static MODES: &[&str] = &["fail_stop", "corruption", "software"];
static MODE: Table = table("a mode", &[key("fail_slow", Kind::Real), key("flap", Kind::Span)]);
static SCOPES: &[&str] = &["node", "rack", "leaf", "feed"];
static CAUSE: Table = table(
    "a cause",
    &[
        needed("name", Kind::Text),
        needed("per_1000_node_days", Kind::Real),
        key("mode", Kind::Choice(MODES, &MODE)),
        key("scope", Kind::Word(SCOPES)),
        key("repair", Kind::Table(&DELAY)),
        key("precursor", Kind::Table(&PRECURSOR)),
    ],
);
static PRECURSOR: Table = table(
    "a precursor",
    &[
        needed("share", Kind::Real),
        needed("lead", Kind::Table(&DELAY)),
        key("false_per_1000_node_days", Kind::Real),
    ],
);
static INFANT: Table =
    table("infant", &[needed("factor", Kind::Real), needed("half_life", Kind::Span)]);
static LEMONS: Table =
    table("lemons", &[needed("share", Kind::Real), needed("factor", Kind::Real)]);
static JOB_HAZARD: Table = table(
    "failures.jobs",
    &[needed("per_1000_node_days", Kind::Real), key("up_to_nodes", Kind::Count)],
);
static INCIDENT: Table = table(
    "an incident",
    &[
        needed("at", Kind::Span),
        needed("name", Kind::Text),
        key("on", Kind::List(&Kind::Text)),
        key("scope", Kind::Word(SCOPES)),
        key("mode", Kind::Choice(MODES, &MODE)),
        key("share", Kind::Real),
        key("repair", Kind::Table(&DELAY)),
        key("rate_factor", Kind::Real),
        key("lasts", Kind::Span),
    ],
);

static WORKLOADS: &[(&str, &Table)] =
    &[("train", &TRAIN), ("stream", &STREAM), ("serve", &SERVE), ("trace", &TRACE)];
static OWNER: Table = table(
    "an owner",
    &[
        key("project", Kind::Text),
        key("users", Kind::List(&Kind::Text)),
        key("priority", Kind::Word(PRIORITIES)),
        key("tier", Kind::Word(TIERS)),
    ],
);
static SAVING: Table = table(
    "saving",
    &[key("every", Kind::Text), key("cost", Kind::Span), key("startup", Kind::Span)],
);
static TRAIN: Table = table(
    "a workload of kind train",
    &[
        needed("name", Kind::Text),
        key("count", Kind::Count),
        needed("nodes", Kind::Count),
        key("gpus_per_node", Kind::Count),
        key("run", Kind::Span),
        key("at", Kind::Span),
        key("apart", Kind::Span),
        key("topology", Kind::Text),
        key("saving", Kind::Table(&SAVING)),
        key("owner", Kind::Table(&OWNER)),
        key("data_loading", Kind::Real),
        key("elastic", Kind::Pair(&Kind::Count)),
    ],
);
static STREAM: Table = table(
    "a workload of kind stream",
    &[
        needed("name", Kind::Text),
        needed("per_hour", Kind::Real),
        key("diurnal", Kind::Real),
        key("sizes", Kind::Either(&Kind::Text, &Kind::List(&Kind::Pair(&Kind::Count)))),
        needed("run", Kind::Table(&DELAY)),
        key("limit_factor", Kind::Real),
        key("fails", Kind::Real),
        key("data_loading", Kind::Real),
        key("saving", Kind::Table(&SAVING)),
        key("owner", Kind::Table(&OWNER)),
        key("from", Kind::Span),
        key("until", Kind::Span),
    ],
);
static SERVE: Table = table(
    "a workload of kind serve",
    &[
        needed("name", Kind::Text),
        needed("replicas", Kind::Count),
        key("gpus", Kind::Count),
        key("load", Kind::Real),
        key("diurnal", Kind::Real),
        key("startup", Kind::Span),
        key("owner", Kind::Table(&OWNER)),
    ],
);
static TRACE: Table = table(
    "a workload of kind trace",
    &[
        needed("format", Kind::Text),
        needed("file", Kind::Text),
        key("jobs", Kind::Count),
        key("saving", Kind::Table(&SAVING)),
        key("bad_rows", Kind::Text),
    ],
);

static QUOTAS: Table = table("quotas", &[key("tree", Kind::List(&Kind::Table(&QUOTA)))]);
static QUOTA: Table = table(
    "a node of the quota tree",
    &[
        needed("name", Kind::Name(Naming::Label)),
        key("parent", Kind::Name(Naming::Label)),
        key("shares", Kind::Count),
        key("projects", Kind::List(&Kind::Name(Naming::Project))),
        key("gpus", Kind::List(&Kind::Table(&LIMIT))),
        key("order", Kind::Word(&["best-effort", "strict"])),
        key("max_priority", Kind::Word(PRIORITIES)),
    ],
);
static LIMIT: Table = table(
    "a limit of a quota",
    &[
        key("sku", Kind::Text),
        key("tier", Kind::Word(TIERS)),
        key("nominal", Kind::Count),
        key("borrow", Kind::Count),
        key("lend", Kind::Count),
    ],
);

static RESERVATION: Table = table(
    "a reservation",
    &[
        needed("name", Kind::Name(Naming::Label)),
        key("projects", Kind::List(&Kind::Name(Naming::Project))),
        key("reason", Kind::Text),
        needed("over", Kind::Choice(&[], &OVER)),
        needed("start", Kind::Start),
        needed("length", Kind::Span),
        key("every", Kind::Span),
        key("overrun", Kind::Word(&["stop", "finish"])),
        key("lend", Kind::Truth),
    ],
);
static OVER: Table = table(
    "what a reservation is over",
    &[
        key("nodes", Kind::List(&Kind::Name(Naming::Node))),
        key("gpus", Kind::Table(&OVER_GPUS)),
        key("domain", Kind::Table(&OVER_DOMAIN)),
    ],
);
static OVER_GPUS: Table =
    table("GPUs of a reservation", &[needed("count", Kind::Count), key("sku", Kind::Text)]);
static OVER_DOMAIN: Table = table(
    "the domain of a reservation",
    &[needed("level", Kind::Word(LEVELS)), needed("path", Kind::Text)],
);

static POLICY: Table = table(
    "policy",
    &[
        key("backfill", Kind::Table(&BACKFILL)),
        key("fair_share", Kind::Table(&FAIR_SHARE)),
        key("preemption", Kind::Table(&PREEMPTION)),
        key("elastic", Kind::Table(&ELASTIC)),
        key("defrag", Kind::Table(&DEFRAG)),
        key("power", Kind::Table(&POWER)),
        key("limits", Kind::Table(&LIMITS)),
        key("idle", Kind::Table(&IDLE)),
        key("hazard", Kind::Table(&HAZARD)),
        key("reliability", Kind::Table(&RELIABILITY)),
        key("qualification", Kind::Table(&QUALIFICATION)),
        key("remediations", Kind::Table(&REMEDIATIONS)),
    ],
);
static BACKFILL: Table = table(
    "policy.backfill",
    &[
        key("mode", Kind::Word(&["conservative", "easy", "aggressive"])),
        key("reserved_starts", Kind::Count),
        key("predict", Kind::Truth),
        key("hasten_after", Kind::Span),
        key("patience", Kind::Span),
    ],
);
static FAIR_SHARE: Table =
    table("policy.fair_share", &[key("enabled", Kind::Truth), key("half_life", Kind::Span)]);
static PREEMPTION: Table = table(
    "policy.preemption",
    &[
        key("enabled", Kind::Truth),
        key("min_run", Kind::Span),
        key("notice", Kind::Span),
        key("restart_cost", Kind::Span),
    ],
);
static ELASTIC: Table =
    table("policy.elastic", &[key("enabled", Kind::Truth), key("settle", Kind::Span)]);
static DEFRAG: Table =
    table("policy.defrag", &[key("enabled", Kind::Truth), key("moves_per_hour", Kind::Count)]);
static POWER: Table = table(
    "policy.power",
    &[
        key("feeds", Kind::Map(&Kind::Whole)),
        key("racks", Kind::Map(&Kind::Whole)),
        key("gpu_watts", Kind::Map(&Kind::Count)),
        key("node_watts", Kind::Count),
        key("over_budget", Kind::Word(&["refuse", "cap"])),
        key("stagger_gpus", Kind::Count),
        key("stagger_window", Kind::Span),
    ],
);
static LIMITS: Table = table(
    "policy.limits",
    &[
        key("running_jobs_per_user", Kind::Count),
        key("gpus_per_user", Kind::Count),
        key("queued_jobs_per_user", Kind::Count),
        key("queued_jobs_per_project", Kind::Count),
        key("queued_jobs", Kind::Count),
        key("secrets_per_project", Kind::Count),
        key("stored_mib_per_project", Kind::Count),
        key("max_time", Kind::Span),
    ],
);
static IDLE: Table =
    table("policy.idle", &[key("warn_after", Kind::Span), key("end_after", Kind::Span)]);
static HAZARD: Table =
    table("policy.hazard", &[key("lemon_max_nodes", Kind::Count), key("large_gang", Kind::Count)]);
static QUALIFICATION: Table =
    table("policy.qualification", &[key("on_join", Kind::Word(&["none", "quick", "standard"]))]);
static REMEDIATIONS: Table = table(
    "policy.remediations",
    &[
        key("enabled", Kind::Truth),
        key("modes", Kind::Map(&Kind::Word(WHO_DECIDES))),
        key("rules", Kind::List(&Kind::Table(&REMEDIATION_RULE))),
        key("escalate_within", Kind::Span),
        key("finish_within", Kind::Span),
        key("requalify", Kind::Word(&["quick", "standard", "full"])),
        key("probation", Kind::Span),
        key("limits", Kind::Table(&REMEDIATION_LIMITS)),
    ],
);
const WHO_DECIDES: &[&str] = &["detect_only", "approve", "automatic"];
const ACTIONS: &[&str] = &[
    "watch",
    "restart_job",
    "isolate_gpu",
    "drain",
    "reset_gpu",
    "reboot",
    "power_cycle",
    "replace",
];
static REMEDIATION_RULE: Table = table(
    "a rule of policy.remediations",
    &[
        key("kind", Kind::Text),
        key("pool", Kind::Text),
        key("sku", Kind::Text),
        needed("steps", Kind::List(&Kind::Word(ACTIONS))),
        key("mode", Kind::Word(WHO_DECIDES)),
        key("leave", Kind::Word(&["finish", "checkpoint", "now"])),
    ],
);
static REMEDIATION_LIMITS: Table = table(
    "policy.remediations.limits",
    &[
        key("fleet", Kind::Table(&SHARE)),
        key("pool", Kind::Table(&SHARE)),
        key("leaf", Kind::Table(&SHARE)),
        key("feed", Kind::Table(&SHARE)),
        key("storm_percent", Kind::Count),
        key("storm_nodes", Kind::Count),
        key("storm_window", Kind::Span),
    ],
);
static SHARE: Table = table(
    "a share of policy.remediations.limits",
    &[key("total", Kind::Count), key("per_hour", Kind::Count), key("at_least", Kind::Count)],
);
static RELIABILITY: Table = table(
    "policy.reliability",
    &[
        key("failures_per_million_node_days", Kind::Count),
        key("weight", Kind::Count),
        key("checkpoint_cost", Kind::Span),
    ],
);
