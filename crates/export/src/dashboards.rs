//! The four dashboards: for who pays, who is on call, who looks into it, and who uses it.

use crate::grafana::{Dashboard, Panel, Show, Variable};

const SKU: Variable =
    Variable { name: "sku", query: "label_values(muster_sku_gpus, sku)", label: "GPU" };
const PROJECT: Variable = Variable {
    name: "project",
    query: "label_values(muster_project_gpus_allocated, project)",
    label: "Project",
};
const NODE: Variable =
    Variable { name: "node", query: "label_values(DCGM_FI_DEV_GPU_UTIL, Hostname)", label: "Node" };

type Query = (&'static str, &'static str);

fn panel(
    show: Show,
    width: u32,
    unit: &'static str,
    title: &'static str,
    about: &'static str,
    queries: &[Query],
) -> Panel {
    Panel { title, show, unit, width, about, queries: queries.to_vec() }
}

fn number(
    unit: &'static str,
    title: &'static str,
    about: &'static str,
    expr: &'static str,
) -> Panel {
    panel(Show::Number, 4, unit, title, about, &[(expr, "")])
}

fn lines(unit: &'static str, title: &'static str, about: &'static str, queries: &[Query]) -> Panel {
    panel(Show::Lines, 12, unit, title, about, queries)
}

fn stack(unit: &'static str, title: &'static str, about: &'static str, queries: &[Query]) -> Panel {
    panel(Show::Stack, 12, unit, title, about, queries)
}

/// Every dashboard that comes with Muster.
#[must_use]
pub fn all() -> Vec<Dashboard> {
    vec![executive(), on_call(), debug(), tenant()]
}

fn executive() -> Dashboard {
    Dashboard {
        name: "executive",
        title: "Muster: executive",
        about: "What the fleet is worth: how much serves, how much of that works, and what is lost.",
        back: "now-7d",
        variables: vec![SKU],
        rows: vec![
            (
                "The last 24 hours",
                vec![
                    number(
                        "percentunit",
                        "Allocation",
                        "Allocated of all GPU time in service.",
                        "muster_allocation_1d",
                    ),
                    number(
                        "percentunit",
                        "Goodput",
                        "Productive of all GPU time that was allocated.",
                        "muster_goodput_1d",
                    ),
                    number(
                        "percentunit",
                        "ETTR",
                        "Productive of all GPU time, waiting included.",
                        "muster_ettr_1d",
                    ),
                    number(
                        "percentunit",
                        "Availability",
                        "In service of all GPU time there was.",
                        "muster_availability_1d",
                    ),
                    number(
                        "s",
                        "MTBI",
                        "Mean time between interruptions of a job.",
                        "muster_mtbi_seconds_1d",
                    ),
                    number(
                        "watt",
                        "Power of GPUs",
                        "As GPUs report.",
                        "sum(muster_gpu_power_watts)",
                    ),
                ],
            ),
            (
                "Capacity",
                vec![
                    stack(
                        "none",
                        "GPUs by use",
                        "Out are those out of service now.",
                        &[("sum by (state) (muster_sku_gpus{sku=~\"$sku\"})", "{{state}}")],
                    ),
                    stack(
                        "none",
                        "GPUs out of service",
                        "By why.",
                        &[(
                            "sum by (cause) (muster_gpus_out_of_service{sku=~\"$sku\"})",
                            "{{cause}}",
                        )],
                    ),
                    lines(
                        "none",
                        "Demand compared with capacity",
                        "Allocated and waited for, and what could be allocated.",
                        &[
                            (
                                "sum(muster_sku_gpus{state=\"used\"}) + sum(muster_queue_gpus{held=\"false\"})",
                                "wanted",
                            ),
                            ("sum(muster_gpus_in_service)", "in service"),
                        ],
                    ),
                    lines(
                        "percentunit",
                        "Utilisation",
                        "How busy GPUs are, as they report.",
                        &[("muster_gpu_utilisation", "busy")],
                    ),
                ],
            ),
            (
                "Work",
                vec![
                    stack(
                        "s",
                        "Where GPU time went",
                        "GPU-seconds of the last 24 h.",
                        &[("sum by (part) (muster_gpu_seconds_1d)", "{{part}}")],
                    ),
                    stack(
                        "none",
                        "Jobs that ended",
                        "By exit cause.",
                        &[(
                            "sum by (outcome) (increase(muster_jobs_ended_total[1h]))",
                            "{{outcome}}",
                        )],
                    ),
                    panel(
                        Show::Bars,
                        12,
                        "none",
                        "GPUs by kind",
                        "In service.",
                        &[("sum by (sku) (muster_gpus_in_service)", "{{sku}}")],
                    ),
                    lines(
                        "percentunit",
                        "Goodput and ETTR",
                        "Of the 24 h before each moment.",
                        &[("muster_goodput_1d", "goodput"), ("muster_ettr_1d", "ETTR")],
                    ),
                ],
            ),
        ],
    }
}

