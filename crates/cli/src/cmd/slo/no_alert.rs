//! The alert about an objective; or why there is none although its error budget burns fast.

use muster_api::{BurnRate, Slo};
use muster_client::{Client, ClientError};
use muster_model::alert::Topic;
use muster_model::slo::BurnRule;
use muster_model::units::Span;
use muster_slo::burn::{over, rules};

/// What `slo show` has in its line on alerts.
pub(super) async fn line(client: &Client, s: &Slo) -> String {
    if let Some(id) = &s.alert {
        // Without its details its id is still worth showing.
        let alert = client.alert(id).await.ok();
        let named = alert_text(id, alert.as_ref().map(|a| (a.topic, a.summary.as_str())));
        let silenced = alert.and_then(|a| a.silenced);
        return silenced.map_or_else(|| named.clone(), |by| format!("{named}; silenced by {by}"));
    }
    // Tenants see neither the rules nor alerts about hardware.
    let site = client.objectives().await;
    if !s.firing.is_empty() || s.state == "exhausted" {
        let forbidden = matches!(site, Err(ClientError::Api { status: 403, .. }));
        return not_shown(forbidden).to_owned();
    }
    let Ok(site) = site else { return String::new() };
    let all = muster_slo::defaults::in_force(&site.objectives);
    let rules = all.iter().find(|o| o.name.as_str() == s.name).map(rules).unwrap_or_default();
    why(&rules, &s.burn, s.total.saturating_sub(s.good)).unwrap_or_default()
}

/// The alert that is open about an objective, and what that is about where it is not the objective.
fn alert_text(id: &str, about: Option<(Topic, &str)>) -> String {
    match about {
        Some((topic, summary)) if topic != Topic::Objective => {
            format!("{id}, which is about the hardware that it burns because of: {summary}")
        }
        _ => id.to_owned(),
    }
}

/// Why an objective that asks for an alert has none in the answer: one that covers it would be named.
fn not_shown(tenant: bool) -> &'static str {
    match tenant {
        true => {
            "none of your project's; an alert about hardware, which operators see, may cover it"
        }
        false => "none yet: alerts are decided once a minute, less often with very many jobs",
    }
}

/// Why none of the rules fires; nothing where no burn rate is above that of a rule.
fn why(rules: &[BurnRule], burn: &[BurnRate], bad: u64) -> Option<String> {
    let rate = |w: Span| burn.iter().find(|b| b.window == w).and_then(|b| b.rate);
    let fast = |r: &BurnRule, w: Span| rate(w).is_some_and(|v| v > f64::from(r.factor.0) / 1000.0);
    let fastest = |fits: &dyn Fn(&BurnRule) -> bool| {
        rules.iter().filter(|r| fits(r)).max_by_key(|r| r.factor)
    };
    if let Some(r) = fastest(&|r| fast(r, over(r)) && fast(r, r.short)) {
        let above = format!("none: the burn rate is above {}", r.factor);
        let (long, short, held, least) = (over(r), r.short, r.held, r.least);
        return Some(if bad < least {
            format!("{above}, but only {bad} were bad; an alert needs {least}")
        } else if held.0 > 0 {
            format!("{above} over {short}, but not at every minute of the last {held}")
        } else if least == 0 {
            format!("{above}, but alerts are decided at whole minutes")
        } else {
            format!("{above} over {long}, but fewer than {least} were bad in that time")
        });
    }
    if let Some(r) = fastest(&|r| fast(r, over(r))) {
        let (long, short) = (over(r), r.short);
        let above = format!("none: the burn rate is above {} over {long}", r.factor);
        return Some(format!("{above}, but not over the last {short}"));
    }
    let r = fastest(&|r| fast(r, r.short))?;
    let (long, short) = (over(r), r.short);
    Some(format!("none: the burn rate is above {} over {short}, but not yet over {long}", r.factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::Urgency;
    use muster_model::slo::Factor;

    #[test]
    fn the_alert_that_an_objective_is_part_of_is_named_with_what_it_is_about() {
        let page = Some((Topic::Finding, "gpu:n1/3: gpu-off-bus; affects SLO goodput"));
        assert_eq!(
            alert_text("00ff", page),
            "00ff, which is about the hardware that it burns because of: gpu:n1/3: gpu-off-bus; \
             affects SLO goodput"
        );
        assert_eq!(alert_text("00ff", Some((Topic::Objective, "goodput: x"))), "00ff");
        assert_eq!(alert_text("00ff", None), "00ff");
    }

    #[test]
    fn an_alert_that_there_is_not_is_not_claimed() {
        // The answer names the alert that covers an objective, so without one there is none to list.
        let site = not_shown(false);
        assert!(site.starts_with("none yet") && !site.contains("`muster alerts`"), "{site}");
        assert!(not_shown(true).contains("which operators see"));
    }

    #[test]
    fn a_fast_burn_without_an_alert_says_why_there_is_none() {
        let rule = |factor, long, short, held| BurnRule {
            factor: Factor(factor),
            long,
            short,
            held,
            least: 3,
            urgency: Urgency::Page,
        };
        let rules = [
            rule(14_400, Span::hours(1), Span::mins(5), Span(0)),
            rule(2_000, Span::mins(5), Span::mins(5), Span::mins(15)),
        ];
        let burn = |five: f64, twenty: f64, hour: f64| {
            [(Span::mins(5), five), (Span::mins(20), twenty), (Span::hours(1), hour)]
                .map(|(window, rate)| BurnRate { window, rate: Some(rate) })
        };
        let said = |burn: &[BurnRate], bad| why(&rules, burn, bad).unwrap_or_default();
        let few = said(&burn(20.0, 20.0, 15.0), 2);
        assert_eq!(
            few,
            "none: the burn rate is above 14.4x, but only 2 were bad; an alert needs 3"
        );
        assert!(said(&burn(20.0, 20.0, 15.0), 9).ends_with("fewer than 3 were bad in that time"));
        assert!(said(&burn(3.0, 2.5, 1.0), 9).ends_with("not at every minute of the last 15m"));
        assert!(said(&burn(0.0, 1.0, 15.0), 9).ends_with("over 1h, but not over the last 5m"));
        assert!(said(&burn(3.0, 0.5, 0.5), 9).ends_with("over 5m, but not yet over 20m"));
        assert_eq!(said(&burn(1.5, 1.5, 1.5), 9), "", "no rule asks for an alert");
        assert_eq!(said(&[], 9), "");
    }
}
