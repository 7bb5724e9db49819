//! Lists of node names as people write them: `n[001-008,010],gw1`.

use std::collections::{BTreeMap, BTreeSet};

/// Most names that one list may stand for: more than any site has nodes.
pub const MAX_NAMES: usize = 200_000;
/// Most brackets in one name: each of them writes all names anew.
const MAX_BRACKETS: usize = 8;
/// Longest name: longer than any that a host may have. Each of many names repeats its fixed text.
const MAX_NAME: usize = 255;

/// Why a list of names was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{list}` is not a list of names: {why}")]
pub struct HostlistError {
    list: String,
    why: String,
}

/// Writes out a list: `n[08-10],gw1` becomes `n08 n09 n10 gw1`. Order and repeats are kept; several
/// brackets in one name multiply (`r[1-2]n[1-4]`).
///
/// # Errors
/// When brackets do not match, a range runs backwards, a name is too long or has too many
/// brackets, or there are over [`MAX_NAMES`] names.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let fail = |why: String| HostlistError { list: crate::error::shown(list), why };
    let mut out = Vec::new();
    for item in split_outside_brackets(list).map_err(fail)? {
        let item = item.trim();
        if item.is_empty() {
            return Err(fail("a name is empty".into()));
        }
        let names = expand_one(item, MAX_NAMES - out.len()).map_err(fail)?;
        out.extend(names);
    }
    Ok(out)
}

fn split_outside_brackets(list: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (i, c) in list.char_indices() {
        match c {
            '[' if inside => return Err("a `[` inside brackets".into()),
            '[' => inside = true,
            ']' if !inside => return Err("a `]` without its `[`".into()),
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("a `[` without its `]`".into());
    }
    parts.push(&list[start..]);
    Ok(parts)
}

fn expand_one(item: &str, room: usize) -> Result<Vec<String>, String> {
    let too_many = || format!("it expands to more than {MAX_NAMES} names");
    if item.matches('[').count() > MAX_BRACKETS {
        return Err(format!("a name has more than {MAX_BRACKETS} pairs of brackets"));
    }
    // Known before anything is written out: a long prefix must not be written 200,000 times.
    let fixed: usize = item.split('[').map(|p| p.split_once(']').map_or(p, |(_, p)| p).len()).sum();
    if fixed > MAX_NAME {
        return Err(format!("a name has more than {MAX_NAME} characters"));
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, tail) = after.split_once(']').ok_or("a `[` without its `]`")?;
        let mut numbers = Vec::new();
        for part in ranges.split(',') {
            let (lo, hi, width) = range(part)?;
            let count = hi - lo;
            if count >= room as u64 || numbers.len() + count as usize >= room {
                return Err(too_many());
            }
            numbers.extend((lo..=hi).map(|n| format!("{n:0width$}")));
        }
        if names.len() * numbers.len() > room {
            return Err(too_many());
        }
        names = names
            .iter()
            .flat_map(|head| numbers.iter().map(move |n| format!("{head}{before}{n}")))
            .collect();
        rest = tail;
    }
    if names.len() > room {
        return Err(too_many());
    }
    for n in &mut names {
        n.push_str(rest);
    }
    Ok(names)
}

/// First, last and printed width of `8`, `8-12` or `008-012`.
fn range(part: &str) -> Result<(u64, u64, usize), String> {
    let number = |s: &str| {
        // 18 digits fit a u64 with room to spare.
        let good = !s.is_empty() && s.len() <= 18 && s.bytes().all(|b| b.is_ascii_digit());
        let n = if good { s.parse::<u64>().ok() } else { None };
        n.ok_or_else(|| format!("`{}` is not a number", crate::error::shown(s)))
    };
    let part = part.trim();
    let (lo, hi) = part.split_once('-').unwrap_or((part, part));
    let (a, b) = (number(lo)?, number(hi)?);
    if a > b {
        return Err(format!("`{part}` runs backwards"));
    }
    let padded = |s: &str| s.len() > 1 && s.starts_with('0');
    if (padded(lo) || padded(hi)) && lo.len() != hi.len() {
        return Err(format!("both ends of `{part}` need the same number of digits"));
    }
    Ok((a, b, lo.len()))
}

/// Prefix, printed width (0: as it comes) and suffix of names that differ in one number only.
type Shape<'a> = (&'a str, usize, &'a str);

/// The shortest list for these names: `n08 n09 n10 gw1` becomes `n[08-10],gw1`. Shapes come in
/// the order of their first name; numbers are sorted, repeats are dropped.
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let split: Vec<Option<(&str, &str, &str)>> = names.iter().map(|n| last_number(n)).collect();
    let padded: BTreeSet<Shape<'_>> = split
        .iter()
        .flatten()
        .filter(|(_, d, _)| d.len() > 1 && d.starts_with('0'))
        .map(|(p, d, s)| (*p, d.len(), *s))
        .collect();
    let mut order: Vec<(Shape<'_>, Option<&str>)> = Vec::new();
    let mut numbers: BTreeMap<Shape<'_>, BTreeSet<u64>> = BTreeMap::new();
    let mut plain = BTreeSet::new();
    for (name, parts) in names.iter().zip(&split) {
        let number = parts.and_then(|(p, d, s)| Some((p, d, s, d.parse::<u64>().ok()?)));
        let Some((prefix, digits, suffix, n)) = number else {
            if plain.insert(*name) {
                order.push((("", 0, ""), Some(name)));
            }
            continue;
        };
        // `n10` goes with `n09` when somebody padded to two digits.
        let fixed = (prefix, digits.len(), suffix);
        let shape = if padded.contains(&fixed) { fixed } else { (prefix, 0, suffix) };
        let set = numbers.entry(shape).or_default();
        if set.is_empty() {
            order.push((shape, None));
        }
        set.insert(n);
    }
    let mut out = Vec::with_capacity(order.len());
    for (shape, name) in order {
        match name {
            Some(name) => out.push(name.to_owned()),
            None => out.push(bracket(shape, &numbers[&shape])),
        }
    }
    out.join(",")
}

