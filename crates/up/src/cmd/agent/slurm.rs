//! What Slurm gets: one line, and a node that is drained.

use muster_monitor::check::{Report, Verdict, named};
use muster_terminal::fail::Fail;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Longest reason; Slurm shows a part of it only.
const LONGEST: usize = 150;
/// `scontrol` that takes longer has no controller to talk to.
const PATIENCE: Duration = Duration::from_secs(20);

/// One line for a log.
pub(super) fn line(r: &Report) -> String {
    let word = match r.verdict {
        Verdict::Healthy => "OK",
        Verdict::Degraded => "DEGRADED",
        Verdict::Failed => "FAILED",
    };
    let prefix = format!("{}: ", r.verdict.word());
    let what = r.summary.strip_prefix(&prefix).unwrap_or(&r.summary);
    format!("{word} muster: {}\n", one_line(what))
}

/// The reason that `sinfo -R` shows.
fn reason(r: &Report) -> String {
    let worst = r.findings.iter().find(|f| f.verdict == Verdict::Failed);
    let what = worst.map_or_else(|| r.summary.clone(), |f| format!("{} ({})", named(f), f.code));
    format!("muster: {}", one_line(&what)).chars().take(LONGEST).collect()
}

/// Nothing that a shell, a log or `sinfo` could stumble over.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '"' | '\'' | '`' | '$') { ' ' } else { c })
        .collect()
}

/// Drains this node, unless it is drained already: then the reason is somebody else's.
pub(super) fn drain(r: &Report) -> Result<String, Fail> {
    // Slurm's own name for the node, where it started us.
    let node = std::env::var("SLURMD_NODENAME").ok().filter(|n| !n.is_empty());
    let node = node.unwrap_or_else(|| r.hostname.clone());
    let state = scontrol(&["--oneliner", "show", "node", &node])?;
    if is_drained(&state) {
        return Ok(format!("{node} is drained already; its reason is left as it is"));
    }
    let reason = reason(r);
    scontrol(&["update", &format!("NodeName={node}"), "State=DRAIN", &format!("Reason={reason}")])?;
    Ok(format!("{node} is drained: {reason}"))
}

fn is_drained(show: &str) -> bool {
    let state = show.split_whitespace().find_map(|w| w.strip_prefix("State=")).unwrap_or_default();
    state.split(['+', '*']).any(|s| matches!(s, "DRAIN" | "DRAINED" | "DRAINING"))
}

fn scontrol(args: &[&str]) -> Result<String, Fail> {
    let cannot = |e: std::io::Error| {
        Fail::failed(format!("cannot run scontrol: {e}"))
            .hint("it must be in PATH; --slurm alone needs no Slurm")
    };
    let mut child = muster_supervise::foreign("scontrol")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let until = Instant::now() + PATIENCE;
    // What it says fits into the pipe; so it can end before anybody reads.
    while child.try_wait().map_err(cannot)?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Fail::failed("scontrol does not answer")
                .hint("is slurmctld running, and does SLURM_CONF name the right file?"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let out = child.wait_with_output().map_err(cannot)?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(Fail::failed(format!("scontrol {}: {}", args[0], said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_monitor::check::Finding;

    fn report(verdict: Verdict) -> Report {
        Report {
            verdict,
            summary: "failed: GPU 3: it is \"gone\"\nfrom $HOME".into(),
            findings: vec![Finding {
                verdict,
                code: "gpu-lost".into(),
                gpu: Some(3),
                what: "it is `gone`".into(),
                todo: "restart".into(),
            }],
            ..Report::default()
        }
    }

    #[test]
    fn the_line_is_one_line() {
        let text = line(&report(Verdict::Failed));
        assert_eq!(text, "FAILED muster: GPU 3: it is  gone  from  HOME\n");
        assert!(line(&report(Verdict::Degraded)).starts_with("DEGRADED muster: "));
        assert!(line(&report(Verdict::Healthy)).starts_with("OK muster: "));
    }

    #[test]
    fn the_reason_names_the_worst_and_is_short() {
        assert_eq!(reason(&report(Verdict::Failed)), "muster: GPU 3: it is  gone  (gpu-lost)");
        let mut long = report(Verdict::Failed);
        long.findings[0].what = "x".repeat(1000);
        assert_eq!(reason(&long).chars().count(), LONGEST);
    }

    #[test]
    fn a_drained_node_is_known_by_its_state() {
        for (show, drained) in [
            ("NodeName=n1 State=IDLE+DRAIN ThreadsPerCore=1", true),
            ("NodeName=n1 State=DOWN*+DRAIN Reason=x", true),
            ("NodeName=n1 State=IDLE ThreadsPerCore=1", false),
            ("NodeName=n1 State=ALLOCATED Reason=DRAIN", false),
            ("", false),
        ] {
            assert_eq!(is_drained(show), drained, "{show}");
        }
    }
}
