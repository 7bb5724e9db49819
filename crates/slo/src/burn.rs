//! Burn rates that are too high: several windows, several speeds.
//!
//! A long window says that it matters, a short one that it still goes on. The factors are those of
//! the Site Reliability Workbook, chapter 5, table 5-8: for a budget of 30 days, 14.4 spends 2% of
//! it in an hour, 6 spends 5% in six hours, 3 spends 10% in a day, 1 spends 10% in three days.

use crate::ledger::TimeRange;
use crate::meter::{Counts, Meter};
use crate::ratio::Ratio;
use muster_model::alert::Urgency;
use muster_model::slo::{BurnRule, Factor, NotFiring, Objective, Unit, Window};
use muster_model::units::{Span, Time};

/// Bad ones that a rule asks for by default, where things that happen are counted: one failed job
/// of three is a third, but nothing to wake somebody for.
const LEAST: u64 = 3;

/// The rules of a site that says nothing else. The last is the site's own objective: twice too fast
/// for a quarter of an hour pages.
fn site() -> [BurnRule; 5] {
    let rule = |factor, long, short, held, urgency| BurnRule {
        factor: Factor(factor),
        long,
        short,
        held,
        least: LEAST,
        urgency,
    };
    let none = Span(0);
    [
        rule(14_400, Span::hours(1), Span::mins(5), none, Urgency::Page),
        rule(6_000, Span::hours(6), Span::mins(30), none, Urgency::Page),
        rule(3_000, Span::hours(24), Span::hours(2), none, Urgency::Ticket),
        rule(1_000, Span::hours(72), Span::hours(6), none, Urgency::Ticket),
        rule(2_000, Span::mins(5), Span::mins(5), Span::mins(15), Urgency::Page),
    ]
}

/// The rules that hold for an objective: its own, or those of the site that make sense for it.
#[must_use]
pub fn rules(o: &Objective) -> Vec<BurnRule> {
    if let Some(own) = &o.burn {
        return own.clone();
    }
    let within = |r: &BurnRule| match o.window {
        Window::Rolling(w) => r.long < w,
        Window::Month => true,
    };
    let least = if o.sli.unit() == Unit::Time { 0 } else { LEAST };
    let fits = |r: &BurnRule| r.reachable(o.target) && within(r);
    site().into_iter().filter(fits).map(|r| BurnRule { least, ..r }).collect()
}

/// The long time that a rule looks at. One with two equal windows looks at all minutes of the time
/// that it asks for.
#[must_use]
pub fn over(rule: &BurnRule) -> Span {
    if rule.long > rule.short {
        return rule.long;
    }
    Span(rule.long.0.saturating_add(rule.held.0))
}

/// A rule that holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The rule that holds.
    pub rule: BurnRule,
    /// The long time that it looks at.
    pub over: Span,
    /// The burn rate of the error budget over that.
    pub long: Ratio,
    /// And over its short window.
    pub short: Ratio,
}

/// The speeds over both windows of a rule at a moment, if both are too fast.
fn holds(meter: &Meter<'_>, rule: &BurnRule, at: Time) -> Option<(Ratio, Ratio)> {
    let most = Ratio::thousandths(rule.factor.0);
    let faster = |w: Span| meter.rate(w, at).filter(|b| *b > most);
    let short = faster(rule.short)?;
    let long = faster(rule.long)?;
    let bad = meter.count(TimeRange::Last(rule.long), at).bad();
    (bad >= rule.least).then_some((long, short))
}

/// Whether a rule held at every minute before a moment for which it asks.
fn held(meter: &Meter<'_>, rule: &BurnRule, at: Time) -> bool {
    let mut minutes = 1..=rule.held.0 / 60_000;
    minutes.all(|m| holds(meter, rule, at - Span::mins(m)).is_some())
}

/// Rules that hold at a moment, and have held at every minute of the time they ask for.
#[must_use]
pub fn firing(o: &Objective, rules: &[BurnRule], counts: Counts<'_>, now: Time) -> Vec<Firing> {
    let meter = Meter::new(o, counts);
    let evaluate = |rule: &BurnRule| {
        let (long, short) = holds(&meter, rule, now)?;
        let over = over(rule);
        let long = meter.rate(over, now).unwrap_or(long);
        held(&meter, rule, now).then(|| Firing { rule: rule.clone(), over, long, short })
    };
    rules.iter().filter_map(evaluate).collect()
}