fn on_call() -> Dashboard {
    Dashboard {
        name: "on-call",
        title: "Muster: on call",
        about: "What is wrong now, what is done about it, and whether Muster itself is healthy.",
        back: "now-6h",
        variables: vec![NODE],
        rows: vec![
            (
                "Now",
                vec![
                    number(
                        "none",
                        "Critical findings",
                        "Open ones.",
                        "sum(muster_findings_open{severity=\"critical\"}) or vector(0)",
                    ),
                    number("none", "Incidents", "Open ones.", "sum(muster_incidents_open)"),
                    number(
                        "none",
                        "Open breakers",
                        "What gets no work.",
                        "sum(muster_breakers{state=\"open\"}) or vector(0)",
                    ),
                    number(
                        "none",
                        "Pending approval",
                        "Remediations that wait for an operator.",
                        "sum(muster_remediations{step=\"approval\"})",
                    ),
                    number(
                        "bool_yes_no",
                        "Automation stopped",
                        "No remediation runs.",
                        "max(muster_automation_stopped)",
                    ),
                    number(
                        "none",
                        "Agents connected",
                        "Sessions with this server.",
                        "sum(muster_agents_connected)",
                    ),
                ],
            ),
            (
                "What is wrong",
                vec![
                    stack(
                        "none",
                        "Findings",
                        "Open, by failure mode.",
                        &[(
                            "sum by (kind, severity) (muster_findings_open) or vector(0)",
                            "{{kind}} {{severity}}",
                        )],
                    ),
                    stack(
                        "none",
                        "Remediations",
                        "By step.",
                        &[("sum by (step) (muster_remediations)", "{{step}}")],
                    ),
                    stack(
                        "none",
                        "Nodes by stage",
                        "Stages of a node's life cycle.",
                        &[("sum by (stage) (muster_nodes_by_stage)", "{{stage}}")],
                    ),
                    lines(
                        "none",
                        "Interruptions",
                        "In an hour, by cause.",
                        &[(
                            "sum by (cause) (increase(muster_interruptions_total[1h]))",
                            "{{cause}}",
                        )],
                    ),
                    lines(
                        "none",
                        "Faults reported",
                        "In ten minutes, by class.",
                        &[("sum by (class) (increase(muster_faults_total[10m]))", "{{class}}")],
                    ),
                    lines(
                        "s",
                        "Recovery",
                        "From a fault until the work resumed, by part: median.",
                        &[(
                            "histogram_quantile(0.5, sum by (part, le) (rate(muster_recovery_seconds_bucket[1h])))",
                            "{{part}}",
                        )],
                    ),
                ],
            ),
            (
                "Muster itself",
                vec![
                    lines(
                        "s",
                        "API",
                        "Slowest one in a hundred, streams left out.",
                        &[(
                            "histogram_quantile(0.99, sum by (le) (rate(muster_http_request_seconds_bucket{route!~\".*(events|frames|logs).*\"}[5m])))",
                            "p99",
                        )],
                    ),
                    lines(
                        "reqps",
                        "Requests",
                        "By status.",
                        &[("sum by (status) (rate(muster_http_requests_total[5m]))", "{{status}}")],
                    ),
                    lines(
                        "s",
                        "Log and scheduler",
                        "Slowest one in a hundred.",
                        &[
                            (
                                "histogram_quantile(0.99, sum by (le) (rate(muster_store_append_seconds_bucket[5m])))",
                                "append",
                            ),
                            (
                                "histogram_quantile(0.99, sum by (le) (rate(muster_cycle_seconds_bucket[5m])))",
                                "cycle",
                            ),
                            (
                                "histogram_quantile(0.99, sum by (le) (rate(muster_signal_commit_seconds_bucket[5m])))",
                                "fault to record",
                            ),
                        ],
                    ),
                    lines(
                        "none",
                        "Log",
                        "Records a second.",
                        &[("sum(rate(muster_records_total[5m]))", "records")],
                    ),
                    lines(
                        "none",
                        "Telemetry",
                        "Nodes that report their GPUs.",
                        &[("sum by (state) (muster_telemetry_nodes)", "{{state}}")],
                    ),
                    lines(
                        "s",
                        "Age of telemetry",
                        "The oldest of what is fresh.",
                        &[("max(muster_telemetry_oldest_seconds)", "oldest")],
                    ),
                ],
            ),
            (
                "Nodes",
                vec![
                    lines(
                        "celsius",
                        "Hottest GPUs",
                        "Ten of them.",
                        &[(
                            "topk(10, DCGM_FI_DEV_GPU_TEMP{Hostname=~\"$node\"})",
                            "{{Hostname}} {{gpu}}",
                        )],
                    ),
                    panel(
                        Show::Table,
                        12,
                        "none",
                        "GPUs with an XID",
                        "The last one each reported.",
                        &[(
                            "DCGM_FI_DEV_XID_ERRORS{Hostname=~\"$node\"} > 0 or vector(0)",
                            "{{Hostname}} {{gpu}}",
                        )],
                    ),
                ],
            ),
        ],
    }
}

