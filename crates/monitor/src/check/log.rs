//! What the kernel's log says of the past.

use super::{Findings, NodeObservation, Verdict};
use muster_health::faults::{Catalogue, action_words};
use muster_model::fault::{FaultAction, FaultClass, ObservedFault};

pub(super) fn faults(look: &NodeObservation, found: &mut Findings) {
    if let (Some(why), None, false) = (&look.past.why_not, &look.past.from, look.gpus_only) {
        found.add(
            Verdict::Healthy,
            "no-kernel-log",
            None,
            format!("the kernel's log was not read: {why}"),
            "run it as root, or allow /dev/kmsg: faults of the past are not known",
        );
    }
    // One line for each code and device, however often it was seen.
    let mut reported: Vec<(&ObservedFault, u64)> = Vec::new();
    for f in &look.faults {
        match reported.iter_mut().find(|(t, _)| t.code == f.code && t.gpu == f.gpu) {
            Some((worst, n)) => {
                *n = n.saturating_add(f.count);
                if f.action > worst.action {
                    *worst = f;
                }
            }
            None => reported.push((f, f.count)),
        }
    }
    for (f, n) in reported {
        let verdict = verdict(f);
        let catalogue = Catalogue::builtin();
        let entry = catalogue.code(&f.code).and_then(|c| catalogue.entry(c));
        let times = if n == 1 { "once".into() } else { format!("{n} times") };
        let what = match entry {
            Some(e) => format!("{} ({}) in the kernel's log, {times}: {}", f.code, e.name, e.text),
            None => format!("{} in the kernel's log, {times}: {}", f.code, f.text),
        };
        let todo = match entry {
            Some(e) if f.class != FaultClass::Application => e.advice.to_string(),
            _ => action_words(f.action).to_string(),
        };
        found.add(verdict, &f.code, f.gpu, what, todo);
    }
}

/// A fault of the past is a reason to look, and some are reasons to stop.
fn verdict(f: &ObservedFault) -> Verdict {
    if matches!(f.class, FaultClass::Application | FaultClass::Notice) {
        return Verdict::Healthy;
    }
    match f.action {
        FaultAction::None | FaultAction::Watch | FaultAction::RestartJob => Verdict::Healthy,
        // It may have been reset since: then the driver says so, and a lasting fault shows itself.
        FaultAction::ResetWhenIdle | FaultAction::ResetGpu | FaultAction::Inspect => {
            Verdict::Degraded
        }
        FaultAction::Reboot | FaultAction::Replace => Verdict::Failed,
    }
}
