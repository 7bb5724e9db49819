//! `muster explain xid 79`: what a fault is, without a server.

use crate::cmd::failure_modes::steps;
use muster_health::detect::fault::remediated;
use muster_health::faults::{
    Catalogue, Code, Context, FaultAttribution, FaultReport, Reader, Rule, View, action_words,
    attribution_words, class_words,
};
use muster_model::fault::{FaultAction, FaultClass};
use muster_model::finding::Severity;
use muster_model::remediation::Action;
use muster_model::units::Time;
use muster_terminal::fail::{Fail, NOT_FOUND};
use muster_terminal::output::colour::{self, Style, paint};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// The words before a code.
pub(super) const KINDS: [&str; 3] = ["xid", "sxid", "fault"];

/// A fault as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct FaultExplanation {
    kind: &'static str,
    code: String,
    name: &'static str,
    class: FaultClass,
    action: FaultAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat: Option<ShownRepeat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// What the line that was given says beyond its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    attribution: FaultAttribution,
    /// The failure mode that it is a finding of, where something is done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<Severity>,
    /// Remediation steps of that failure mode, unless the policy says otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remediation: Vec<Action>,
    generations: Vec<&'static str>,
    text: &'static str,
    advice: &'static str,
    views: Vec<View>,
    disputed: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    rule: &'static str,
}

#[derive(Debug, Serialize)]
struct ShownRepeat {
    count: u32,
    within: String,
    action: FaultAction,
}

/// Which node is asked about.
#[derive(Debug, Default)]
pub(super) struct FaultScope<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) sku: &'a str,
    pub(super) pool: &'a str,
}

/// What is known of a fault.
pub(super) fn explain(
    kind: &str,
    given: &str,
    place: &FaultScope<'_>,
) -> Result<FaultExplanation, Fail> {
    let catalogue = Arc::new(catalogue(place.file)?);
    let line = if kind == "fault" { in_line(&catalogue, given, place) } else { None };
    let code = match &line {
        Some(seen) => seen.code,
        None => code(&catalogue, kind, given)?,
    };
    let Some(entry) = catalogue.entry(code) else {
        return Err(Fail::new(NOT_FOUND, format!("nothing is known of `{code}`")).hint(
            "on a node it is watched and reported as unknown; an overrides file can classify it",
        ));
    };
    let mut rule = catalogue.evaluate(code, place.sku, place.pool).clone();
    let mut detail = None;
    if let Some(seen) = line {
        (rule.class, rule.action) = (seen.class, seen.action);
        detail = seen.detail;
    }
    let Rule { class, action, repeat, note } = rule;
    let found = remediated(&code.to_string(), (class, action), gpu_of(code, class));
    Ok(FaultExplanation {
        kind: "Fault",
        code: code.to_string(),
        name: entry.name,
        class,
        action,
        repeat: repeat.map(|r| ShownRepeat {
            count: r.count,
            within: r.within.to_string(),
            action: r.action,
        }),
        note,
        detail,
        attribution: entry.attribution,
        finding: found.map(|(mode, _)| mode.code),
        severity: found.map(|(_, severity)| severity),
        remediation: found.map(|(mode, _)| mode.steps.to_vec()).unwrap_or_default(),
        generations: entry.generations.clone(),
        text: entry.text,
        advice: entry.advice,
        views: entry.views.clone(),
        disputed: entry.disputed,
        rule: entry.special,
    })
}

/// Some GPU, where the fault is about one.
fn gpu_of(code: Code, class: FaultClass) -> Option<u32> {
    use FaultClass::{Bus, Gpu, Link, Memory};
    (matches!(code, Code::Xid(_)) || matches!(class, Bus | Gpu | Link | Memory)).then_some(0)
}

fn catalogue(file: Option<&Path>) -> Result<Catalogue, Fail> {
    let Some(path) = file else { return Ok(Catalogue::builtin().clone()) };
    let text = std::fs::read_to_string(path)
        .map_err(|e| Fail::usage(format!("cannot read {}: {e}", path.display())))?;
    Catalogue::builtin()
        .with_overrides(&text)
        .map_err(|e| Fail::usage(format!("{}:{}: {}", path.display(), e.line, e.what)).hint(e.hint))
}

