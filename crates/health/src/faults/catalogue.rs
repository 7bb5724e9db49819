//! Every known fault: what it is, whose fault, what to do, and where others disagree.

use super::code::Code;
use muster_model::fault::{FaultAction, FaultClass, ObservedFault};
use muster_model::units::Span;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TABLES: [&str; 3] = [
    include_str!("../../data/xids.psv"),
    include_str!("../../data/sxids.psv"),
    include_str!("../../data/others.psv"),
];

/// Whether the job is the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAttribution {
    /// The job: its program or its input.
    Job,
    /// The platform: hardware, driver, cooling, network.
    Platform,
    /// It can be either; more has to be known.
    Unclear,
    /// Nothing went wrong.
    Nobody,
}

/// What somebody else makes of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct View {
    /// Who says so: a vendor, a project or a paper.
    pub source: &'static str,
    /// What they do.
    pub says: &'static str,
}

/// When a fault that repeats asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// So many times, distinguished by a pause.
    pub count: u32,
    /// Within this time.
    pub within: Span,
    /// What it asks for then.
    pub action: FaultAction,
}

/// How a fault is judged here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The component it is attributed to.
    pub class: FaultClass,
    /// What it asks for.
    pub action: FaultAction,
    /// When it asks for more.
    pub repeat: Option<Repeat>,
    /// Why the operator judges it so, where a file says.
    pub note: Option<String>,
}

/// What is known of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its stable code, such as `xid-79`.
    pub code: Code,
    /// What its maker calls it.
    pub name: &'static str,
    /// How it is judged unless a file says otherwise.
    pub rule: Rule,
    /// Whose fault it is.
    pub attribution: FaultAttribution,
    /// GPU generations that show it; empty where that is not known or does not matter.
    pub generations: Vec<&'static str>,
    /// What it is, in a line.
    pub text: &'static str,
    /// What to do, in a line.
    pub advice: &'static str,
    /// What others make of it.
    pub views: Vec<View>,
    /// Whether they disagree on more than words.
    pub disputed: bool,
    /// Rules beyond class and action that apply to it; empty where there are none.
    pub special: &'static str,
}

/// A rule for some of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exception {
    pub(super) code: Code,
    pub(super) sku: Option<String>,
    pub(super) pool: Option<String>,
    pub(super) rule: Rule,
}

impl Exception {
    /// How closely it is aimed; of two that fit, the closer one counts.
    pub(super) fn weight(&self) -> u8 {
        u8::from(self.sku.is_some()) + 2 * u8::from(self.pool.is_some())
    }

    fn fits(&self, code: Code, sku: &str, pool: &str) -> bool {
        self.code == code
            && self.sku.as_ref().is_none_or(|s| s.eq_ignore_ascii_case(sku))
            && self.pool.as_ref().is_none_or(|p| p == pool)
    }
}

/// Every known fault, and how it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    entries: BTreeMap<Code, Entry>,
    pub(super) exceptions: Vec<Exception>,
    unknown: Rule,
}

impl Catalogue {
    /// The one that Muster brings along.
    #[must_use]
    pub fn builtin() -> &'static Catalogue {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            let lines = TABLES.iter().flat_map(|t| t.lines());
            let entries = lines.filter_map(entry).map(|e| (e.code, e)).collect();
            let unknown = Rule {
                class: FaultClass::Unknown,
                action: FaultAction::Watch,
                repeat: None,
                note: None,
            };
            Catalogue { entries, exceptions: Vec::new(), unknown }
        })
    }

    /// What is known of a fault.
    #[must_use]
    pub fn entry(&self, code: Code) -> Option<&Entry> {
        self.entries.get(&code)
    }

    /// How a fault is judged on a node with GPUs of a SKU in a pool. What nobody knows is watched.
    #[must_use]
    pub fn evaluate(&self, code: Code, sku: &str, pool: &str) -> &Rule {
        let mut best: Option<&Exception> = None;
        for e in self.exceptions.iter().filter(|e| e.fits(code, sku, pool)) {
            if best.is_none_or(|b| e.weight() > b.weight()) {
                best = Some(e);
            }
        }
        match best {
            Some(e) => &e.rule,
            None => self.entries.get(&code).map_or(&self.unknown, |e| &e.rule),
        }
    }

    /// A fault as this catalogue judges it. A node judges by the catalogue it was started with;
    /// where that gave the usual verdict and this one's is another, this one counts. What the
    /// node concluded beyond that (from repeats, or from the driver's own verdict) stays.
    #[must_use]
    pub fn reevaluate(&self, mut fault: ObservedFault, sku: &str, pool: &str) -> ObservedFault {
        let Some(code) = self.code(&fault.code) else { return fault };
        let usual = Catalogue::builtin().evaluate(code, sku, pool);
        let rule = self.evaluate(code, sku, pool);
        if fault.class == usual.class {
            fault.class = rule.class;
        }
        if fault.action == usual.action {
            fault.action = rule.action;
        }
        fault
    }

    /// The code of a name: any `xid-N` or `sxid-N`, and the other names that are known.
    #[must_use]
    pub fn code(&self, name: &str) -> Option<Code> {
        Code::numbered(name).or_else(|| {
            self.entries.keys().copied().find(|c| matches!(c, Code::Other(n) if *n == name))
        })
    }

    /// All that is known, in order of code.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}

