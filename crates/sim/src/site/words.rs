//! Figures as people say them.

use muster_model::whatif::{WhatIfAnswer, WhatIfMetric, WhatIfNever, WhatIfUnit};

/// `20 min`, `3 h 10 min`, `2 d 4 h`: at most two units.
pub(crate) fn length(s: f64) -> String {
    let s = s.max(0.0).round() as u64;
    let two = |a: u64, x: &str, b: u64, y: &str| {
        if b == 0 { format!("{a} {x}") } else { format!("{a} {x} {b} {y}") }
    };
    match s {
        0..60 => format!("{s} s"),
        60..600 => two(s / 60, "min", s % 60, "s"),
        600..3570 => format!("{} min", (s + 30) / 60),
        3570..86_370 => two((s + 30) / 3600, "h", (s + 30) % 3600 / 60, "min"),
        _ => two((s + 1800) / 86_400, "d", (s + 1800) % 86_400 / 3600, "h"),
    }
}

/// A figure with its unit.
pub(crate) fn amount(x: f64, unit: WhatIfUnit) -> String {
    match unit {
        WhatIfUnit::Seconds => length(x),
        WhatIfUnit::Share => format!("{:.1}%", x * 100.0),
        // A mean over seeds, of things that are counted: a part of one matters while they are few.
        WhatIfUnit::Count if x < 100.0 && (x - x.round()).abs() > 0.05 => format!("{x:.1}"),
        WhatIfUnit::Count => format!("{x:.0}"),
    }
}

/// A difference with its sign.
pub(crate) fn signed(x: f64, unit: WhatIfUnit) -> String {
    let text = match unit {
        WhatIfUnit::Share => format!("{:.1} points", x.abs() * 100.0),
        WhatIfUnit::Count => format!("{:.1}", x.abs()),
        WhatIfUnit::Seconds => length(x.abs()),
    };
    // What is reported as nothing has no sign.
    let sign = match text.chars().any(|c| c.is_ascii_digit() && c != '0') {
        false => "",
        true if x < 0.0 => "-",
        true => "+",
    };
    format!("{sign}{text}")
}

/// The interval of the difference, which is what a sentence is about: that of the number is wider.
fn within(f: &WhatIfMetric) -> Option<String> {
    let [low, high] = f.change.interval?;
    Some(format!("95% of the change: {} to {}", signed(low, f.unit), signed(high, f.unit)))
}

/// One figure as a part of a sentence after "would".
fn verb(f: &WhatIfMetric, what: &str) -> String {
    let (from, to) = (amount(f.base.mean, f.unit), amount(f.changed.mean, f.unit));
    let after = within(f).map(|w| format!(" ({w})")).unwrap_or_default();
    if from == to {
        return format!("leave {what} at about {to}{after}");
    }
    if !f.certain {
        // Both figures are reported: the one now is no other than in the table.
        let within = within(f).map(|w| format!("; {w}")).unwrap_or_default();
        return format!(
            "make no certain difference to {what} ({from} as it is, {to} changed{within})"
        );
    }
    let how = if f.change.mean < 0.0 { "cut" } else { "raise" };
    format!("{how} {what} from {from} to {to}{after}")
}

/// When the jobs that are there now are over, as a part of a sentence after "would".
fn over(a: &WhatIfAnswer) -> String {
    let Some(f) = a.metric("queue_makespan_s") else { return String::new() };
    let within = length(a.horizon_s);
    match (f.base.at_least, f.changed.at_least) {
        (false, false) => verb(f, "the time until all present jobs are over"),
        (true, true) => format!("leave some present jobs not over within {within}"),
        (true, false) => format!(
            "have all present jobs over after about {}, while as it is some are not over within \
             {within}",
            amount(f.changed.mean, f.unit)
        ),
        (false, true) => format!(
            "leave some present jobs not over within {within}, while as it is all are over after \
             about {}",
            amount(f.base.mean, f.unit)
        ),
    }
}

/// Jobs of which each is named; of more, the first.
const NAMED: usize = 3;

/// `12 (big), 13 (wide), 14 (x) and 5 more`.
fn named(n: &WhatIfNever) -> String {
    let jobs: Vec<String> =
        n.jobs.iter().take(NAMED).map(|j| format!("{} ({})", j.job, j.name)).collect();
    let jobs = jobs.join(", ");
    match n.count.saturating_sub(NAMED as u64) {
        0 => jobs,
        more => format!("{jobs} and {more} more"),
    }
}

