//! The same objectives as rules of Prometheus, so that both can be compared, and for sites that alert
//! from there. They read what the server shows for each objective: two counters, and since when they
//! count.

use crate::burn;
use muster_model::alert::Urgency;
use muster_model::distinct;
use muster_model::slo::{BurnRule, Objective, Ppm, Unit, Window};
use muster_model::units::Span;
use std::fmt::Write;

/// Counter of good ones, by `objective`.
pub const GOOD: &str = "muster_slo_good_total";
/// Counter of all, by `objective`.
pub const ALL: &str = "muster_slo_all_total";
/// Since when they are counted, by `objective`.
pub const SINCE: &str = "muster_slo_counted_since_seconds";

/// A group of rules that are evaluated together, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleGroup {
    /// The group's name, unique in its file.
    pub name: String,
    /// The time between two evaluations.
    pub interval: Span,
    /// Its rules, in the order in which they are evaluated.
    pub rules: Vec<Rule>,
}

/// A rule of Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Does it record or alert?
    pub kind: RuleKind,
    /// The expression, in PromQL.
    pub expr: String,
    /// Labels it adds, by name.
    pub labels: Vec<(&'static str, String)>,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleKind {
    /// Keeps the value under this name.
    Record(String),
    /// Alerts under this name.
    Alert {
        /// The alert's name.
        name: String,
        /// Once it has been so for this long.
        held: Span,
        /// In a sentence.
        summary: String,
    },
}

/// The series that holds the share of bad ones over a window.
#[must_use]
pub fn recorded(window: Span) -> String {
    format!("muster:slo_bad:ratio_{}", length(window))
}

/// A length as Prometheus writes it.
fn length(s: Span) -> String {
    // One unit, so that a name holds it.
    for (ms, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if s.0 > 0 && s.0.is_multiple_of(ms) {
            return format!("{}{unit}", s.0 / ms);
        }
    }
    format!("{}ms", s.0)
}

fn counter(name: &str, o: &Objective, window: Span) -> String {
    format!("increase({name}{{objective=\"{}\"}}[{}])", o.name, length(window))
}

fn record(o: &Objective, window: Span) -> Rule {
    let (good, all) = (counter(GOOD, o, window), counter(ALL, o, window));
    // What was not counted yet is taken as good.
    let counted = format!("time() - {SINCE}{{objective=\"{}\"}}", o.name);
    let seconds = window.0 / 1000;
    Rule {
        kind: RuleKind::Record(recorded(window)),
        expr: format!("(1 - {good} / {all}) * clamp_max(({counted}) / {seconds}, 1)"),
        labels: vec![("objective", o.name.to_string())],
    }
}