/// A word of the model, such as `reset_gpu`.
pub(super) fn word<T: for<'a> Deserialize<'a>>(text: &str) -> Option<T> {
    let source: StrDeserializer<'_, WordError> = text.into_deserializer();
    T::deserialize(source).ok()
}

/// A line of the tables. None for comments; a test sees to it that every other line is good.
fn entry(line: &'static str) -> Option<Entry> {
    if line.starts_with('#') {
        return None;
    }
    let mut columns = line.split('|');
    let mut next = || columns.next();
    let (code, name, class, action, repeat) = (next()?, next()?, next()?, next()?, next()?);
    let (attribution, generations, text, advice) = (next()?, next()?, next()?, next()?);
    let (views, disputed, special) = (next()?, next()?, next()?);
    let view = |v: &'static str| v.split_once(": ").map(|(source, says)| View { source, says });
    Some(Entry {
        code: Code::numbered(code).unwrap_or(Code::Other(code)),
        name,
        rule: Rule {
            class: word(class)?,
            action: word(action)?,
            repeat: if repeat.is_empty() { None } else { Some(repeated(repeat)?) },
            note: None,
        },
        attribution: word(attribution)?,
        generations: generations.split_whitespace().collect(),
        text,
        advice,
        views: views.split(" ~ ").filter_map(view).collect(),
        disputed: disputed == "yes",
        special,
    })
}

/// `5/24h/inspect`.
fn repeated(text: &str) -> Option<Repeat> {
    let mut parts = text.split('/');
    let count = parts.next()?.parse().ok()?;
    let within = parts.next()?.parse().ok()?;
    Some(Repeat { count, within, action: word(parts.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_an_entry_of_its_own() {
        let lines: Vec<&str> =
            TABLES.iter().flat_map(|t| t.lines()).filter(|l| !l.starts_with('#')).collect();
        assert_eq!(lines.len(), Catalogue::builtin().entries().count());
        for line in lines {
            assert_eq!(line.split('|').count(), 12, "{line}");
        }
    }

    #[test]
    fn every_fault_says_what_it_is_and_what_to_do_in_a_line() {
        for e in Catalogue::builtin().entries() {
            for text in [e.text, e.advice] {
                let n = text.chars().count();
                assert!((8..=140).contains(&n), "{}: {n}: {text}", e.code);
            }
            assert!(!e.name.is_empty(), "{}", e.code);
            assert!(e.special.len() <= 140, "{}", e.code);
        }
    }

    #[test]
    fn the_numbers_that_are_known_are_all_there() {
        let c = Catalogue::builtin();
        let xids = c.entries().filter(|e| matches!(e.code, Code::Xid(_))).count();
        let sxids = c.entries().filter(|e| matches!(e.code, Code::Sxid(_))).count();
        assert_eq!((xids, sxids), (173, 93));
        assert!((1..=173).all(|n| c.entry(Code::Xid(n)).is_some()));
    }

    #[test]
    fn the_job_is_the_cause_of_what_it_does_and_of_nothing_else() {
        for e in Catalogue::builtin().entries() {
            if e.attribution == FaultAttribution::Job {
                assert_eq!(e.rule.class, FaultClass::Application, "{}", e.code);
                assert!(e.rule.action <= FaultAction::RestartJob, "{}", e.code);
            }
            if e.attribution == FaultAttribution::Nobody {
                assert!(e.rule.action <= FaultAction::Watch, "{}", e.code);
            }
        }
    }

    #[test]
    fn what_sources_disagree_on_is_marked() {
        let c = Catalogue::builtin();
        for n in [63, 64, 92, 94, 109, 119, 120, 121, 32, 68, 69] {
            let e = c.entry(Code::Xid(n)).expect("in the table");
            assert!(e.disputed && e.views.len() >= 2, "{n}");
        }
        let e = c.entry(Code::Xid(79)).expect("in the table");
        assert!(!e.disputed);
        assert_eq!((e.rule.class, e.rule.action), (FaultClass::Bus, FaultAction::Reboot));
        let (source, says) = (e.views[0].source, e.views[0].says);
        assert_eq!((source, says), ("NVIDIA", "restart the node"));
    }

    #[test]
    fn what_nobody_knows_is_watched() {
        let rule = Catalogue::builtin().evaluate(Code::Xid(999), "h200-sxm", "train");
        assert_eq!((rule.class, rule.action), (FaultClass::Unknown, FaultAction::Watch));
        assert_eq!(Catalogue::builtin().code("oom"), Some(Code::Other("oom")));
        assert_eq!(Catalogue::builtin().code("ooms"), None);
    }
}
