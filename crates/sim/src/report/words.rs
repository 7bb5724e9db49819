//! Numbers as people say them, and names made safe for HTML.

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// What stands where there is no number.
pub(super) const NONE: &str = "–";

/// Makes text safe in HTML, within elements and within quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// `16,384`.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 node`, `3 nodes`.
pub(super) fn counted(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A number that need not be whole: `0.4`, `7.2`, `16,384`, `12.4 million`.
pub(super) fn number(x: f64) -> String {
    if !x.is_finite() {
        return NONE.into();
    }
    let (sign, x) = if x < 0.0 { ("−", -x) } else { ("", x) };
    let said = if x >= 9.995e6 { format!("{:.1} million", x / 1e6) } else { tenths(x) };
    format!("{sign}{said}")
}

/// `97.3%`; what is nearly all or nearly nothing is not reported as all or nothing.
pub(super) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.into();
    }
    let p = share * 100.0;
    if p == 0.0 || p == 100.0 {
        format!("{p:.0}%")
    } else if p > 0.0 && p < 0.005 {
        "under 0.01%".into()
    } else if p > 99.995 && p < 100.0 {
        "over 99.99%".into()
    } else if (p > 0.0 && p < 0.1) || (p > 99.9 && p < 100.0) {
        format!("{p:.2}%")
    } else {
        format!("{p:.1}%")
    }
}

/// `0.4 s`, `42 s`, `4.2 min`, `3.1 h`, `54 d`.
pub(super) fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.into();
    }
    let s = seconds.max(0.0);
    if s < 59.5 {
        format!("{} s", tenths(s))
    } else if s < 59.5 * MINUTE {
        format!("{} min", tenths(s / MINUTE))
    } else if s < 47.5 * HOUR {
        format!("{} h", tenths(s / HOUR))
    } else {
        format!("{} d", tenths(s / DAY))
    }
}

/// A moment since the beginning in its two largest units: `12 d 7 h`.
pub(super) fn moment(seconds: f64) -> String {
    let s = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    let (d, h, m) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    if d > 0 {
        format!("{d} d {h} h")
    } else if h > 0 {
        format!("{h} h {m} min")
    } else if m > 0 {
        format!("{m} min {} s", s % 60)
    } else {
        format!("{s} s")
    }
}

/// GPU-seconds reported in GPU-hours, without the unit.
pub(super) fn gpu_hours(gpu_seconds: f64) -> String {
    number(gpu_seconds / HOUR)
}

/// `312 MB`.
pub(super) fn bytes(n: u64) -> String {
    let n = n as f64;
    if n >= 1e9 {
        format!("{} GB", tenths(n / 1e9))
    } else if n >= 1e6 {
        format!("{} MB", tenths(n / 1e6))
    } else {
        format!("{} kB", tenths(n / 1e3))
    }
}

/// The first twelve letters of a digest.
pub(super) fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// One decimal below ten, none above, no `.0`.
fn tenths(x: f64) -> String {
    if x >= 9.95 {
        return count(x.round() as u64);
    }
    let said = format!("{x:.1}");
    said.strip_suffix(".0").map_or(said.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_reported_in_the_unit_that_fits() {
        for (s, said) in [
            (0.0, "0 s"),
            (0.42, "0.4 s"),
            (42.0, "42 s"),
            (59.7, "1 min"),
            (252.0, "4.2 min"),
            (3_590.0, "1 h"),
            (11_160.0, "3.1 h"),
            (47.0 * HOUR, "47 h"),
            (48.0 * HOUR, "2 d"),
            (54.0 * DAY, "54 d"),
            (-3.0, "0 s"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ] {
            assert_eq!(span(s), said, "{s}");
        }
    }

    #[test]
    fn numbers_are_grouped_and_shares_rounded_with_care() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(16_384), "16,384");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "node"), "1 node");
        assert_eq!(counted(2_000, "node"), "2,000 nodes");
        assert_eq!(number(7.25), "7.2");
        assert_eq!(number(-12.0), "−12");
        assert_eq!(number(12_400_000.0), "12.4 million");
        assert_eq!(percent(0.9731), "97.3%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.9996), "99.96%");
        assert_eq!(percent(0.999_999), "over 99.99%");
        assert_eq!(percent(0.0004), "0.04%");
        assert_eq!(percent(0.000_01), "under 0.01%");
        assert_eq!(percent(f64::NAN), NONE);
        assert_eq!(gpu_hours(7_200.0), "2");
        assert_eq!(bytes(312_400_000), "312 MB");
        assert_eq!(bytes(4_200_000_000), "4.2 GB");
    }

    #[test]
    fn moments_have_two_units() {
        assert_eq!(moment(12.0 * DAY + 7.5 * HOUR), "12 d 7 h");
        assert_eq!(moment(3.0 * HOUR + 1_234.0), "3 h 20 min");
        assert_eq!(moment(61.0), "1 min 1 s");
        assert_eq!(moment(5.9), "5 s");
        assert_eq!(moment(f64::NAN), "0 s");
    }

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(escape(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
    }
}
