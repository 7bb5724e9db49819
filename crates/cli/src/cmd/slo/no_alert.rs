//! The alert about an objective; or why there is none although its error budget burns fast.

use muster_api::{Slo, UnfiredRule};
use muster_client::{Client, ClientError};
use muster_model::alert::Topic;
use muster_model::slo::NotFiring;

/// What `slo show` has in its line on alerts.
pub(super) async fn line(client: &Client, s: &Slo) -> String {
    if let Some(id) = &s.alert {
        // Without its details its id is still worth showing.
        let alert = client.alert(id).await.ok();
        let named = alert_text(id, alert.as_ref().map(|a| (a.topic, a.summary.as_str())));
        let silenced = alert.and_then(|a| a.silenced);
        return silenced.map_or_else(|| named.clone(), |by| format!("{named}; silenced by {by}"));
    }
    if !s.firing.is_empty() || s.state == "exhausted" {
        // Tenants see no alerts about hardware, and not the site's objectives either.
        let site = client.objectives().await;
        let forbidden = matches!(site, Err(ClientError::Api { status: 403, .. }));
        return not_shown(forbidden).to_owned();
    }
    s.not_firing.as_ref().map(why).unwrap_or_default()
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

/// Why a rule does not fire, as the server decided it.
fn why(r: &UnfiredRule) -> String {
    let (long, short, held, least) = (r.long, r.short, r.held, r.least);
    let above = format!("none: the burn rate is above {}x", r.factor);
    match r.why {
        NotFiring::TooFewBad => {
            format!("{above} over {long}, but only {} were bad; an alert needs {least}", r.bad)
        }
        NotFiring::NotEveryMinute => {
            format!("{above} over {short}, but not at every minute of the last {held}")
        }
        NotFiring::NextMinute => format!("{above}, but alerts are decided at whole minutes"),
        NotFiring::ShortWindow => {
            format!("{above} over {long}, but not over the last {short}")
        }
        NotFiring::LongWindow => format!("{above} over {short}, but not yet over {long}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::Urgency;
    use muster_model::units::Span;

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
        let said = |reason| {
            why(&UnfiredRule {
                factor: 14.4,
                long: Span::hours(1),
                short: Span::mins(5),
                urgency: Urgency::Page,
                why: reason,
                held: Span::mins(15),
                least: 3,
                bad: 2,
            })
        };
        assert_eq!(
            said(NotFiring::TooFewBad),
            "none: the burn rate is above 14.4x over 1h, but only 2 were bad; an alert needs 3"
        );
        let every = said(NotFiring::NotEveryMinute);
        assert!(every.ends_with("over 5m, but not at every minute of the last 15m"), "{every}");
        assert!(said(NotFiring::NextMinute).ends_with("decided at whole minutes"));
        assert!(said(NotFiring::ShortWindow).ends_with("over 1h, but not over the last 5m"));
        assert!(said(NotFiring::LongWindow).ends_with("over 5m, but not yet over 1h"));
    }
}
