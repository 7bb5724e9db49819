//! `muster automation`: how far the control plane's own hand may go.

use clap::{Args, Subcommand};
use muster_api::Automation;
use muster_model::remediation::{Action, Mode, in_nodes, taken_by};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::on;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell};
use muster_terminal::output::time::{full, relative};

/// Show what automation does and its limits; stop or resume it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster automation\n  muster automation stop --reason 'the network is being rebuilt'\n  muster automation resume\n\n\
While it is stopped, findings are still recorded and jobs still restart; nothing is done to nodes.\n\
`muster policy apply` sets the modes and limits (`remediations`)."
)]
pub(crate) struct AutomationCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Nothing more is done to nodes until it is resumed
    Stop {
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Remediations run again
    Resume,
}

impl AutomationCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let (after, asked) = match self.verb {
            None => (client.automation().await?, true),
            Some(Verb::Stop { reason }) => (client.stop_automation(&reason).await?, false),
            Some(Verb::Resume) => (client.resume_automation().await?, false),
        };
        ctx.show(&after, |a| {
            if asked { text(a, now(), on()) } else { format!("automation: {}\n", brief(a)) }
        })?;
        Ok(0)
    }
}

/// In a line.
pub(crate) fn brief(a: &Automation) -> String {
    let (out, nodes, most) = (in_nodes(a.out, a.isolated_milli), a.nodes, a.out_at_most);
    let held = match taken_by(a.out, a.isolated_milli, a.out_approved) {
        None => format!("{out} of {nodes} nodes out by automation, at most {most}"),
        Some(who) => {
            format!("{out} of {nodes} nodes out ({who}), automation takes at most {most}")
        }
    };
    match (a.state.as_str(), &a.reason) {
        ("stopped", Some(why)) => {
            let who = if a.by_operator { "stopped" } else { "stopped itself" };
            format!("{who}: {why}; `muster automation resume` resumes it")
        }
        ("off", _) => "off: the policy says `remediations.enabled: false`".into(),
        (state, _) => format!("{state}; {held}"),
    }
}

fn word(m: Mode) -> &'static str {
    match m {
        Mode::DetectOnly => "no action (detect-only)",
        Mode::Approve => "pending approval",
        Mode::Automatic => "automatic",
    }
}

fn text(a: &Automation, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Automation", &a.state);
    f.line("Stopped", a.stopped_at.map(|t| full(now, t)).unwrap_or_default());
    f.line("Because", a.reason.as_deref().unwrap_or_default());
    f.line(
        "By",
        match (a.stopped_at, a.by_operator) {
            (None, _) => "",
            (Some(_), true) => "an operator",
            (Some(_), false) => "itself",
        },
    );
    f.line("Resumed", a.resumed_at.map(|t| full(now, t)).unwrap_or_default());
    let gpus = |milli: u32| if milli > 0 { ", with isolated GPUs" } else { "" };
    let (out, with) = (in_nodes(a.out, a.isolated_milli), gpus(a.isolated_milli));
    // What operators approved counts in the limits, and is none of what automation takes.
    let most = |who: &Option<String>, n: u32| match who {
        None => format!("at most {n}"),
        Some(_) => format!("automation takes at most {n}"),
    };
    let who = taken_by(a.out, a.isolated_milli, a.out_approved);
    f.line("Out now", format!("{out} of {} nodes, {}{with}", a.nodes, most(&who, a.out_at_most)));
    f.line("Taken by", who.unwrap_or_default());
    let taken = u32::try_from(a.taken.len()).unwrap_or(u32::MAX);
    let (hour, with) = (in_nodes(taken, a.isolated_hour_milli), gpus(a.isolated_hour_milli));
    let approved = a.taken.iter().filter(|n| n.approved).count();
    let approved = u32::try_from(approved).unwrap_or(u32::MAX);
    let who = taken_by(taken, a.isolated_hour_milli, approved);
    let limit = most(&who, a.taken_at_most);
    f.line("This hour", format!("{hour} taken out of service, {limit}{with}"));
    f.line("Taken by", who.unwrap_or_default());
    f.section("Modes", on);
    let mut t = Table::new(&["ACTION", "MEANS", "MODE"]);
    for action in Action::ALL {
        let Some(mode) = a.modes.get(action.word()) else { continue };
        t.row(vec![cell(action.word()), cell(action.words()), cell(word(*mode))]);
    }
    f.table(&t, on);
    if !a.taken.is_empty() {
        f.section("Taken out of service within the hour", on);
        for n in &a.taken {
            let by = if n.approved { ", approved by an operator" } else { "" };
            f.text(&format!("{} {}{by}", n.node, relative(now, n.at)));
        }
    }
    f.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_api::NodeTakenOut;
    use muster_model::remediation::Remediations;

    fn taken(node: &str, approved: bool) -> NodeTakenOut {
        NodeTakenOut { at: Time(60_000).into(), node: node.into(), approved }
    }

    #[test]
    fn what_operators_approved_is_not_called_automations() {
        let names = [("n1", true), ("n2", true), ("n3", true), ("n4", false), ("n5", false)];
        let taken = names.map(|(node, approved)| taken(node, approved)).into();
        let a = Automation { nodes: 17, out: 5, out_approved: 3, taken, ..automation() };
        let who = "3 approved by operators, 2 by automation";
        assert_eq!(
            brief(&a),
            format!("running; 5 of 17 nodes out ({who}), automation takes at most 3")
        );
        let text = super::text(&a, Time(120_000), false);
        for part in [
            "Out now:      5 of 17 nodes, automation takes at most 3\n",
            "This hour:    5 taken out of service, automation takes at most 2\n",
            "n1 1m ago, approved by an operator\n",
            "n4 1m ago\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert_eq!(text.matches(&format!("Taken by:     {who}\n")).count(), 2, "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    pub(crate) fn automation() -> Automation {
        let policy = Remediations::default();
        Automation {
            state: "running".into(),
            stopped_at: None,
            reason: None,
            by_operator: false,
            resumed_at: None,
            modes: Action::ALL.iter().map(|x| (x.word().to_owned(), policy.mode(*x))).collect(),
            nodes: 16,
            out: 1,
            out_approved: 0,
            isolated_milli: 0,
            out_at_most: 3,
            taken: vec![taken("hgx-03", false)],
            isolated_hour_milli: 0,
            taken_at_most: 2,
        }
    }

    #[test]
    fn automation_is_reported_with_what_it_may_still_do() {
        let text = text(&automation(), Time(120_000), false);
        for part in [
            "Out now:      1 of 16 nodes, at most 3",
            "This hour:    1 taken out of service, at most 2",
            "drain        drain the node and test it                automatic",
            "reboot       reboot the node                           pending approval",
            "hgx-03 1m ago",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        let isolated =
            Automation { isolated_milli: 2125, isolated_hour_milli: 125, ..automation() };
        let lines = super::text(&isolated, Time(120_000), false);
        for part in [
            "Out now:      3.125 of 16 nodes, at most 3, with isolated GPUs",
            "This hour:    1.125 taken out of service, at most 2, with isolated GPUs",
        ] {
            assert!(lines.contains(part), "{part:?} in\n{lines}");
        }
        assert!(brief(&isolated).contains("3.125 of 16 nodes out by automation"));
        let mut stopped = automation();
        stopped.state = "stopped".into();
        stopped.reason = Some("too many findings".into());
        assert!(brief(&stopped).starts_with("stopped itself: too many findings"));
    }
}