fn debug() -> Dashboard {
    let gpu = "{{Hostname}} {{gpu}}";
    Dashboard {
        name: "debug",
        title: "Muster: debug",
        about: "One node's GPUs, the queue and the scheduler, in detail.",
        back: "now-1h",
        variables: vec![NODE],
        rows: vec![
            (
                "GPUs",
                vec![
                    lines(
                        "percent",
                        "Utilisation",
                        "Share of the time in which anything ran.",
                        &[("DCGM_FI_DEV_GPU_UTIL{Hostname=~\"$node\"}", gpu)],
                    ),
                    lines(
                        "percentunit",
                        "Tensor cores",
                        "Share of the time in which they were active.",
                        &[("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{Hostname=~\"$node\"}", gpu)],
                    ),
                    lines(
                        "celsius",
                        "Temperature",
                        "Of the chip.",
                        &[("DCGM_FI_DEV_GPU_TEMP{Hostname=~\"$node\"}", gpu)],
                    ),
                    lines(
                        "watt",
                        "Power",
                        "As the device reports.",
                        &[("DCGM_FI_DEV_POWER_USAGE{Hostname=~\"$node\"}", gpu)],
                    ),
                    lines(
                        "rotmhz",
                        "Clock",
                        "Of the processors, in MHz.",
                        &[("DCGM_FI_DEV_SM_CLOCK{Hostname=~\"$node\"}", gpu)],
                    ),
                    lines(
                        "decmbytes",
                        "Memory used",
                        "In MiB.",
                        &[("DCGM_FI_DEV_FB_USED{Hostname=~\"$node\"}", gpu)],
                    ),
                    panel(
                        Show::Table,
                        24,
                        "none",
                        "GPUs that answer",
                        "One for each.",
                        &[("muster_gpu_up", gpu)],
                    ),
                ],
            ),
            (
                "Queue and scheduler",
                vec![
                    stack(
                        "none",
                        "Jobs that wait",
                        "By priority.",
                        &[(
                            "sum by (priority) (muster_queue_jobs{held=\"false\"})",
                            "{{priority}}",
                        )],
                    ),
                    lines(
                        "s",
                        "How long they have waited",
                        "Half of them, nine in ten, all but one in a hundred.",
                        &[("max by (share) (muster_queue_wait_seconds)", "{{share}}")],
                    ),
                    lines(
                        "s",
                        "Wait for the first place",
                        "Nine in ten of the jobs of the last hour.",
                        &[(
                            "histogram_quantile(0.9, sum by (priority, le) (rate(muster_job_wait_seconds_bucket[1h])))",
                            "{{priority}}",
                        )],
                    ),
                    stack(
                        "none",
                        "Jobs",
                        "By state.",
                        &[("sum by (state) (muster_jobs)", "{{state}}")],
                    ),
                    lines(
                        "none",
                        "Reserved starts",
                        "Met and late, in an hour.",
                        &[("sum by (how) (increase(muster_reserved_starts_total[1h]))", "{{how}}")],
                    ),
                    lines(
                        "none",
                        "Preemptions",
                        "In an hour.",
                        &[("sum(increase(muster_preemptions_total[1h]))", "stopped for others")],
                    ),
                ],
            ),
            (
                "Server",
                vec![
                    lines(
                        "s",
                        "API by route",
                        "Slowest one in twenty.",
                        &[(
                            "histogram_quantile(0.95, sum by (route, le) (rate(muster_http_request_seconds_bucket[5m])))",
                            "{{route}}",
                        )],
                    ),
                    lines(
                        "none",
                        "Detectors",
                        "Rows accepted and dropped, a second.",
                        &[
                            ("sum(rate(muster_watch_accepted_total[5m]))", "accepted"),
                            ("sum(rate(muster_watch_dropped_total[5m]))", "dropped"),
                        ],
                    ),
                    lines(
                        "bytes",
                        "Job output",
                        "Stored on disk.",
                        &[("sum(muster_output_bytes)", "stored")],
                    ),
                    lines(
                        "none",
                        "Log",
                        "Its newest record.",
                        &[("max(muster_log_seq)", "sequence")],
                    ),
                ],
            ),
        ],
    }
}