fn code(catalogue: &Catalogue, kind: &str, given: &str) -> Result<Code, Fail> {
    let given = given.trim();
    let number = |prefix: &str| {
        let name = given.strip_prefix(prefix).unwrap_or(given);
        Code::numbered(&format!("{prefix}{name}"))
    };
    let (found, hint) = match kind {
        "xid" => (number("xid-"), "XIDs are numbers: `muster explain xid 79`".to_owned()),
        "sxid" => (number("sxid-"), "SXids are numbers: `muster explain sxid 12028`".to_owned()),
        _ => (catalogue.code(given), names(catalogue)),
    };
    found.ok_or_else(|| {
        let given: String = given.chars().take(80).collect();
        Fail::new(NOT_FOUND, format!("there is no {kind} `{given}`")).hint(hint)
    })
}

/// What a line of the kernel's log shows.
fn in_line(catalogue: &Arc<Catalogue>, line: &str, place: &FaultScope<'_>) -> Option<FaultReport> {
    let (sku, pool) = (place.sku.to_owned(), place.pool.to_owned());
    let context = Context { driver_major: None, sku, pool };
    let mut reader = Reader::new(Arc::clone(catalogue), context);
    reader.line(Time(0), line.as_bytes());
    reader.take(Time(0)).pop()
}

fn names(catalogue: &Catalogue) -> String {
    let names: Vec<&str> = catalogue
        .entries()
        .filter_map(|e| match e.code {
            Code::Other(name) => Some(name),
            Code::Xid(_) | Code::Sxid(_) => None,
        })
        .collect();
    format!("a name, `xid-79`, `sxid-12028`, or a line of the log; names: {}", names.join(", "))
}

/// What is known of the fault as text, for people.
pub(super) fn text(shown: &FaultExplanation) -> String {
    text_for(shown, colour::on())
}

