//! Names of nodes written short, as frameworks expect them in `SLURM_JOB_NODELIST`:
//! `hgx-01, hgx-02, hgx-05` become `hgx-[01-02,05]`.

/// A name split before its trailing number. Names without one, or with a number too long to
/// count with, have none.
fn split(name: &str) -> (&str, Option<(&str, u64)>) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = name.split_at(name.len() - digits);
    match number.parse::<u64>() {
        Ok(n) if digits <= 18 => (prefix, Some((number, n))),
        _ => (name, None),
    }
}

/// Writes the names short, in the order given (the order is the ranks' order, so that the first
/// host stays the master). A name that follows itself is written once.
#[must_use]
pub(crate) fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    // Each entry: prefix and its ranges; a plain name has no range.
    let mut entries: Vec<(&str, Vec<Range<'_>>)> = Vec::new();
    let mut last: Option<&str> = None;
    for name in names {
        if last == Some(name) {
            continue;
        }
        last = Some(name);
        let (prefix, number) = split(name);
        let Some((digits, n)) = number else {
            entries.push((name, Vec::new()));
            continue;
        };
        match entries.last_mut() {
            Some((p, ranges)) if *p == prefix && !ranges.is_empty() => match ranges.last_mut() {
                Some(r) if r.takes(digits, n) => r.last = digits,
                _ => ranges.push(Range { first: digits, last: digits }),
            },
            _ => entries.push((prefix, vec![Range { first: digits, last: digits }])),
        }
    }
    let mut out = String::new();
    for (prefix, ranges) in entries {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(prefix);
        match ranges.as_slice() {
            [] => {}
            [one] if one.first == one.last => out.push_str(one.first),
            many => {
                let parts: Vec<String> = many.iter().map(Range::text).collect();
                out.push('[');
                out.push_str(&parts.join(","));
                out.push(']');
            }
        }
    }
    out
}

/// Numbers from `first` to `last`, written with at least as many digits as `first` has.
struct Range<'a> {
    first: &'a str,
    last: &'a str,
}

impl Range<'_> {
    fn takes(&self, digits: &str, n: u64) -> bool {
        let width = self.first.len();
        self.last.parse::<u64>().is_ok_and(|l| l + 1 == n) && format!("{n:0width$}") == digits
    }

    fn text(&self) -> String {
        if self.first == self.last {
            self.first.to_owned()
        } else {
            format!("{}-{}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `scontrol show hostnames` does.
    fn expand(list: &str) -> Vec<String> {
        let mut out = Vec::new();
        let mut rest = list;
        while !rest.is_empty() {
            let end = rest.find([',', '[']).unwrap_or(rest.len());
            let prefix = &rest[..end];
            if rest[end..].starts_with('[') {
                let close = rest.find(']').expect("brackets are closed");
                for range in rest[end + 1..close].split(',') {
                    let (a, b) = range.split_once('-').unwrap_or((range, range));
                    let (x, y): (u64, u64) = (a.parse().unwrap(), b.parse().unwrap());
                    let width = a.len();
                    out.extend((x..=y).map(|n| format!("{prefix}{n:0width$}")));
                }
                rest = rest[close + 1..].trim_start_matches(',');
            } else {
                out.push(prefix.to_owned());
                rest = rest[end..].trim_start_matches(',');
            }
        }
        out
    }

    #[test]
    fn runs_of_numbers_become_ranges() {
        assert_eq!(compress(["a01", "a02", "a03", "a04"]), "a[01-04]");
        assert_eq!(compress(["a9", "a10", "b", "a12"]), "a[9-10],b,a12");
        assert_eq!(compress(["a1", "a3", "a4"]), "a[1,3-4]");
        assert_eq!(compress(["a009", "a10"]), "a[009,10]");
        assert_eq!(compress(["n1", "n1"]), "n1");
        assert_eq!(compress([]), "");
    }

    proptest! {
        #[test]
        fn a_short_list_expands_to_the_same_names(
            names in prop::collection::vec("[a-c]{1,2}-?[0-9]{0,3}", 0..30)
        ) {
            let mut names: Vec<String> =
                names.into_iter().filter(|n| !n.ends_with('-')).collect();
            names.dedup();
            let list = compress(names.iter().map(String::as_str));
            prop_assert_eq!(expand(&list), names);
        }
    }
}
