use crate::{Bound, Next, Observable, StepKind, Target, Value, builtin, fill, parse};
use muster_model::runbook::{RunOutcome, StepOutcome};
use std::collections::{BTreeMap, BTreeSet};

const GOOD: &str = "---
name: try-me
title: Try me
topics: [nothing]
urgency: ticket
owner: nobody
vars: [node, gpu?]
---

Words.

## 1. check: Is $node there

Look.

```muster
check: node.reachable
is: yes
else: 3
```

## 2. act: Cordon it

```muster
act: cordon
reason: because of $gpu
then: 4
```

## 3. ask: What now

```muster
ask: What about $node?
choice: cordon it -> 2
choice: leave it, it is fine -> end
assume: leave it, it is fine
```

## 4. wait: Until it is empty

```muster
wait: node.jobs
at-most: 0
for: 15m
```
";

fn vars(v: &[(&str, &str)]) -> BTreeMap<String, String> {
    v.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_book_is_read_as_it_is_written() {
    let b = parse("x.md", GOOD).expect("a good book");
    assert_eq!((b.name.as_str(), b.steps.len(), b.intro.as_str()), ("try-me", 4, "Words."));
    assert_eq!(
        (b.needs.as_slice(), b.takes.as_slice()),
        (&["node".into()][..], &["gpu".into()][..])
    );
    assert_eq!(b.steps[0].otherwise, Target::Step(3));
    assert_eq!(b.steps[0].text, "Look.");
    let StepKind::Act(a) = &b.steps[1].what else { panic!("an act") };
    let v = vars(&[("node", "n1"), ("gpu", "3")]);
    assert_eq!(a.words(&v), "cordon node=n1 reason=because of 3");
    let StepKind::Wait(t, span) = &b.steps[3].what else { panic!("a wait") };
    assert_eq!((t.words().as_str(), span.0), ("node.jobs is 0 or less", 900_000));
}

#[test]
fn what_follows_is_what_the_book_says() {
    let b = parse("x.md", GOOD).expect("a good book");
    let after = |no, o, c: Option<&str>| b.after(no, o, c);
    assert_eq!(after(1, StepOutcome::Holds, None), Next::Step(2));
    assert_eq!(after(1, StepOutcome::HoldsNot, None), Next::Step(3));
    assert_eq!(after(2, StepOutcome::Done, None), Next::Step(4));
    assert_eq!(after(2, StepOutcome::Refused, None), Next::Over(RunOutcome::Unresolved));
    assert_eq!(after(3, StepOutcome::Answered, Some("cordon it")), Next::Step(2));
    let fine = after(3, StepOutcome::Answered, Some("leave it, it is fine"));
    assert_eq!(fine, Next::Over(RunOutcome::Resolved));
    assert_eq!(after(4, StepOutcome::Holds, None), Next::Over(RunOutcome::Resolved));
    assert_eq!(after(99, StepOutcome::Holds, None), Next::Over(RunOutcome::Unresolved));
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_how_to_fix_it() {
    let cases: &[(&str, &str, usize, &str)] = &[
        ("---\nname", "name", 1, "does not begin with front matter"),
        ("name: try-me\n", "name: Try Me\n", 2, "is no name"),
        ("urgency: ticket", "urgency: soon", 5, "is no urgency"),
        ("owner: nobody\n", "", 1, "has no `owner`"),
        ("topics: [nothing]\n", "", 1, "serves nothing"),
        ("vars: [node, gpu?]", "vars: [cow]", 7, "is no variable"),
        ("vars: [node, gpu?]", "vars: [node]", 22, "`gpu` is not declared"),
        ("vars: [node, gpu?]", "colour: red", 7, "is not known here"),
        ("## 1. check: Is", "## 2. check: Is", 12, "is where step 1 should be"),
        ("## 1. check: Is", "## Is", 12, "is no step"),
        ("check: node.reachable", "check: node.mood", 17, "cannot be looked at"),
        ("is: yes\n", "", 17, "has one bound"),
        ("at-most: 0", "at-most: few", 43, "is no number"),
        ("act: cordon", "act: explode", 25, "cannot be done"),
        ("reason: because of $gpu", "colour: red", 26, "is not known in step 2"),
        ("else: 3", "else: 9", 12, "leads to step 9"),
        ("else: 3", "else: up", 19, "leads nowhere"),
        ("else: 3", "else: 2", 30, "no step leads to step 3"),
        ("-> end", "", 35, "does not name what follows"),
        ("choice: cordon it -> 2\n", "", 33, "two choices or more"),
        ("assume: leave it, it is fine", "assume: maybe", 36, "is no choice"),
        ("for: 15m", "for: a while", 44, "is no time"),
        ("for: 15m\n```", "for: 15m", 41, "has no end"),
    ];
    for (from, to, line, what) in cases {
        let from_front = *from == "---\nname";
        let text =
            if from_front { GOOD.replacen("---\n", "", 1) } else { GOOD.replacen(from, to, 1) };
        let e = parse("x.md", &text).expect_err(what);
        assert!(e.to_string().starts_with(&format!("x.md:{line}: ")), "{e} for {to:?}");
        assert!(e.message.contains(what), "{e} for {to:?}, expected {what}");
        assert!(!e.hint.is_empty(), "{e}");
    }
}

#[test]
fn nothing_that_is_written_makes_it_fall_over() {
    // Every beginning of a good runbook, and every runbook with one line missing.
    for end in 0..GOOD.len() {
        let _ = parse("x.md", &GOOD[..end]);
    }
    let lines: Vec<&str> = GOOD.lines().collect();
    for skip in 0..lines.len() {
        let text: Vec<&str> =
            lines.iter().enumerate().filter(|(i, _)| *i != skip).map(|(_, l)| *l).collect();
        let _ = parse("x.md", &text.join("\n"));
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "lists the files that the program must have")]
fn every_book_on_the_shelf_is_sound_and_called_as_its_file() {
    for name in builtin::names() {
        let book = parse(name, builtin::text(name).expect("its text"))
            .unwrap_or_else(|e| panic!("docs/runbooks/{e} ({})", e.hint));
        assert_eq!(book.name, name);
        assert!(!book.intro.is_empty(), "{name} says what it is for");
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbooks");
    let files: BTreeSet<String> = std::fs::read_dir(dir)
        .expect("docs/runbooks")
        .filter_map(|f| f.ok()?.file_name().into_string().ok())
        .filter_map(|f| f.strip_suffix(".md").map(str::to_owned))
        .filter(|f| f != "README")
        .collect();
    let known: BTreeSet<String> = builtin::names().map(str::to_owned).collect();
    assert_eq!(files, known, "files and the list in builtin.rs");
}

#[test]
fn a_bound_holds_what_it_says_and_never_what_is_unknown() {
    let is = Bound::Is(vec!["ready".into(), "3".into()]);
    assert!(is.holds(&Value::Word("ready".into())) && is.holds(&Value::Number(3)));
    assert!(!Bound::IsNot(vec!["x".into()]).holds(&Value::Unknown("away".into())));
    assert!(
        Bound::AtLeast(3).holds(&Value::Number(3)) && !Bound::AtMost(2).holds(&Value::Number(3))
    );
    assert!(!Bound::AtLeast(0).holds(&Value::Word("many".into())));
    assert_eq!(Value::parse_reported("83.7"), Value::Number(83));
    assert_eq!(Observable::parse("telemetry.temp"), Some(Observable::Telemetry("temp".into())));
    assert_eq!(Observable::parse("telemetry.a b"), None);
    assert_eq!(fill("$node costs 5$ $cow", &vars(&[("node", "n1")])), "n1 costs 5$ ");
}