fn text_for(shown: &FaultExplanation, on: bool) -> String {
    let FaultExplanation { code, name, text, advice, .. } = shown;
    let mut out = format!("{} {name}\n", paint(code, Style::Bold, on));
    out.push_str(&format!("  {text}\n\n"));
    let mut row = |label: &str, value: &str| out.push_str(&format!("{label:<12} {value}\n"));
    row("Component", class_words(shown.class));
    row("Attribution", attribution_words(shown.attribution));
    let style = if shown.action >= FaultAction::ResetWhenIdle { Style::Warn } else { Style::Plain };
    row("Asks for", &paint(action_words(shown.action), style, on));
    if let Some(r) = &shown.repeat {
        let words = action_words(r.action);
        row("", &format!("{} times within {}: {words}", r.count, r.within));
    }
    if let (Some(mode), Some(severity)) = (shown.finding, shown.severity) {
        row("Finding", &format!("{mode} ({})", severity.word()));
        row("Remediation", &format!("by default: {}", steps(&shown.remediation)));
    }
    if let Some(detail) = &shown.detail {
        row("This line", detail);
    }
    if let Some(note) = &shown.note {
        row("Why here", note);
    }
    row("What to do", advice);
    if !shown.rule.is_empty() {
        row("Rule", shown.rule);
    }
    if !shown.generations.is_empty() {
        row("Seen on", &shown.generations.join(", "));
    }
    if !shown.views.is_empty() {
        let head = if shown.disputed { "Others say, and disagree:" } else { "Others say:" };
        out.push_str(&format!("\n{}\n", paint(head, Style::Bold, on)));
        for v in &shown.views {
            out.push_str(&format!("  {:<18} {}\n", v.source, v.says));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: &str, given: &str) -> FaultExplanation {
        explain(kind, given, &FaultScope::default()).expect("it is known")
    }

    #[test]
    fn a_tired_person_reads_what_it_is_and_what_to_do() {
        assert_eq!(
            text_for(&shown("xid", "79"), false),
            "xid-79 RC_GPU_HAS_FALLEN_OFF_THE_BUS\n  \
             The GPU does not answer on PCIe any more.\n\n\
             Component    PCIe\n\
             Attribution  the platform, not the job\n\
             Asks for     restart the node\n\
             \x20            5 times within 1d: inspect the hardware\n\
             Finding      gpu-off-bus (critical)\n\
             Remediation  by default: reboot the node (on approval), then power-cycle the node (on \
             approval), then have the part replaced (on approval)\n\
             What to do   Restart the node. Again: check power, heat and seat, then replace.\n\
             Seen on      A100, H100, B100, GB200\n\n\
             Others say:\n  \
             NVIDIA             restart the node\n  \
             gpud               restart the node, then inspect, fatal\n  \
             Azure NHC          fails the node\n  \
             Crusoe             unhealthy\n"
        );
    }

    #[test]
    fn codes_are_found_as_people_write_them() {
        assert_eq!(shown("xid", "xid-79").code, "xid-79");
        assert_eq!(shown("sxid", "12028").code, "sxid-12028");
        assert_eq!(shown("fault", "oom").code, "oom");
        assert_eq!(shown("fault", "xid-13").code, "xid-13");
        let line = "[12.3] NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=x, MMU Fault";
        assert_eq!(shown("fault", line).code, "xid-31");
        let verdict = shown("fault", "NVRM: Xid (PCI:0000:3b:00): 154, changed to 0x2 (OS Reboot)");
        assert_eq!(verdict.action, FaultAction::Reboot);
        assert!(text_for(&verdict, false).contains("This line    the driver's verdict\n"));
        assert!(text_for(&shown("xid", "63"), false).contains("Others say, and disagree:"));
        let trace = text_for(&shown("xid", "45"), false);
        assert!(trace.contains("Never acts") && !trace.contains("Remediation"), "{trace}");
    }

    #[test]
    fn what_is_not_known_is_not_found() {
        for (kind, given) in
            [("xid", "x"), ("xid", "0"), ("xid", "999"), ("sxid", "79"), ("fault", "oops")]
        {
            let fail = explain(kind, given, &FaultScope::default()).expect_err("not known");
            assert_eq!(fail.code, NOT_FOUND, "{kind} {given}");
            assert!(fail.hint.is_some());
        }
        let fail = explain("fault", "oops", &FaultScope::default()).expect_err("not known");
        assert!(fail.hint.is_some_and(|h| h.contains("oom-host")));
    }

    #[test]
    fn programs_read_one_document() {
        let json = serde_json::to_value(shown("xid", "94")).expect("JSON");
        assert_eq!(json["kind"], "Fault");
        assert_eq!(json["class"], "memory");
        assert_eq!(json["action"], "restart_job");
        assert_eq!(json["attribution"], "platform");
        assert_eq!(json["disputed"], true);
        assert_eq!(json["repeat"]["count"], 5);
        assert_eq!(json["finding"], "ecc-uncorrectable");
        assert_eq!(json["severity"], "degraded");
        assert_eq!(json["remediation"], serde_json::json!(["reset_gpu", "replace"]));
        assert_eq!(json["views"][0]["source"], "NVIDIA");
    }

    #[test]
    fn an_overrides_file_is_shown_for_the_nodes_that_it_is_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("faults.toml");
        let text =
            "[[fault]]\ncode = \"xid-63\"\npool = \"dev\"\naction = \"watch\"\nnote = \"x\"\n";
        std::fs::write(&file, text).expect("written");
        let at = |pool| FaultScope { file: Some(&file), sku: "", pool };
        let dev = explain("xid", "63", &at("dev")).expect("known");
        assert_eq!(dev.action, FaultAction::Watch);
        assert!(text_for(&dev, false).contains("Why here     x\n"));
        let train = explain("xid", "63", &at("train")).expect("known");
        assert_eq!(train.action, FaultAction::ResetWhenIdle);
        std::fs::write(&file, "[[fault]]\ncode = \"xid-63\"\nactoin = 1\n").expect("written");
        let fail = explain("xid", "63", &at("dev")).expect_err("a bad file");
        assert_eq!(fail.code, muster_terminal::fail::USAGE);
        assert!(fail.message.contains("faults.toml:3:"), "{}", fail.message);
    }
}