/// A rule that does not fire although the burn rate over one of its windows is above its factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfired {
    /// The rule that does not fire.
    pub rule: BurnRule,
    /// The long time that it looks at.
    pub over: Span,
    /// Why it does not.
    pub why: NotFiring,
    /// Bad ones in its long window.
    pub bad: u64,
}

/// Where no rule fires: the one that comes closest to it, and why it does not. None where no burn rate
/// is above the factor of a rule. `burn` has the burn rates at that moment, over each window of a rule.
#[must_use]
pub fn unfired(
    meter: &Meter<'_>,
    rules: &[BurnRule],
    burn: &[(Span, Option<Ratio>)],
    now: Time,
) -> Option<Unfired> {
    let rate = |w: Span| burn.iter().find(|(window, _)| *window == w).and_then(|(_, rate)| *rate);
    let why = |rule: &BurnRule| {
        let most = Ratio::thousandths(rule.factor.0);
        let faster = |w: Span| rate(w).is_some_and(|b| b > most);
        let short = faster(rule.short);
        // Both windows may be the same. Then it looks at all minutes of a longer time.
        let long = if rule.long > rule.short { faster(rule.long) } else { short };
        if !short && !faster(over(rule)) {
            return None;
        }
        let bad = meter.count(TimeRange::Last(rule.long), now).bad();
        let why = match (long, short) {
            (true, true) if bad < rule.least => NotFiring::TooFewBad,
            (true, true) if !held(meter, rule, now) => NotFiring::NotEveryMinute,
            (true, true) => NotFiring::NextMinute,
            (false, true) => NotFiring::LongWindow,
            (_, false) => NotFiring::ShortWindow,
        };
        Some(Unfired { rule: rule.clone(), over: over(rule), why, bad })
    };
    // Both windows first, then the one that matters more.
    let closest = |u: &Unfired| match u.why {
        NotFiring::TooFewBad | NotFiring::NotEveryMinute | NotFiring::NextMinute => 2,
        NotFiring::ShortWindow => 1,
        NotFiring::LongWindow => 0,
    };
    rules.iter().filter_map(why).max_by_key(|u| (closest(u), u.rule.factor))
}

/// The rule that holds and says most: the most urgent, then the fastest.
#[must_use]
pub fn worst(firing: &[Firing]) -> Option<&Firing> {
    firing.iter().max_by_key(|f| (f.rule.urgency, f.rule.factor))
}

/// The most urgent of the rules that hold.
#[must_use]
pub fn urgency(firing: &[Firing]) -> Option<Urgency> {
    firing.iter().map(|f| f.rule.urgency).max()
}