/// Jobs that only one side can run. They come first: no number about jobs counts them.
fn never(a: &WhatIfAnswer, subject: &str) -> String {
    let of = |n: &WhatIfNever| match n.count {
        1 => "1 job that is there now".to_owned(),
        n => format!("{n} jobs that are there now"),
    };
    let mut text = String::new();
    for (n, what) in [
        (&a.never_changed, "could never run"),
        (&a.never_base, "could run that never can as it is"),
    ] {
        if n.count > 0 {
            text.push_str(&format!("With {subject}, {} {what}: {}. ", of(n), named(n)));
        }
    }
    text
}

/// The answer in a few sentences.
pub(crate) fn summary(a: &WhatIfAnswer) -> String {
    let subject = if a.changes.is_empty() { "no change".into() } else { a.changes.join(" and ") };
    let mut text = never(a, &subject);
    let whose = if text.is_empty() { subject } else { "For all other jobs it".into() };
    let said = |name: &str, what: &str| a.metric(name).map(|f| verb(f, what)).unwrap_or_default();
    let waits = if a.new_work { "the mean wait" } else { "the mean wait of the present queue" };
    text.push_str(&format!(
        "{whose} would {}, and {}.",
        said("wait_mean_s", waits),
        said("wait_p95_s", "the 95th percentile of waits"),
    ));
    let held = if a.new_work {
        "the share of GPUs allocated to jobs"
    } else {
        "the share of GPUs allocated"
    };
    text.push_str(&format!(
        " It would {}, {} and {}.",
        said("goodput", "goodput"),
        said("gpu_allocation_ratio", held),
        over(a),
    ));
    if a.new_work {
        text.push_str(&format!(
            " Within {} it would {}.",
            length(a.horizon_s),
            said("jobs_completed", "the number of completed jobs")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::whatif::{WhatIfEstimate, WhatIfJob};

    #[test]
    fn a_change_that_may_be_chance_is_reported_from_what_to_what() {
        let of = |mean: f64| {
            let interval = Some([mean - 120.0, mean + 120.0]);
            WhatIfEstimate { mean, interval, at_least: false }
        };
        let mut f = WhatIfMetric {
            name: "wait_mean_s".into(),
            unit: WhatIfUnit::Seconds,
            base: of(446.0),
            changed: of(660.0),
            change: of(214.0),
            certain: false,
        };
        f.change.interval = Some([-60.0, 488.0]);
        assert_eq!(
            verb(&f, "the mean wait"),
            "make no certain difference to the mean wait (7 min 26 s as it is, 11 min changed; 95% of \
             the change: -1 min to +8 min 8 s)"
        );
        // The interval of the number, 9 min to 13 min, says nothing about the difference.
        (f.certain, f.change.interval) = (true, Some([60.0, 368.0]));
        assert_eq!(
            verb(&f, "the mean wait"),
            "raise the mean wait from 7 min 26 s to 11 min (95% of the change: +1 min to +6 min 8 s)"
        );
        (f.base, f.change.interval) = (f.changed, Some([-60.0, 60.0]));
        assert_eq!(
            verb(&f, "the mean wait"),
            "leave the mean wait at about 11 min (95% of the change: -1 min to +1 min)"
        );
    }

    #[test]
    fn of_many_jobs_the_first_are_named() {
        let of = |count: u64| WhatIfNever {
            count,
            jobs: (1..=count)
                .map(|n| WhatIfJob { job: n.to_string(), name: format!("j{n}") })
                .collect(),
        };
        assert_eq!(named(&of(1)), "1 (j1)");
        assert_eq!(named(&of(3)), "1 (j1), 2 (j2), 3 (j3)");
        assert_eq!(named(&of(9)), "1 (j1), 2 (j2), 3 (j3) and 6 more");
    }

    #[test]
    fn lengths_are_said_in_at_most_two_units() {
        let all = [0.4, 59.0, 60.0, 65.0, 900.0, 3599.0, 11_400.0, 86_399.0, 190_000.0];
        let reported = all.map(length);
        let want =
            ["0 s", "59 s", "1 min", "1 min 5 s", "15 min", "1 h", "3 h 10 min", "1 d", "2 d 5 h"];
        assert_eq!(reported, want);
        assert_eq!(signed(-0.013, WhatIfUnit::Share), "-1.3 points");
        assert_eq!(signed(90.0, WhatIfUnit::Seconds), "+1 min 30 s");
        assert_eq!(signed(-0.000_1, WhatIfUnit::Share), "0.0 points");
        assert_eq!(
            (amount(0.33, WhatIfUnit::Count), amount(200.0, WhatIfUnit::Count)),
            ("0.3".into(), "200".into())
        );
    }
}
