//! What text without quotes stands for: a truth value, a number, or just text.

use serde::de::Unexpected;

/// What text without quotes stands for.
pub(crate) fn bare(text: &str) -> Unexpected<'_> {
    let t = trim(text);
    if t.eq_ignore_ascii_case("true") || t.eq_ignore_ascii_case("false") {
        return Unexpected::Bool(t.eq_ignore_ascii_case("true"));
    }
    let n = parse_integer(t);
    if let Some(n) = n.and_then(|n| u64::try_from(n).ok()) {
        return Unexpected::Unsigned(n);
    }
    if let Some(n) = n.and_then(|n| i64::try_from(n).ok()) {
        return Unexpected::Signed(n);
    }
    float(t).map_or(Unexpected::Str(text), Unexpected::Float)
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// A whole number as YAML writes it: `-5`, `1_000`, `0x1f`, but not `007`, which is a name.
pub(crate) fn parse_integer(text: &str) -> Option<i128> {
    let t = trim(text);
    let (sign, rest) = match t.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, t.strip_prefix('+').unwrap_or(t)),
    };
    let (radix, digits) = match rest.get(..2) {
        Some("0x" | "0X") => (16, &rest[2..]),
        Some("0o" | "0O") => (8, &rest[2..]),
        Some("0b" | "0B") => (2, &rest[2..]),
        Some(two) if two.starts_with('0') => return None,
        _ => (10, rest),
    };
    if digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), radix).ok().map(|n| sign * n)
}

/// A number with a point or an exponent, or one of YAML's words for what is none.
pub(crate) fn float(text: &str) -> Option<f64> {
    let t = trim(text);
    let rest = t.strip_prefix(['+', '-']).unwrap_or(t);
    if rest.eq_ignore_ascii_case(".nan") {
        return Some(f64::NAN);
    }
    if rest.eq_ignore_ascii_case(".inf") {
        return Some(if t.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let number = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if number { t.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_quotes_stands_for_what_yaml_says() {
        for (text, want) in [
            ("TRUE", Unexpected::Bool(true)),
            ("yes", Unexpected::Str("yes")),
            ("-5", Unexpected::Signed(-5)),
            ("+1_000", Unexpected::Unsigned(1000)),
            ("1__0", Unexpected::Str("1__0")),
            ("0x1F", Unexpected::Unsigned(31)),
            ("0o17", Unexpected::Unsigned(15)),
            ("0b1_1", Unexpected::Unsigned(3)),
            ("0x-1", Unexpected::Str("0x-1")),
            ("007", Unexpected::Float(7.0)),
            ("1e3", Unexpected::Float(1000.0)),
            ("99999999999999999999", Unexpected::Float(1e20)),
            ("-.inf", Unexpected::Float(f64::NEG_INFINITY)),
            ("inf", Unexpected::Str("inf")),
            ("", Unexpected::Str("")),
        ] {
            assert_eq!(bare(text), want, "{text}");
        }
    }
}