fn tenant() -> Dashboard {
    Dashboard {
        name: "tenant",
        title: "Muster: tenant",
        about: "What a project has allocated, waits for and gets out of it. Needs metrics by project: scrape with a token.",
        back: "now-7d",
        variables: vec![PROJECT],
        rows: vec![
            (
                "Now",
                vec![
                    number(
                        "none",
                        "GPUs allocated",
                        "Now.",
                        "sum(muster_project_gpus_allocated{project=~\"$project\"})",
                    ),
                    number(
                        "none",
                        "GPUs waited for",
                        "By jobs that may start.",
                        "sum(muster_project_gpus_queued{project=~\"$project\"})",
                    ),
                    number(
                        "none",
                        "Jobs that run",
                        "Or start.",
                        "sum(muster_project_jobs{project=~\"$project\",state=\"placed\"})",
                    ),
                    number(
                        "none",
                        "Jobs that wait",
                        "And may start.",
                        "sum(muster_project_jobs{project=~\"$project\",state=\"queued\"})",
                    ),
                    number(
                        "percentunit",
                        "Goodput",
                        "Productive of what was allocated in 24 h; waiting during recovery left out where no GPUs were allocated.",
                        "sum(muster_project_gpu_seconds_1d{project=~\"$project\",part=\"productive\"}) / sum(muster_project_gpu_seconds_1d{project=~\"$project\",part!=\"queued\"})",
                    ),
                    number(
                        "s",
                        "Lost",
                        "GPU-seconds of work that was thrown away in 24 h.",
                        "sum(muster_project_gpu_seconds_1d{project=~\"$project\",part=\"lost\"})",
                    ),
                ],
            ),
            (
                "Over time",
                vec![
                    stack(
                        "none",
                        "GPUs allocated",
                        "By project.",
                        &[(
                            "sum by (project) (muster_project_gpus_allocated{project=~\"$project\"})",
                            "{{project}}",
                        )],
                    ),
                    stack(
                        "none",
                        "GPUs waited for",
                        "By project.",
                        &[(
                            "sum by (project) (muster_project_gpus_queued{project=~\"$project\"})",
                            "{{project}}",
                        )],
                    ),
                    stack(
                        "s",
                        "Where GPU time went",
                        "GPU-seconds of the last 24 h.",
                        &[(
                            "sum by (part) (muster_project_gpu_seconds_1d{project=~\"$project\"})",
                            "{{part}}",
                        )],
                    ),
                    panel(
                        Show::Bars,
                        12,
                        "none",
                        "Jobs that ended",
                        "In the last 24 h.",
                        &[(
                            "sum by (outcome) (muster_project_jobs_ended_1d{project=~\"$project\"})",
                            "{{outcome}}",
                        )],
                    ),
                ],
            ),
        ],
    }
}
