//! `muster health`: what is wrong now, worst first.

use clap::Args;
use muster_api::{HealthSummary, waiting_words};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::{self, Style, paint};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::plural;

/// Show what is wrong now, worst first, and what is pending approval
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster health\n  muster health --watch\n  muster health -o json | jq '.waiting[].id'\n\n\
Worst first: remediations pending approval, incidents, findings, breakers.\n\
`muster findings`, `muster incident` and `muster remediations` show more of each."
)]
pub(crate) struct Health {
    /// Draw again whenever something happens
    #[arg(short, long)]
    watch: bool,
}

impl Health {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        if self.watch {
            return super::watch::watch(ctx, &client, async || {
                Ok(text(&client.health().await?, now(), colour::on()))
            })
            .await;
        }
        let summary = client.health().await?;
        ctx.show(&summary, |s| text(s, now(), colour::on()))?;
        Ok(0)
    }
}

fn text(s: &HealthSummary, now: Time, on: bool) -> String {
    let style = match s.state.as_str() {
        "well" => Style::Good,
        "attention" => Style::Warn,
        _ => Style::Bad,
    };
    let mut f = Facts::new();
    f.0.push_str(&format!("{:<14}{}\n", "Site:", paint(s.words(), style, on)));
    for r in &s.reasons {
        f.text(r);
    }
    for line in s.beside() {
        f.text(&line);
    }
    if let Some(a) = &s.automation {
        f.line("Automation", super::automation::brief(a));
    }
    f.line("Remediations", waiting_words(s.waiting_counts()));
    let nodes: Vec<String> = s.nodes.iter().map(|(state, n)| format!("{n} {state}")).collect();
    f.line("Nodes", nodes.join(", "));
    if s.spares > 0 {
        f.line("Spares", format!("{} of {} left", s.spares_left, s.spares));
    }
    let (delayed, pending): (Vec<_>, Vec<_>) = s.waiting.iter().cloned().partition(|r| r.delayed);
    for (title, some) in [("Pending approval", pending), ("Delayed", delayed)] {
        if !some.is_empty() {
            f.section(title, on);
            f.table(&super::remediations::table(&some, now), on);
            f.text("`muster remediations approve ID` runs one, `deny ID` ends it");
        }
    }
    if !s.incidents.is_empty() {
        f.section("Incidents", on);
        f.table(&super::incident::table(&s.incidents, now), on);
    }
    if !s.findings.is_empty() {
        f.section("Findings", on);
        f.table(&super::findings::table(&s.findings, now, true), on);
        let more = s.findings_open.saturating_sub(s.findings.len() as u64);
        if more > 0 {
            let more = usize::try_from(more).unwrap_or(usize::MAX);
            f.text(&format!("and {}; `muster findings` lists all", plural(more, "more finding")));
        }
    }
    if !s.breakers.is_empty() {
        f.section("Breakers", on);
        f.table(&super::breakers::table(&s.breakers, now), on);
    }
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::Kind;

    fn summary() -> HealthSummary {
        HealthSummary {
            kind: Kind::Health,
            state: "well".into(),
            service_affected: false,
            reasons: Vec::new(),
            incidents: Vec::new(),
            findings: Vec::new(),
            findings_open: 0,
            waiting: Vec::new(),
            remediations_open: 0,
            remediations_in_progress: 0,
            on_probation: 0,
            breakers: Vec::new(),
            automation: Some(super::super::automation::tests::automation()),
            nodes: [("ready".to_owned(), 15), ("quarantined".to_owned(), 1)].into(),
            nodes_out: 1,
            spares_left: 1,
            spares: 2,
            tickets_open: 0,
            burning: Vec::new(),
        }
    }

    #[test]
    fn a_site_that_is_well_is_reported_in_four_lines() {
        assert_eq!(
            text(&summary(), Time(0), false),
            "Site:         healthy\n\
             Automation:   running; 1 of 16 nodes out by automation, at most 3\n\
             Nodes:        1 quarantined, 15 ready\n\
             Spares:       1 of 2 left\n"
        );
    }

    #[test]
    fn tickets_and_objectives_that_burn_are_named_on_a_healthy_site() {
        let mut s = summary();
        s.tickets_open = 1;
        s.burning = vec!["interruptions".into()];
        let shown = text(&s, Time(0), false);
        let first = "Site:         healthy\n  1 ticket is open\n  1 SLO burns: interruptions\n";
        assert!(shown.starts_with(first), "{shown}");
        s.tickets_open = 3;
        s.burning.push("recovery".into());
        let shown = text(&s, Time(0), false);
        let more = "  3 tickets are open\n  2 SLOs burn: interruptions, recovery\n";
        assert!(shown.contains(more), "{shown}");
    }

    #[test]
    fn no_remediation_is_called_in_progress_where_none_is_open() {
        let mut s = summary();
        s.state = "attention".into();
        s.reasons = vec!["1 breaker is not closed".into()];
        let shown = text(&s, Time(0), false);
        assert!(shown.starts_with("Site:         something is wrong\n  1 breaker"), "{shown}");
        // One that is open because its node is on probation: that is in service.
        s.remediations_open = 1;
        s.on_probation = 1;
        let shown = text(&s, Time(0), false);
        assert!(shown.starts_with("Site:         something is wrong\n  1 breaker"), "{shown}");
        assert!(shown.contains("  1 node is in service on probation\n"), "{shown}");
        s.remediations_in_progress = 1;
        let shown = text(&s, Time(0), false);
        assert!(shown.contains("something is wrong; remediation in progress\n"), "{shown}");
    }

    #[test]
    fn a_tenant_is_not_informed_that_the_site_is_well() {
        let mut s = summary();
        s.automation = None;
        let first = |s: &HealthSummary| text(s, Time(0), false).lines().next().unwrap().to_owned();
        let well = "nothing is known to be wrong with your jobs, and no page is open";
        assert_eq!(first(&s), format!("Site:         {well}"));
        s.state = "attention".into();
        s.reasons = vec!["the operators of this site were paged".into()];
        assert_eq!(first(&s), "Site:         something is wrong");
        assert!(text(&s, Time(0), false).contains("were paged"));
    }

    #[test]
    fn what_waits_comes_first_and_says_what_to_do() {
        let mut s = summary();
        s.state = "bad".into();
        s.reasons = vec!["1 remediation pending approval".into()];
        s.waiting = vec![muster_api::samples::remediation(31)];
        s.findings = vec![muster_api::samples::finding(12)];
        s.findings_open = 4;
        s.incidents = vec![muster_api::samples::incident()];
        let text = text(&s, Time(120_000), false);
        let order =
            ["needs an operator", "Pending approval", "31", "Incidents", "Findings", "and 3 more"];
        let mut at = 0;
        for part in order {
            let here = text[at..].find(part).unwrap_or_else(|| panic!("{part:?} in\n{text}"));
            at += here;
        }
        assert!(!text.contains("Breakers"), "{text}");
    }

    #[test]
    fn what_is_delayed_is_listed_apart() {
        let mut s = summary();
        s.waiting = [31, 32].map(muster_api::samples::remediation).into();
        s.waiting[1].step = muster_model::remediation::RemediationStep::Proposed;
        s.waiting[1].delayed = true;
        let text = text(&s, Time(120_000), false);
        assert!(text.contains("Remediations: 1 to approve, 1 delayed\n"), "{text}");
        let (first, then) = text.split_once("Delayed").unwrap_or_else(|| panic!("{text}"));
        assert!(first.contains("Pending approval") && first.contains("31"), "{text}");
        assert!(then.contains("32") && !then.contains("31 "), "{text}");
    }
}
