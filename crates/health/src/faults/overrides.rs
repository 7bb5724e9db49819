//! The operator's file: other verdicts for this site, a SKU or a pool.
//!
//! ```toml
//! [[fault]]
//! code = "xid-63"
//! pool = "inference"        # optional; so is `sku`
//! action = "watch"          # optional; so is `class`
//! repeat = { count = 3, within = "24h", action = "inspect" }   # `count = 0` turns it off
//! note = "rows are remapped at the weekly restart"
//! ```

use super::catalogue::{Catalogue, Exception, Repeat, Rule, word};
use super::code::Code;
use muster_model::fault::{FaultAction, FaultClass};
use muster_model::units::Span;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// What is wrong with a file of overrides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {hint}")]
pub struct FaultFileError {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong.
    pub what: String,
    /// How to fix it.
    pub hint: String,
}

/// Larger files are refused: nobody writes that many rules.
const MAX_FILE: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    fault: Vec<OverrideEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideEntry {
    code: Spanned<String>,
    sku: Option<Spanned<String>>,
    pool: Option<Spanned<String>>,
    class: Option<Spanned<String>>,
    action: Option<Spanned<String>>,
    repeat: Option<WrittenRepeat>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRepeat {
    count: Spanned<u32>,
    within: Option<Spanned<String>>,
    action: Option<Spanned<String>>,
}

/// One change of the file, checked.
struct Change {
    code: Code,
    sku: Option<String>,
    pool: Option<String>,
    class: Option<FaultClass>,
    action: Option<FaultAction>,
    /// `Some(None)` turns it off.
    repeat: Option<Option<Repeat>>,
    note: Option<String>,
}

impl Change {
    /// As [`Exception::weight`].
    fn exception_weight(&self) -> u8 {
        u8::from(self.sku.is_some()) + 2 * u8::from(self.pool.is_some())
    }

    /// SKU and pool; empty where it is for all.
    fn aimed_at(&self) -> (&str, &str) {
        (self.sku.as_deref().unwrap_or_default(), self.pool.as_deref().unwrap_or_default())
    }

    /// What it makes of the rule that held so far.
    fn onto(self, base: Rule) -> Exception {
        let rule = Rule {
            class: self.class.unwrap_or(base.class),
            action: self.action.unwrap_or(base.action),
            repeat: self.repeat.unwrap_or(base.repeat),
            note: self.note.or(base.note),
        };
        Exception { code: self.code, sku: self.sku, pool: self.pool, rule }
    }
}

impl Catalogue {
    /// The same, with what an operator's file says otherwise. What a file says goes before what
    /// this catalogue said; a pool goes before a SKU, and both together before either.
    ///
    /// # Errors
    /// The first thing that is wrong with the file: line, what, and how to fix it.
    pub fn with_overrides(&self, text: &str) -> Result<Catalogue, FaultFileError> {
        let mut next = self.clone();
        let mut changes = read(self, text)?;
        changes.sort_by_key(Change::exception_weight);
        for change in changes {
            let (sku, pool) = change.aimed_at();
            let base = next.evaluate(change.code, sku, pool).clone();
            let made = change.onto(base);
            next.exceptions
                .retain(|e| !(e.code == made.code && e.sku == made.sku && e.pool == made.pool));
            next.exceptions.push(made);
        }
        next.exceptions.sort_by_key(|e| (e.code, std::cmp::Reverse(e.weight())));
        Ok(next)
    }
}

/// The changes that a file asks for.
fn read(known: &Catalogue, text: &str) -> Result<Vec<Change>, FaultFileError> {
    if text.len() > MAX_FILE {
        let what = format!("the file is larger than {MAX_FILE} bytes");
        return Err(FaultFileError { line: 1, what, hint: "remove what is not needed".into() });
    }
    let file: File = toml::from_str(text).map_err(|e| unreadable(text, &e))?;
    let mut seen: Vec<(Code, Option<String>, Option<String>)> = Vec::new();
    let mut changes = Vec::with_capacity(file.fault.len());
    for written in file.fault {
        let at = written.code.span();
        let change = checked(known, text, written)?;
        let key = (change.code, change.sku.clone(), change.pool.clone());
        if seen.contains(&key) {
            let what = format!("`{}` has two rules for the same nodes", change.code);
            return Err(wrong(text, &at, what, "keep one of the two, or aim one at a sku or pool"));
        }
        seen.push(key);
        changes.push(change);
    }
    Ok(changes)
}

fn checked(known: &Catalogue, text: &str, w: OverrideEntry) -> Result<Change, FaultFileError> {
    let name = w.code.get_ref();
    let Some(code) = known.code(name) else {
        let what = format!("there is no fault `{}`", shown(name));
        let hint = "write `xid-NUMBER`, `sxid-NUMBER`, or a name of docs/faults.md such as `oom`";
        return Err(wrong(text, &w.code.span(), what, hint));
    };
    if w.class.is_none() && w.action.is_none() && w.repeat.is_none() {
        let what = format!("the entry for `{code}` changes nothing");
        return Err(wrong(text, &w.code.span(), what, "add `class`, `action` or `repeat`"));
    }
    let action = w.action.map(|a| action(text, &a)).transpose()?;
    let repeat = w.repeat.map(|r| repeat(text, r)).transpose()?;
    // It is a trace of other faults; acting on it took healthy racks out elsewhere.
    if code == Code::Xid(45)
        && (action.is_some_and(|a| a > FaultAction::Watch) || repeat.is_some_and(|r| r.is_some()))
    {
        let what = "`xid-45` is a trace of other faults and never asks for an action".into();
        let hint = "remove it, and act on the fault that came with it";
        return Err(wrong(text, &w.code.span(), what, hint));
    }
    if code == Code::Xid(154) && (action.is_some() || repeat.is_some()) {
        let what = "`xid-154` itself names the action".into();
        let hint = "remove it, and override the fault that it came with";
        return Err(wrong(text, &w.code.span(), what, hint));
    }
    Ok(Change {
        code,
        sku: w.sku.map(|s| name_of(text, s, "sku")).transpose()?,
        pool: w.pool.map(|p| name_of(text, p, "pool")).transpose()?,
        class: w.class.map(|c| class(text, &c)).transpose()?,
        action,
        repeat,
        note: w.note,
    })
}

fn name_of(text: &str, name: Spanned<String>, field: &str) -> Result<String, FaultFileError> {
    let at = name.span();
    let name = name.into_inner();
    if name.trim().is_empty() {
        let hint = "name one, or leave the key out to mean all";
        return Err(wrong(text, &at, format!("`{field}` is empty"), hint));
    }
    Ok(name)
}

fn class(text: &str, given: &Spanned<String>) -> Result<FaultClass, FaultFileError> {
    word(given.get_ref()).ok_or_else(|| {
        let what = format!("`{}` is no class", shown(given.get_ref()));
        let hint = "one of application, driver, gpu, memory, link, bus, thermal, power, network, \
                    host, storage, notice, unknown";
        wrong(text, &given.span(), what, hint)
    })
}

fn action(text: &str, given: &Spanned<String>) -> Result<FaultAction, FaultFileError> {
    word(given.get_ref()).ok_or_else(|| {
        let what = format!("`{}` is no action", shown(given.get_ref()));
        let hint = "one of none, watch, restart_job, reset_when_idle, reset_gpu, reboot, inspect, \
                    replace";
        wrong(text, &given.span(), what, hint)
    })
}

fn repeat(text: &str, w: WrittenRepeat) -> Result<Option<Repeat>, FaultFileError> {
    let count = *w.count.get_ref();
    let (Some(within), Some(then)) = (&w.within, &w.action) else {
        if count == 0 {
            return Ok(None);
        }
        let what = "`repeat` is not complete".into();
        let hint = "write `repeat = { count = 3, within = \"24h\", action = \"inspect\" }`, or \
                    `count = 0` to turn it off";
        return Err(wrong(text, &w.count.span(), what, hint));
    };
    let span: Span = within.get_ref().parse().map_err(|_| {
        let what = format!("`{}` is no time", shown(within.get_ref()));
        wrong(text, &within.span(), what, "write `30m`, `24h` or `7d`")
    })?;
    if span.0 == 0 || span > Repeat::LONGEST {
        let what = "`within` is out of range".into();
        return Err(wrong(text, &within.span(), what, "from 1s to 7d is possible"));
    }
    let action = action(text, then)?;
    if count > Repeat::MOST {
        let what = "`count` is too large".into();
        return Err(wrong(text, &w.count.span(), what, "up to 32 is possible"));
    }
    Ok((count > 0).then_some(Repeat { count, within: span, action }))
}

impl Repeat {
    /// The longest time that is remembered.
    pub const LONGEST: Span = Span::secs(7 * 86_400);
    /// The most repeats that are remembered.
    pub const MOST: u32 = 32;
}

fn wrong(text: &str, at: &Range<usize>, what: String, hint: &str) -> FaultFileError {
    FaultFileError { line: line_of(text, at.start), what, hint: hint.into() }
}

fn line_of(text: &str, at: usize) -> u32 {
    let before = text.bytes().take(at).filter(|b| *b == b'\n').count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// What the TOML reader refused, with a hint that fits.
fn unreadable(text: &str, e: &toml::de::Error) -> FaultFileError {
    let what = e.message().trim().to_owned();
    let hint = if what.contains("unknown field") {
        "remove the key, or correct its name"
    } else if what.contains("missing field") {
        "add the key"
    } else if what.contains("invalid type") {
        "write a value of the right kind"
    } else {
        "see docs/faults.md for an example"
    };
    let line = e.span().map_or(1, |s| line_of(text, s.start));
    FaultFileError { line, what, hint: hint.into() }
}

/// What a file said, short and visible.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Catalogue, FaultFileError> {
        Catalogue::builtin().with_overrides(text)
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let c = with(
            "[[fault]]\ncode = \"xid-63\"\naction = \"watch\"\nnote = \"weekly restart\"\n\
             [[fault]]\ncode = \"xid-200\"\nclass = \"gpu\"\naction = \"reset_gpu\"\n",
        )
        .expect("a good file");
        let rule = c.evaluate(Code::Xid(63), "h100", "train");
        assert_eq!((rule.class, rule.action), (FaultClass::Memory, FaultAction::Watch));
        assert_eq!(rule.note.as_deref(), Some("weekly restart"));
        assert_eq!(c.evaluate(Code::Xid(200), "", "").action, FaultAction::ResetGpu);
        assert_eq!(c.evaluate(Code::Xid(64), "", "").action, FaultAction::Replace);
    }

    #[test]
    fn a_pool_goes_before_a_sku_and_both_before_either() {
        let c = with(
            "[[fault]]\ncode=\"oom\"\npool=\"dev\"\nsku=\"H100\"\naction=\"none\"\n\
             [[fault]]\ncode=\"oom\"\npool=\"dev\"\naction=\"watch\"\n\
             [[fault]]\ncode=\"oom\"\nsku=\"h100\"\naction=\"inspect\"\n\
             [[fault]]\ncode=\"oom\"\nclass=\"host\"\n",
        )
        .expect("a good file");
        let action = |sku, pool| c.evaluate(Code::Other("oom"), sku, pool).action;
        assert_eq!(action("h100", "dev"), FaultAction::None);
        assert_eq!(action("h200", "dev"), FaultAction::Watch);
        assert_eq!(action("h100", "train"), FaultAction::Inspect);
        assert_eq!(action("h200", "train"), FaultAction::RestartJob);
        for (sku, pool) in [("h100", "dev"), ("h200", "dev"), ("h100", "x"), ("x", "x")] {
            assert_eq!(c.evaluate(Code::Other("oom"), sku, pool).class, FaultClass::Host);
        }
    }

    #[test]
    fn a_later_file_goes_before_an_earlier_one() {
        let one = with("[[fault]]\ncode=\"oom\"\naction=\"watch\"\n").expect("good");
        let two = one.with_overrides("[[fault]]\ncode=\"oom\"\naction=\"none\"\n").expect("good");
        assert_eq!(two.evaluate(Code::Other("oom"), "", "").action, FaultAction::None);
    }

    #[test]
    fn repeats_can_be_set_and_turned_off() {
        let c = with(
            "[[fault]]\ncode=\"xid-94\"\nrepeat={count=3,within=\"1h\",action=\"reset_gpu\"}\n\
             [[fault]]\ncode=\"xid-79\"\nrepeat={count=0}\n",
        )
        .expect("a good file");
        let want = Repeat { count: 3, within: Span::secs(3600), action: FaultAction::ResetGpu };
        assert_eq!(c.evaluate(Code::Xid(94), "", "").repeat, Some(want));
        assert_eq!(c.evaluate(Code::Xid(79), "", "").repeat, None);
    }

    #[test]
    fn errors_say_line_what_and_how_to_fix() {
        let cases: &[(&str, u32, &str, &str)] = &[
            ("[[fault]]\ncode = \"xid-x\"\naction=\"none\"", 2, "no fault `xid-x`", "xid-NUMBER"),
            ("[[fault]]\ncode=\"oom\"\naction=\"reboot_it\"", 3, "no action", "restart_job"),
            ("[[fault]]\ncode=\"oom\"\nclass=\"gpus\"", 3, "no class", "application"),
            ("[[fault]]\ncode=\"oom\"\nactoin=\"none\"", 3, "unknown field `actoin`", "correct"),
            ("[[faults]]\ncode=\"oom\"", 1, "unknown field `faults`", "correct"),
            ("[[fault]]\naction=\"none\"", 1, "missing field `code`", "add"),
            ("[[fault]]\ncode=\"oom\"", 2, "changes nothing", "add `class`"),
            ("[[fault]]\ncode=\"oom\"\naction=3", 3, "invalid type", "right kind"),
            ("[[fault]]\ncode=\"oom\"\nsku=\"\"\naction=\"none\"", 3, "`sku` is empty", "leave"),
            ("[[fault]]\ncode=\"xid-45\"\naction=\"reboot\"", 2, "never asks", "remove"),
            ("[[fault]]\ncode=\"xid-154\"\naction=\"none\"", 2, "names the action", "remove"),
            ("[[fault]]\ncode=\"oom\"\nrepeat={count=3}", 3, "not complete", "count = 0"),
            (
                "[[fault]]\ncode=\"oom\"\nrepeat={count=3,within=\"soon\",action=\"none\"}",
                3,
                "no time",
                "24h",
            ),
            (
                "[[fault]]\ncode=\"oom\"\nrepeat={count=99,within=\"1h\",action=\"none\"}",
                3,
                "too large",
                "32",
            ),
            (
                "[[fault]]\ncode=\"oom\"\naction=\"none\"\n[[fault]]\ncode=\"oom\"\nclass=\"host\"",
                5,
                "has two rules",
                "keep one",
            ),
            ("[[fault]\n", 1, "", "docs/faults.md"),
        ];
        for (text, line, what, hint) in cases {
            let e = with(text).expect_err(text);
            assert_eq!(e.line, *line, "{text}: {e}");
            assert!(e.what.contains(what), "{text}: {e}");
            assert!(e.hint.contains(hint), "{text}: {e}");
        }
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        assert!(with("").is_ok());
        assert!(with("# only a comment\n").is_ok());
    }
}