/// A share of bad ones, exact: `0.0144`.
fn share(rest: Ppm, factor: u32) -> String {
    let n = u64::from(rest.0) * u64::from(factor);
    let text = format!("{}.{:09}", n / 1_000_000_000, n % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn labels(o: &Objective, urgency: Urgency) -> Vec<(&'static str, String)> {
    let mut out = vec![("objective", o.name.to_string()), ("severity", urgency.word().to_owned())];
    if !o.owner.is_empty() {
        out.push(("owner", o.owner.clone()));
    }
    out
}

/// Where time is counted: at least so much of it was bad, as if there were one thing all the time.
fn enough(o: &Objective, window: Span, factor: u32) -> Option<String> {
    let (good, all) = (counter(GOOD, o, window), counter(ALL, o, window));
    let bad = u128::from(o.target.rest().0) * u128::from(factor) * u128::from(window.0);
    let bad = bad / 1_000_000_000;
    let time = o.sli.unit() == Unit::Time;
    time.then(|| format!(" and on (objective) ({all} - {good} > {bad})"))
}

fn burning(o: &Objective, r: &BurnRule) -> Rule {
    let most = share(o.target.rest(), r.factor.0);
    let of = |w: Span| format!("{}{{objective=\"{}\"}} > {most}", recorded(w), o.name);
    let mut expr = of(r.long);
    if r.short != r.long {
        write!(expr, " and {}", of(r.short)).ok();
    }
    if r.least > 0 {
        // Increases are extrapolated, so they are a little off whole numbers.
        let (good, all) = (counter(GOOD, o, r.long), counter(ALL, o, r.long));
        write!(expr, " and on (objective) ({all} - {good} > {}.5)", r.least - 1).ok();
    }
    let windows = distinct([r.long, r.short]);
    expr.extend(windows.into_iter().filter_map(|w| enough(o, w, r.factor.0)));
    let over = burn::over(r);
    let summary = format!("{}: burn rate {} over {over}", o.name, r.factor);
    Rule {
        kind: RuleKind::Alert { name: "MusterBudgetBurns".to_owned(), held: r.held, summary },
        expr,
        // Two rules of one objective may hold at once, and are two alerts.
        labels: [labels(o, r.urgency), vec![("window", length(over))]].concat(),
    }
}

/// The rules of a set of objectives. A calendar month cannot be said there: its burn rules are, its
/// budget is not.
#[must_use]
pub fn groups(objectives: &[Objective]) -> Vec<RuleGroup> {
    let of = |o: &Objective| {
        let rules = burn::rules(o);
        let windows = rules.iter().flat_map(|r| [r.short, r.long]);
        let budget = match o.window {
            Window::Rolling(w) => Some(w),
            Window::Month => None,
        };
        let windows = distinct(windows.chain(budget));
        let mut out: Vec<Rule> = windows.into_iter().map(|w| record(o, w)).collect();
        out.extend(rules.iter().map(|r| burning(o, r)));
        if let Some(w) = budget {
            let most = share(o.target.rest(), 1000);
            let mut expr = format!("{}{{objective=\"{}\"}} >= {most}", recorded(w), o.name);
            expr.extend(enough(o, w, 1000));
            let summary = format!("{}: error budget of {} exhausted", o.name, o.window);
            out.push(Rule {
                kind: RuleKind::Alert {
                    name: "MusterBudgetExhausted".to_owned(),
                    held: Span(0),
                    summary,
                },
                expr,
                labels: labels(o, Urgency::Ticket),
            });
        }
        RuleGroup { name: format!("muster-slo-{}", o.name), interval: Span::mins(1), rules: out }
    };
    objectives.iter().map(of).collect()
}

/// Text in quotes, as YAML and JSON read it. What would be a template is taken literally.
fn quoted(s: &str, template: bool) -> String {
    let s = if template { s.replace("{{", "{{\"{{\"}}") } else { s.to_owned() };
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                write!(out, "\\u{:04x}", u32::from(c)).ok();
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A file of rules.
#[must_use]
pub fn yaml(groups: &[RuleGroup]) -> String {
    let mut out = String::from("groups:\n");
    for g in groups {
        let (name, every) = (quoted(&g.name, false), length(g.interval));
        writeln!(out, "  - name: {name}\n    interval: {every}\n    rules:").ok();
        for r in &g.rules {
            match &r.kind {
                RuleKind::Record(name) => writeln!(out, "      - record: {}", quoted(name, false)),
                RuleKind::Alert { name, .. } => {
                    writeln!(out, "      - alert: {}", quoted(name, false))
                }
            }
            .ok();
            writeln!(out, "        expr: {}", quoted(&r.expr, false)).ok();
            if let RuleKind::Alert { held, .. } = &r.kind
                && held.0 > 0
            {
                writeln!(out, "        for: {}", length(*held)).ok();
            }
            writeln!(out, "        labels:").ok();
            for (k, v) in &r.labels {
                writeln!(out, "          {k}: {}", quoted(v, true)).ok();
            }
            if let RuleKind::Alert { summary, .. } = &r.kind {
                writeln!(out, "        annotations:\n          summary: {}", quoted(summary, true))
                    .ok();
            }
        }
    }
    if groups.is_empty() { "groups: []\n".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_as_rules() {
        let text = r#"{"name":"api","owner":"on \"call\" {{ . }}","sli":"api_availability","target":"99.9%","window":"30d",
            "burn":[{"factor":14.4,"long":"1h","short":"5m","urgency":"page"},
                    {"factor":"2x","long":"5m","short":"5m","for":"15m","least":3,"urgency":"page"}]}"#;
        let o: Objective = serde_json::from_str(text).unwrap();
        let want = r#"groups:
  - name: "muster-slo-api"
    interval: 1m
    rules:
      - record: "muster:slo_bad:ratio_5m"
        expr: "(1 - increase(muster_slo_good_total{objective=\"api\"}[5m]) / increase(muster_slo_all_total{objective=\"api\"}[5m])) * clamp_max((time() - muster_slo_counted_since_seconds{objective=\"api\"}) / 300, 1)"
        labels:
          objective: "api"
      - record: "muster:slo_bad:ratio_1h"
        expr: "(1 - increase(muster_slo_good_total{objective=\"api\"}[1h]) / increase(muster_slo_all_total{objective=\"api\"}[1h])) * clamp_max((time() - muster_slo_counted_since_seconds{objective=\"api\"}) / 3600, 1)"
        labels:
          objective: "api"
      - record: "muster:slo_bad:ratio_30d"
        expr: "(1 - increase(muster_slo_good_total{objective=\"api\"}[30d]) / increase(muster_slo_all_total{objective=\"api\"}[30d])) * clamp_max((time() - muster_slo_counted_since_seconds{objective=\"api\"}) / 2592000, 1)"
        labels:
          objective: "api"
      - alert: "MusterBudgetBurns"
        expr: "muster:slo_bad:ratio_1h{objective=\"api\"} > 0.0144 and muster:slo_bad:ratio_5m{objective=\"api\"} > 0.0144"
        labels:
          objective: "api"
          severity: "page"
          owner: "on \"call\" {{\"{{\"}} . }}"
          window: "1h"
        annotations:
          summary: "api: burn rate 14.4x over 1h"
      - alert: "MusterBudgetBurns"
        expr: "muster:slo_bad:ratio_5m{objective=\"api\"} > 0.002 and on (objective) (increase(muster_slo_all_total{objective=\"api\"}[5m]) - increase(muster_slo_good_total{objective=\"api\"}[5m]) > 2.5)"
        for: 15m
        labels:
          objective: "api"
          severity: "page"
          owner: "on \"call\" {{\"{{\"}} . }}"
          window: "20m"
        annotations:
          summary: "api: burn rate 2x over 20m"
      - alert: "MusterBudgetExhausted"
        expr: "muster:slo_bad:ratio_30d{objective=\"api\"} >= 0.001"
        labels:
          objective: "api"
          severity: "ticket"
          owner: "on \"call\" {{\"{{\"}} . }}"
        annotations:
          summary: "api: error budget of 30d exhausted"
"#;
        assert_eq!(yaml(&groups(std::slice::from_ref(&o))), want);
        assert_eq!(yaml(&[]), "groups: []\n");
    }

    #[test]
    fn every_default_has_its_rules() {
        let all = crate::defaults::set(1);
        let groups = groups(&all);
        assert_eq!(groups.len(), all.len());
        assert!(groups.iter().all(|g| g.rules.len() > 3));
    }
}
