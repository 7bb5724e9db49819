//! What was probably meant by a length of time that is not one.

use muster_model::units::Span;

/// Words for units that people write out.
const WORDS: [(&str, &str); 16] = [
    ("second", "s"),
    ("seconds", "s"),
    ("sec", "s"),
    ("secs", "s"),
    ("minute", "m"),
    ("minutes", "m"),
    ("min", "m"),
    ("mins", "m"),
    ("hour", "h"),
    ("hours", "h"),
    ("hr", "h"),
    ("hrs", "h"),
    ("day", "d"),
    ("days", "d"),
    ("week", "w"),
    ("weeks", "w"),
];

/// Why `text` is no length of time, and how to write it; none when it is one.
pub(super) fn span_problem(text: &str) -> Option<(String, String)> {
    let problem = text.parse::<Span>().err()?.to_string();
    let given = text.trim();
    if given.starts_with('-') {
        let shown = muster_specs::error::shown(given);
        return Some((
            format!("`{shown}` is negative"),
            "a length of time is at least \"0s\"".into(),
        ));
    }
    Some((problem, meant(given)))
}

/// The hint for a number without a unit.
pub(super) fn unit_hint(number: &str) -> String {
    format!("write the unit: \"{number}s\", \"{number}m\", \"{number}h\" or \"{number}d\"")
}

fn meant(given: &str) -> String {
    let digits = given.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(given.len());
    let (number, unit) = given.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    if number.is_empty() {
        return "write it like \"90s\", \"30m\", \"24h\" or \"1d12h\"".into();
    }
    if unit.is_empty() {
        return unit_hint(number);
    }
    if matches!(unit.as_str(), "y" | "yr" | "year" | "years") {
        let days = number.parse::<u64>().ok().and_then(|y| y.checked_mul(365));
        return match days {
            Some(d) => format!("years differ in length: write days, \"{d}d\""),
            None => "years differ in length: write days, like \"365d\"".into(),
        };
    }
    if matches!(unit.as_str(), "mo" | "month" | "months") {
        return "months differ in length: write days, like \"30d\"".into();
    }
    if let Some((_, short)) = WORDS.iter().find(|(word, _)| *word == unit) {
        return format!("write \"{number}{short}\"");
    }
    if ["ms", "s", "m", "h", "d", "w"].contains(&unit.as_str()) {
        return format!("write \"{number}{unit}\"");
    }
    "the units are ms, s, m, h, d and w: write it like \"90s\" or \"1d12h\"".into()
}