/// Prefix, digits and suffix around the last number of a name.
fn last_number(name: &str) -> Option<(&str, &str, &str)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|c: char| !c.is_ascii_digit());
    let start = start.map_or(0, |i| i + name[i..].chars().next().map_or(1, char::len_utf8));
    let digits = &name[start..end];
    (digits.len() <= 18).then_some((&name[..start], digits, &name[end..]))
}

fn bracket((prefix, width, suffix): Shape<'_>, numbers: &BTreeSet<u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            // `9-10` without padding would read as one digit wide, which `expand` widens itself.
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let one = |(a, b): &(u64, u64)| {
        if a == b { format!("{a:0width$}") } else { format!("{a:0width$}-{b:0width$}") }
    };
    if let [run @ (a, b)] = runs.as_slice()
        && a == b
    {
        return format!("{prefix}{}{suffix}", one(run));
    }
    let runs: Vec<String> = runs.iter().map(one).collect();
    format!("{prefix}[{}]{suffix}", runs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_expand_as_slurm_users_expect() {
        assert_eq!(expand("n[08-10],gw1").unwrap(), ["n08", "n09", "n10", "gw1"]);
        assert_eq!(expand("n[8-10]").unwrap(), ["n8", "n9", "n10"]);
        assert_eq!(expand("r[1-2]n[1,3].x").unwrap(), ["r1n1.x", "r1n3.x", "r2n1.x", "r2n3.x"]);
    }

    #[test]
    fn bad_lists_say_why() {
        let why = |l: &str| expand(l).unwrap_err().to_string();
        assert!(why("n[8-1]").ends_with("`8-1` runs backwards"));
        assert!(why("n[1-2").ends_with("a `[` without its `]`"));
        assert!(why("n1]").ends_with("a `]` without its `[`"));
        assert!(why("n[a]").ends_with("`a` is not a number"));
        assert!(why("n[]").ends_with("`` is not a number"));
        assert!(why("a,,b").ends_with("a name is empty"));
        assert!(why("n[1-010]").ends_with("need the same number of digits"));
        for huge in ["n[0-200000]", "n[0-999999999999999999]", "a[1-1000]b[1-1000]c[1-1000]"] {
            assert!(why(huge).contains("more than 200000 names"), "{huge}");
        }
    }

    #[test]
    fn a_list_costs_no_more_than_its_names() {
        let why = |l: &str| expand(l).unwrap_err().to_string();
        let long = "x".repeat(1 << 20);
        for list in [long.clone(), format!("{long}[0-199998]"), format!("n[0-199998]{long}")] {
            assert!(why(&list).ends_with("more than 255 characters"), "{}", why(&list));
        }
        let many = format!("n[0-199998]{}", "[1]".repeat(300_000));
        assert!(why(&many).ends_with("more than 8 pairs of brackets"), "{}", why(&many));
        assert!(why(&format!("n[{}1]", "0-199998,".repeat(100_000))).contains("more than 200000"));
        assert_eq!(expand(&format!("{}[1-2]", "x".repeat(254))).unwrap().len(), 2);
    }

    #[test]
    fn names_compress_into_ranges() {
        let c = |names: &[&str]| compress(names.iter().copied());
        assert_eq!(c(&["n08", "n09", "n10", "gw1"]), "n[08-10],gw1");
        assert_eq!(c(&["n9", "n10", "n12"]), "n[9-10,12]");
        assert_eq!(c(&["r1-t01", "r1-t02", "r2-t01"]), "r1-t[01-02],r2-t01");
        assert_eq!(c(&["head", "head"]), "head");
        assert_eq!(c(&[]), "");
    }

    proptest! {
        #[test]
        fn what_is_compressed_expands_to_the_same_names(
            names in prop::collection::btree_set("[a-c]{0,2}[0-9]{1,4}([.-][a-b0-9]{1,3})?", 0..60)
        ) {
            prop_assume!(!names.is_empty());
            let list = compress(names.iter().map(String::as_str));
            let back: BTreeSet<String> = expand(&list).unwrap().into_iter().collect();
            prop_assert_eq!(back, names);
        }

        #[test]
        fn no_text_panics(s in "\\PC{0,30}", t in "[n0-9,\\[\\]-]{0,24}") {
            let _ = expand(&s);
            let _ = expand(&t).map(|names| assert!(names.len() <= MAX_NAMES));
            let _ = compress([s.as_str(), t.as_str()]);
        }
    }
}
