//! Recording and alerting rules: the site's objectives, and what watches Muster itself from outside.

use muster_model::alert::Urgency;
use muster_model::slo::Objective;
use muster_model::units::Span;
use muster_slo::rules::{self, Rule, RuleGroup, RuleKind};

/// Name and expression of what is recorded.
const RECORDED: [(&str, &str); 5] = [
    (
        "muster:api_error:ratio_5m",
        "sum(rate(muster_http_requests_total{status=~\"5..\"}[5m])) / sum(rate(muster_http_requests_total[5m])) or vector(0)",
    ),
    (
        "muster:api_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (le) (rate(muster_http_request_seconds_bucket{route!~\".*(events|frames|logs).*\"}[5m])))",
    ),
    (
        "muster:cycle_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (le) (rate(muster_cycle_seconds_bucket[5m])))",
    ),
    (
        "muster:append_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (le) (rate(muster_store_append_seconds_bucket[5m])))",
    ),
    (
        "muster:gpus_out:ratio",
        "sum(muster_gpus_out_of_service) / (sum(muster_gpus_out_of_service) + sum(muster_gpus_in_service))",
    ),
];

/// An alert about Muster itself: name, expression, for how many minutes, urgency, what it says,
/// and what to do.
type Alert = (&'static str, &'static str, u64, Urgency, &'static str, &'static str);

#[rustfmt::skip]
const ALERTS: [Alert; 15] = [
    ("MusterServerDown", "absent(muster_leader)", 2, Urgency::Page,
        "no server reports metrics", "server-down"),
    ("MusterNoLeader", "max(muster_leader) < 1", 1, Urgency::Page,
        "no server decides: nothing is started, stopped or remediated", "no-leader"),
    ("MusterCannotWrite", "max(muster_write_stuck_seconds) > 15 or increase(muster_reloads_total[5m]) > 0", 0, Urgency::Page,
        "the log did not take a write", "cannot-write"),
    ("MusterAppendsSlow", "muster:append_seconds:p99_5m > 0.5", 10, Urgency::Ticket,
        "one append in a hundred takes more than half a second", "appends-slow"),
    ("MusterCyclesSlow", "muster:cycle_seconds:p99_5m > 1", 10, Urgency::Ticket,
        "one scheduling cycle in a hundred takes more than a second", "cycles-slow"),
    ("MusterApiErrors", "muster:api_error:ratio_5m > 0.05", 5, Urgency::Page,
        "more than one request in twenty fails", "api-errors"),
    ("MusterAutomationStopped", "max(muster_automation_stopped) == 1", 5, Urgency::Page,
        "no remediation runs until automation is resumed", "automation-stopped"),
    ("MusterCriticalFindings", "sum by (kind) (muster_findings_open{severity=\"critical\"}) > 0", 5, Urgency::Page,
        "something critical was found and is not settled", "critical-findings"),
    ("MusterRemediationsWait", "muster_remediations{step=\"approval\"} > 0", 30, Urgency::Ticket,
        "remediations pending approval", "remediations-wait"),
    ("MusterManyGpusOut", "muster:gpus_out:ratio > 0.1", 15, Urgency::Page,
        "more than one GPU in ten is out of service", "many-gpus-out"),
    ("MusterTelemetryStale", "muster_telemetry_nodes{state=\"silent\"} > 0", 10, Urgency::Ticket,
        "nodes do not report their GPUs any more", "telemetry-stale"),
    ("MusterOutputLost", "increase(muster_output_lost_bytes_total[10m]) > 0", 0, Urgency::Ticket,
        "job output could not be stored: is the disk full?", "output-lost"),
    ("MusterClockSet", "abs(muster_clock_step_seconds) > 0", 0, Urgency::Page,
        "the clock of the server's machine was set; the server does not follow it", "clock-set"),
    ("MusterTaskPanics", "increase(muster_task_panics_total[10m]) > 0", 0, Urgency::Ticket,
        "a part of the server panicked and was started again", "part-panicked"),
    ("MusterDetectorFails", "increase(muster_watch_failures_total[10m]) > 0", 0, Urgency::Ticket,
        "a detector fails", "detector-fails"),
];

/// What watches receivers of alerts, where objectives are judged.
const RECEIVERS: [Alert; 1] = [(
    "MusterReceiverBehind",
    "muster_receiver_waiting > 0 and muster_receiver_failures > 2",
    5,
    Urgency::Page,
    "a receiver does not accept alerts: people are not notified",
    "receiver-behind",
)];

fn alert(&(name, expr, minutes, urgency, summary, runbook): &Alert) -> Rule {
    Rule {
        kind: RuleKind::Alert {
            name: name.to_owned(),
            held: Span::mins(minutes),
            summary: summary.to_owned(),
        },
        expr: expr.to_owned(),
        labels: vec![
            ("severity", urgency.word().to_owned()),
            ("owner", "platform".to_owned()),
            ("runbook", runbook.to_owned()),
        ],
    }
}

fn group(name: &str, rules: Vec<Rule>) -> RuleGroup {
    RuleGroup { name: name.to_owned(), interval: Span::secs(30), rules }
}

/// What watches Muster itself.
#[must_use]
pub fn platform() -> Vec<RuleGroup> {
    let record = |(name, expr): &(&str, &str)| Rule {
        kind: RuleKind::Record((*name).to_owned()),
        expr: (*expr).to_owned(),
        labels: vec![("source", "muster".to_owned())],
    };
    vec![
        group("muster-recorded", RECORDED.iter().map(record).collect()),
        group("muster-platform", ALERTS.iter().map(alert).collect()),
    ]
}

/// The site's objectives, and whether people hear of them.
#[must_use]
pub fn objectives(objectives: &[Objective]) -> Vec<RuleGroup> {
    let mut out = rules::groups(objectives);
    out.push(group("muster-receivers", RECEIVERS.iter().map(alert).collect()));
    out
}

/// A file of rules, as Prometheus reads it.
#[must_use]
pub fn file(groups: &[RuleGroup]) -> String {
    let head =
        "# Made by `muster export prometheus-rules`; make it again instead of changing it.\n";
    format!("{head}{}", rules::yaml(groups))
}
