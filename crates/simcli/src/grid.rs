//! The points of a sweep: a scenario with some of its keys set to other values.

use super::live::LoadedScenario;
use muster_model::units::Span;
use muster_sim::scenario::{self, Scenario};
use muster_specs::error::did_you_mean;
use muster_terminal::fail::Fail;
use std::fmt;

/// Most points of a sweep; beyond lies a slip of the keyboard.
const MOST: usize = 10_000;

/// A key of the scenario with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) key: String,
    pub(crate) value: toml::Value,
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            toml::Value::String(s) => write!(f, "{}={s}", self.key),
            v => write!(f, "{}={v}", self.key),
        }
    }
}

/// One point: what is set, and the scenario with it.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) set: Vec<Assignment>,
    pub(crate) scenario: Scenario,
}

impl Point {
    /// Its assignments in a line.
    pub(crate) fn label(&self) -> String {
        label(&self.set)
    }
}

fn label(set: &[Assignment]) -> String {
    set.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Every combination of the values that each `KEY=V1,V2` names; the last one changes fastest.
pub(crate) fn grid(sets: &[String]) -> Result<Vec<Vec<Assignment>>, Fail> {
    let mut points: Vec<Vec<Assignment>> = vec![Vec::new()];
    for set in sets {
        let (key, values) = assignment(set)?;
        if points[0].iter().any(|a| a.key == key) {
            return Err(Fail::usage(format!("`{key}` is set twice"))
                .hint(format!("name all its values at once: --set {key}=V1,V2")));
        }
        let mut all = Vec::new();
        for text in split(values, |c| c == ',') {
            all.extend(choices(key, text)?);
        }
        if points.len().saturating_mul(all.len()) > MOST {
            return Err(Fail::usage(format!("the sweep has more than {MOST} points"))
                .hint("a range with a step, `A..B/STEP`, has fewer"));
        }
        points = points
            .iter()
            .flat_map(|p| all.iter().map(move |a| [p.as_slice(), std::slice::from_ref(a)].concat()))
            .collect();
    }
    Ok(points)
}

/// The points of a list: on each line `KEY=VALUE KEY=VALUE`; `#` begins a remark.
pub(crate) fn list(text: &str, origin: &str) -> Result<Vec<Vec<Assignment>>, Fail> {
    let mut points = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let one = |word: &str| {
            let (key, text) = assignment(word)?;
            Ok(Assignment { key: key.into(), value: value(text) })
        };
        let words = split(line, char::is_whitespace).into_iter().filter(|w| !w.is_empty());
        let point: Result<Vec<_>, Fail> = words.map(one).collect();
        points.push(
            point
                .map_err(|f| Fail { message: format!("{origin}:{}: {}", n + 1, f.message), ..f })?,
        );
    }
    if points.is_empty() {
        return Err(Fail::usage(format!("{origin} names no point"))
            .hint("write one on each line, like `fleet.spares=8 failures.scale=2`"));
    }
    Ok(points)
}

/// The scenario with each set of assignments, all of them checked.
pub(crate) fn points(
    base: &LoadedScenario,
    sets: Vec<Vec<Assignment>>,
) -> Result<Vec<Point>, Fail> {
    let root: toml::Table = base
        .text
        .trim_start_matches('\u{feff}')
        .parse()
        .map_err(|e| Fail::usage(format!("cannot read {}: {e}", base.file.display())))?;
    let root = toml::Value::Table(root);
    sets.into_iter().map(|set| point(base, &root, set)).collect()
}

fn point(base: &LoadedScenario, root: &toml::Value, set: Vec<Assignment>) -> Result<Point, Fail> {
    let mut value = root.clone();
    for a in &set {
        put(&mut value, a)?;
    }
    let text = toml::to_string(&value)
        .map_err(|e| Fail::usage(format!("cannot set {}: {e}", label(&set))))?;
    let scenario = scenario::read(&text, &base.file.display().to_string()).map_err(|errors| {
        let said = errors.iter().map(|e| match &e.field {
            Some(f) if !e.message.contains(&format!("`{f}`")) => format!("{f}: {}", e.message),
            _ => e.message.clone(),
        });
        let message = format!(
            "{} with {}: {}",
            base.file.display(),
            label(&set),
            said.collect::<Vec<_>>().join("; ")
        );
        let fail = Fail::usage(message);
        match errors.into_iter().find_map(|e| e.hint) {
            Some(hint) => fail.hint(hint),
            None => fail,
        }
    })?;
    Ok(Point { set, scenario })
}

fn put(root: &mut toml::Value, a: &Assignment) -> Result<(), Fail> {
    if a.key == "seed" {
        return Err(Fail::usage("the seed is no key of a sweep")
            .hint("--seeds N runs every point N times, each with another seed"));
    }
    let (mut here, mut path) = (root, String::new());
    let mut names = a.key.split('.').peekable();
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        let dotted = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        here = match here {
            toml::Value::Table(t) if last => {
                t.insert(name.into(), a.value.clone());
                return Ok(());
            }
            // What the file leaves out has its default, and may be set all the same.
            toml::Value::Table(t) => {
                t.entry(name.to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new()))
            }
            toml::Value::Array(items) => {
                let at = place(items, name).map_err(|hint| {
                    let of = if path.is_empty() { "the file" } else { &path };
                    Fail::usage(format!("cannot set `{}`: {of} has no `{name}`", a.key)).hint(hint)
                })?;
                if last {
                    items[at] = a.value.clone();
                    return Ok(());
                }
                &mut items[at]
            }
            other => {
                return Err(Fail::usage(format!(
                    "cannot set `{}`: `{path}` is {other} and has no keys",
                    a.key
                ))
                .hint(format!("set it as a whole, like --set '{path}={{ {name} = … }}'")));
            }
        };
        path = dotted;
    }
    Ok(())
}