/// So many of all nodes may be out of service before they alone burn faster than a rule allows that
/// is as urgent as this; none where there is no such rule.
#[must_use]
pub fn nodes_allowed(o: &Objective, urgency: Urgency, all: u64) -> u64 {
    let as_urgent = rules(o).into_iter().filter(|r| r.urgency >= urgency);
    let slowest = as_urgent.map(|r| u64::from(r.factor.0)).min().unwrap_or(0);
    all.saturating_mul(u64::from(o.target.rest().0)).saturating_mul(slowest) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Count, Ledger, Series};
    use muster_model::slo::{Cause, Scope, Sli};

    const MIN: i64 = 60_000;

    fn objective(sli: &str, target: &str, window: &str) -> Objective {
        let text =
            format!(r#"{{"name":"o","sli":"{sli}","target":"{target}","window":"{window}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    /// So many bad ones of 1,000 in each minute from the first to the last.
    fn errors(l: &mut Ledger, minutes: std::ops::Range<i64>, bad: u64) {
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        for m in minutes {
            l.note(Time(m * MIN), &series, Count { good: 1000 - bad, total: 1000 }, None);
        }
    }

    fn fires(l: &Ledger, minute: i64) -> Vec<(u32, Urgency)> {
        let o = objective("api_availability", "99.9%", "30d");
        let firing = firing(&o, &rules(&o), Counts(&[l]), Time(minute * MIN));
        firing.iter().map(|f| (f.rule.factor.0, f.rule.urgency)).collect()
    }

    #[test]
    fn twice_too_fast_for_a_quarter_of_an_hour_pages() {
        let mut l = Ledger::default();
        errors(&mut l, 1..10_000, 0);
        // 0.3% errors are three times too fast. A window of five minutes is over twice that once
        // four of its minutes are bad, and then for fifteen minutes more.
        errors(&mut l, 10_000..10_019, 3);
        assert_eq!(fires(&l, 10_017), vec![]);
        assert_eq!(fires(&l, 10_018), vec![(2000, Urgency::Page)]);
        errors(&mut l, 10_019..10_022, 0);
        assert_eq!(fires(&l, 10_021), vec![]);
    }

    #[test]
    fn a_fast_burn_pages_at_once_and_ends_soon() {
        let mut l = Ledger::default();
        errors(&mut l, 1..10_000, 0);
        errors(&mut l, 10_000..10_010, 100);
        // 10% for ten minutes is 1.67% of an hour: 16.7 times too fast.
        assert_eq!(fires(&l, 10_009), vec![(14_400, Urgency::Page)]);
        errors(&mut l, 10_010..10_040, 0);
        assert_eq!(fires(&l, 10_016), vec![], "five minutes later");
    }

    #[test]
    fn a_rule_that_does_not_fire_has_a_reason() {
        let o = objective("api_availability", "99.9%", "30d");
        let at = |l: &Ledger, minute: i64| {
            let s = crate::budget::status(&o, Counts(&[l]), Time(minute * MIN));
            assert!(s.firing.is_empty(), "{s:?}");
            s.unfired.map(|u| (u.rule.factor.0, u.why, u.bad))
        };
        let mut l = Ledger::default();
        errors(&mut l, 1..10_000, 0);
        assert_eq!(at(&l, 9_999), None);
        // 0.3% is three times too fast: over five minutes, and not for a quarter of an hour yet.
        errors(&mut l, 10_000..10_006, 3);
        assert_eq!(at(&l, 10_005), Some((2000, NotFiring::NotEveryMinute, 15)));
        // One minute with 40%.
        errors(&mut l, 10_006..12_000, 0);
        errors(&mut l, 12_000..12_001, 400);
        errors(&mut l, 12_001..12_030, 0);
        // Ten minutes later the last five are good, the last twenty are not.
        assert_eq!(at(&l, 12_010), Some((2000, NotFiring::ShortWindow, 0)));
        // Later on the last half hour is not, but the last six hours are.
        assert_eq!(at(&l, 12_025), Some((6000, NotFiring::LongWindow, 400)));
        // One of two requests on a quiet site.
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let mut quiet = Ledger::default();
        quiet.note(Time(MIN), &series, Count::good(1), None);
        quiet.note(Time(100 * MIN), &series, Count::bad_ones(2), None);
        assert_eq!(at(&quiet, 100), Some((14_400, NotFiring::TooFewBad, 2)));
    }

    #[test]
    fn a_slow_burn_is_a_ticket() {
        let mut l = Ledger::default();
        // 0.15% for three days.
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        for m in 1..(80 * 60) {
            let count = Count { good: 19_970, total: 20_000 };
            l.note(Time(m * MIN), &series, count, None);
        }
        assert_eq!(fires(&l, 80 * 60 - 1), vec![(1000, Urgency::Ticket)]);
    }

    #[test]
    fn a_single_failure_on_a_quiet_site_wakes_nobody() {
        let o = objective("api_availability", "99%", "28d");
        let series = Series { sli: o.sli, scope: o.scope.clone() };
        let mut l = Ledger::default();
        l.note(Time(MIN), &series, Count::good(1), None);
        l.note(Time(100 * MIN), &series, Count::bad_ones(2), None);
        assert!(firing(&o, &rules(&o), Counts(&[&l]), Time(100 * MIN)).is_empty());
        l.note(Time(100 * MIN), &series, Count::bad_ones(1), None);
        assert!(!firing(&o, &rules(&o), Counts(&[&l]), Time(100 * MIN)).is_empty());
    }

    #[test]
    fn a_young_site_does_not_spend_what_it_has_not_had_time_for() {
        let o = objective("goodput", "90%", "28d");
        let series = Series { sli: o.sli, scope: o.scope.clone() };
        let lost = |from: i64, to: i64| {
            let mut l = Ledger::default();
            let span = (Time(from * 1000), Time(to * 1000));
            l.spread(span, &series, 8, Err(Cause::Application));
            l
        };
        // One job of ten seconds that failed, on a site of 16 seconds: nothing, also when it is a day
        // old and nobody else used a GPU.
        let fires = |l: &Ledger, at: i64| firing(&o, &rules(&o), Counts(&[l]), Time(at * 1000));
        let day = 24 * 3600;
        assert_eq!(fires(&lost(3, 13), 16), vec![]);
        assert_eq!(fires(&lost(3, 13), day), vec![]);
        assert_eq!(fires(&lost(day, day + 10), day + 16), vec![]);
        let s = crate::budget::status(&o, Counts(&[&lost(3, 13)]), Time(16_000));
        assert!(!s.is_exhausted() && s.remaining() > Some(Ratio::new(99, 100)), "{s:?}");
        assert!(s.burn.iter().all(|(w, b)| *w < Span::mins(30) || *b < Some(Ratio::ONE)), "{s:?}");
        // All that was used for hours was lost: that is something.
        assert!(!fires(&lost(0, 5 * 3600), 5 * 3600).is_empty());
    }

    #[test]
    fn an_outage_of_a_young_site_is_reported_all_the_same() {
        let mut l = Ledger::default();
        errors(&mut l, 1..2, 1000);
        assert_eq!(fires(&l, 1), vec![(14_400, Urgency::Page)], "nothing else was ever seen");
        let mut l = Ledger::default();
        errors(&mut l, 1..5, 20);
        assert_eq!(
            fires(&l, 4),
            vec![],
            "2% for four minutes is not 20 times too fast for an hour"
        );
    }

    #[test]
    fn two_windows_of_a_rule_are_never_the_same() {
        let mut l = Ledger::default();
        errors(&mut l, 1..10_000, 0);
        errors(&mut l, 10_000..10_015, 3);
        errors(&mut l, 10_015..10_030, 5);
        let o = objective("api_availability", "99.9%", "30d");
        let all = firing(&o, &rules(&o), Counts(&[&l]), Time(10_029 * MIN));
        assert!(!all.is_empty());
        for f in &all {
            assert!(f.over > f.rule.short, "{f:?}");
        }
        let twice = all.iter().find(|f| f.rule.factor.0 == 2000).unwrap();
        // 15 minutes with five of 1,000 and five with three.
        assert_eq!((twice.over, twice.short), (Span::mins(20), Ratio::new(5, 1)));
        assert_eq!(twice.long, Ratio::new(90, 20));
    }

    #[test]
    fn so_many_nodes_may_be_out_before_a_rule_holds() {
        let mut o = objective("node_availability", "98%", "28d");
        // Twice 2% of 64 nodes is 2.56, and once 2% is 1.28.
        assert_eq!(nodes_allowed(&o, Urgency::Page, 64), 2);
        assert_eq!(nodes_allowed(&o, Urgency::Ticket, 64), 1);
        o.burn = Some(Vec::new());
        assert_eq!(nodes_allowed(&o, Urgency::Page, 64), 0);
    }

    #[test]
    fn rules_that_can_never_hold_are_left_out() {
        let factors = |o: &Objective| rules(o).iter().map(|r| r.factor.0).collect::<Vec<_>>();
        assert_eq!(factors(&objective("goodput", "90%", "28d")), vec![6000, 3000, 1000, 2000]);
        assert_eq!(factors(&objective("goodput", "40%", "28d")), vec![1000]);
        assert_eq!(factors(&objective("goodput", "99.9%", "1d")), vec![14_400, 6000, 2000]);
        assert!(rules(&objective("goodput", "99%", "month")).iter().all(|r| r.least == 0));
        for target in ["40%", "90%", "99%", "99.9%", "99.99%"] {
            let mut o = objective("goodput", target, "28d");
            o.burn = Some(rules(&o));
            assert_eq!(o.check(), Ok(()), "{target}");
        }
    }
}