/// A place in a list, by its number from 0 or by its name.
fn place(items: &[toml::Value], given: &str) -> Result<usize, String> {
    let name = |v: &toml::Value| Some(v.get("name")?.as_str()?.to_owned());
    if let Ok(i) = given.parse::<usize>()
        && i < items.len()
    {
        return Ok(i);
    }
    if let Some(i) = items.iter().position(|v| name(v).as_deref() == Some(given)) {
        return Ok(i);
    }
    let numbers = (0..items.len()).map(|i| i.to_string());
    let known: Vec<String> = numbers.chain(items.iter().filter_map(name)).collect();
    Err(did_you_mean(given, &known.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// Splits `KEY=VALUE`.
fn assignment(text: &str) -> Result<(&str, &str), Fail> {
    let parts = text.split_once('=').map(|(k, v)| (k.trim(), v.trim()));
    match parts {
        Some((key, value)) if !value.is_empty() && key.split('.').all(|k| !k.is_empty()) => {
            Ok((key, value))
        }
        _ => Err(Fail::usage(format!("`{text}` is not KEY=VALUE"))
            .hint("write it like fleet.spares=0,8,16 or workload.0.saving.every=auto,10m")),
    }
}

/// Splits at separators that stand outside of quotes, brackets and braces.
fn split(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, c) if depth == 0 && separates(c) => {
                parts.push(text[start..i].trim());
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// A value as TOML has it; a bare word or a length of time is text.
fn value(text: &str) -> toml::Value {
    let whole: Result<toml::Table, _> = format!("v = {text}").parse();
    whole
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(text.into()))
}

/// The values that a piece of text stands for: one, or those of a range.
fn choices(key: &str, text: &str) -> Result<Vec<Assignment>, Fail> {
    let one = |value| Assignment { key: key.into(), value };
    if text.is_empty() {
        return Err(Fail::usage(format!("`{key}` has an empty value")).hint("remove a comma"));
    }
    if text.starts_with(['"', '\'', '[', '{']) {
        return Ok(vec![one(value(text))]);
    }
    let Some((from, rest)) = text.split_once("..") else { return Ok(vec![one(value(text))]) };
    let (to, step) = match rest.split_once('/') {
        Some((to, step)) => (to.trim(), Some(step.trim())),
        None => (rest.trim(), None),
    };
    range(from.trim(), to, step).map(|all| all.into_iter().map(one).collect()).map_err(|why| {
        Fail::usage(format!("`{key}={text}`: {why}"))
            .hint("a range is written FIRST..LAST/STEP, like 0..32/8, 0.5..2/0.5 or 10s..60s/10s")
    })
}

fn range(from: &str, to: &str, step: Option<&str>) -> Result<Vec<toml::Value>, &'static str> {
    const NOT: &str = "this is no range of numbers or lengths of time";
    if let (Ok(a), Ok(b)) = (from.parse::<i64>(), to.parse::<i64>())
        && let Ok(step) = step.unwrap_or("1").parse::<i64>()
    {
        let n = steps(b.checked_sub(a).ok_or(NOT)?, step)?;
        return Ok((0..=n).map(|i| toml::Value::Integer(a + i * step)).collect());
    }
    let step = step.ok_or("the range needs a step")?;
    let number = |t: &str| t.parse::<f64>().ok().filter(|v| v.is_finite());
    if let (Some(a), Some(b), Some(step)) = (number(from), number(to), number(step)) {
        if step <= 0.0 || b < a {
            return Err("the range is empty");
        }
        // The last value belongs to it, although sums of decimal parts may overshoot a little.
        let n = (b - a) / step + 1e-9;
        if n > 10_000.0 {
            return Err("the range has too many values");
        }
        // Rounded to what was typed: 0.1 + 2 x 0.1 is 0.3 to the reader.
        let places = [from, step.to_string().as_str()].map(decimals).into_iter().max();
        let places = places.unwrap_or(0);
        let at = |i: u32| format!("{:.places$}", a + f64::from(i) * step).parse().unwrap_or(a);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10,000")]
        let last = n.floor() as u32;
        return Ok((0..=last).map(|i| toml::Value::Float(at(i))).collect());
    }
    let span = |t: &str| t.parse::<Span>().ok().and_then(|s| i64::try_from(s.0).ok());
    let (Some(a), Some(b), Some(step)) = (span(from), span(to), span(step)) else {
        return Err(NOT);
    };
    let n = steps(b - a, step)?;
    let text = |i: i64| Span(u64::try_from(a + i * step).unwrap_or(0)).to_string();
    Ok((0..=n).map(|i| toml::Value::String(text(i))).collect())
}

/// How many steps lead over a distance.
fn steps(distance: i64, step: i64) -> Result<i64, &'static str> {
    match (distance, step) {
        (d, s) if s <= 0 || d < 0 => Err("the range is empty"),
        (d, s) if d / s > 10_000 => Err("the range has too many values"),
        (d, s) => Ok(d / s),
    }
}

fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, d)| d.len())
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
