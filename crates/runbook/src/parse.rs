//! From Markdown to a runbook, with what is wrong, where, and how to fix it.

use crate::act::{Act, ActKind};
use crate::error::RunbookError;
use crate::observable::{Bound, Observable};
use crate::runbook::{Ask, Choice, ParsedRunbook, Step, StepKind, Target, Test, Urgency};
use muster_model::runbook::BOOK_MAX;
use muster_model::units::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a runbook.
const STEPS_MAX: usize = 40;
/// Variables a runbook may speak of.
const VARS: &[&str] = &["node", "gpu", "job", "finding", "incident", "breaker", "project", "alert"];

type Read<T> = Result<T, RunbookError>;

/// Reads a runbook and checks that it is sound: every step known, every way leading somewhere,
/// every step reachable, every variable declared.
///
/// # Errors
/// [`RunbookError`] with the file, the line and how to fix it.
pub fn parse(origin: &str, text: &str) -> Result<ParsedRunbook, RunbookError> {
    let named = |mut e: RunbookError| {
        e.origin = origin.to_owned();
        e
    };
    let book = read(text).map_err(named)?;
    sound(&book).map_err(named)?;
    Ok(book)
}

/// Lines of a block with their numbers.
type Lines<'a> = Vec<(usize, &'a str)>;

fn read(text: &str) -> Read<ParsedRunbook> {
    if text.chars().count() > BOOK_MAX {
        return Err(RunbookError::new(
            1,
            "the runbook is too long",
            "64 KiB is the most; split it in two",
        ));
    }
    let mut lines = text.lines().enumerate().map(|(i, l)| (i + 1, l)).peekable();
    if lines.next().map(|(_, l)| l.trim()) != Some("---") {
        return Err(RunbookError::new(
            1,
            "the runbook does not begin with front matter",
            "begin with a line `---`, then name, title, urgency and owner, then `---` again",
        ));
    }
    let mut front = Lines::new();
    loop {
        match lines.next() {
            Some((_, l)) if l.trim() == "---" => break,
            Some(l) => front.push(l),
            None => {
                return Err(RunbookError::new(
                    1,
                    "the front matter has no end",
                    "close it with `---`",
                ));
            }
        }
    }
    let mut book = front_matter(&front)?;
    let mut open: Option<Draft<'_>> = None;
    let mut block: Option<(usize, Lines<'_>)> = None;
    for (no, line) in lines {
        if let Some((at, mut body)) = block.take() {
            if line.trim() == "```" {
                let Some(draft) = open.as_mut() else {
                    return Err(RunbookError::new(
                        at,
                        "a block is before the first step",
                        "put it below a heading like `## 1. check: The node answers`",
                    ));
                };
                if draft.block.is_some() {
                    return Err(RunbookError::new(
                        at,
                        format!("step {} has two blocks", draft.no),
                        "one step does one thing; make it two steps",
                    ));
                }
                draft.block = Some((at, pairs(&body)?));
            } else {
                body.push((no, line));
                block = Some((at, body));
            }
        } else if line.trim() == "```muster" {
            block = Some((no, Vec::new()));
        } else if let Some(head) = line.strip_prefix("## ") {
            if let Some(d) = open.take() {
                book.steps.push(d.finish()?);
            }
            open = Some(Draft::begin(no, head, book.steps.len() + 1)?);
        } else {
            let text = open.as_mut().map_or(&mut book.intro, |d| &mut d.text);
            text.push_str(line);
            text.push('\n');
        }
    }
    if let Some((at, _)) = block {
        return Err(RunbookError::new(at, "the block has no end", "close it with ```"));
    }
    if let Some(d) = open.take() {
        book.steps.push(d.finish()?);
    }
    book.intro = book.intro.trim().to_owned();
    Ok(book)
}

fn pairs<'a>(body: &[(usize, &'a str)]) -> Read<Vec<(usize, &'a str, &'a str)>> {
    let mut out = Vec::new();
    for (no, line) in body {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(RunbookError::new(
                *no,
                format!("`{}` is no `key: value`", short(line)),
                "write one `key: value` a line",
            ));
        };
        out.push((*no, key.trim(), value.trim().trim_matches('"')));
    }
    Ok(out)
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

fn list(value: &str) -> Vec<String> {
    let inner = value.trim().trim_start_matches('[').trim_end_matches(']');
    inner.split(',').map(|w| w.trim().to_owned()).filter(|w| !w.is_empty()).collect()
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(fits) && !name.starts_with('-')
}

fn front_matter(lines: &[(usize, &str)]) -> Read<ParsedRunbook> {
    let mut book = ParsedRunbook {
        name: String::new(),
        title: String::new(),
        modes: Vec::new(),
        topics: Vec::new(),
        urgency: Urgency::Today,
        owner: String::new(),
        needs: Vec::new(),
        takes: Vec::new(),
        intro: String::new(),
        steps: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    for (no, key, value) in pairs(lines)? {
        if !seen.insert(key) {
            return Err(RunbookError::new(
                no,
                format!("`{key}` is there twice"),
                "keep one of them",
            ));
        }
        match key {
            "name" if is_name(value) => book.name = value.into(),
            "name" => {
                let hint = "use lower-case letters, digits and dashes, like gpu-off-bus";
                return Err(RunbookError::new(no, format!("`{}` is no name", short(value)), hint));
            }
            "title" => book.title = value.into(),
            "owner" => book.owner = value.into(),
            "modes" => book.modes = list(value),
            "topics" => book.topics = list(value),
            "urgency" => {
                book.urgency = Urgency::parse(value).ok_or_else(|| {
                    RunbookError::new(
                        no,
                        format!("`{}` is no urgency", short(value)),
                        "write page, today or ticket",
                    )
                })?;
            }
            "vars" => {
                for v in list(value) {
                    let (name, may) =
                        v.strip_suffix('?').map_or((v.as_str(), false), |n| (n, true));
                    if !VARS.contains(&name) {
                        return Err(RunbookError::new(
                            no,
                            format!("`{}` is no variable", short(name)),
                            format!("there are {}; a `?` after it: not needed", VARS.join(", ")),
                        ));
                    }
                    let of = if may { &mut book.takes } else { &mut book.needs };
                    of.push(name.to_owned());
                }
            }
            other => {
                return Err(RunbookError::new(
                    no,
                    format!("`{}` is not known here", short(other)),
                    "there are name, title, modes, topics, urgency, owner and vars",
                ));
            }
        }
    }
    for (what, missing) in [
        ("name", book.name.is_empty()),
        ("title", book.title.is_empty()),
        ("owner", book.owner.is_empty()),
    ] {
        if missing {
            return Err(RunbookError::new(
                1,
                format!("the front matter has no `{what}`"),
                format!("add a line `{what}: …`"),
            ));
        }
    }
    if book.modes.is_empty() && book.topics.is_empty() {
        return Err(RunbookError::new(
            1,
            "the runbook serves nothing",
            "name failure modes in `modes`, or `topics` such as control-plane",
        ));
    }
    Ok(book)
}

/// A line of a block: its number, the word before the colon and what follows.
type Line<'a> = (usize, &'a str, &'a str);

/// A step whose end was not read yet.
struct Draft<'a> {
    no: u32,
    line: usize,
    word: &'a str,
    title: &'a str,
    text: String,
    block: Option<(usize, Vec<Line<'a>>)>,
}

impl<'a> Draft<'a> {
    fn begin(line: usize, head: &'a str, expected: usize) -> Read<Draft<'a>> {
        let wrong = || {
            RunbookError::new(
                line,
                format!("`## {}` is no step", short(head)),
                format!("write `## {expected}. check: what is looked at`, or act, ask or wait"),
            )
        };
        let (no, rest) = head.split_once(". ").ok_or_else(wrong)?;
        let no: u32 = no.trim().parse().map_err(|_| wrong())?;
        if no as usize != expected {
            return Err(RunbookError::new(
                line,
                format!("step {no} is where step {expected} should be"),
                "number the steps 1, 2, 3 and so on",
            ));
        }
        if expected > STEPS_MAX {
            return Err(RunbookError::new(
                line,
                "too many steps",
                format!("{STEPS_MAX} is the most"),
            ));
        }
        let (word, title) = rest.split_once(':').ok_or_else(wrong)?;
        let word = word.trim();
        if !["check", "act", "ask", "wait"].contains(&word) || title.trim().is_empty() {
            return Err(wrong());
        }
        Ok(Draft { no, line, word, title: title.trim(), text: String::new(), block: None })
    }

    fn finish(self) -> Read<Step> {
        let Draft { no, line, word, title, text, block } = self;
        let Some((at, pairs)) = block else {
            return Err(RunbookError::new(
                line,
                format!("step {no} has no block"),
                format!("add a fenced block that begins with ```muster and a line `{word}: …`"),
            ));
        };
        let mut f = Fields::new(at, pairs)?;
        let main = f.need(word)?;
        let mut then = f.target("then")?;
        let mut otherwise = f.target("else")?;
        let what = match word {
            "check" => StepKind::Check(f.test(&main)?),
            "wait" => {
                let test = f.test(&main)?;
                let (l, t) = f.need("for")?;
                let span: Span = t.parse().map_err(|_| {
                    RunbookError::new(
                        l,
                        format!("`{}` is no time", short(t)),
                        "write 90s, 15m or 2h",
                    )
                })?;
                StepKind::Wait(test, span)
            }
            "act" => StepKind::Act(f.act(&main)?),
            _ => {
                if then.take().is_some() || otherwise.take().is_some() {
                    return Err(RunbookError::new(
                        at,
                        "a question has no `then` or `else`",
                        "name what follows in each `choice: WORDS -> STEP`",
                    ));
                }
                StepKind::Ask(f.ask(main)?)
            }
        };
        f.nothing_left(no)?;
        Ok(Step {
            no,
            title: title.to_owned(),
            text: text.trim().to_owned(),
            what,
            then: then.unwrap_or(Target::Next),
            otherwise: otherwise.unwrap_or(Target::GiveUp),
            line,
        })
    }
}

/// What stands in a block, taken out piece by piece.
struct Fields<'a> {
    at: usize,
    one: BTreeMap<&'a str, (usize, &'a str)>,
    choices: Vec<(usize, &'a str)>,
}

impl<'a> Fields<'a> {
    fn new(at: usize, pairs: Vec<(usize, &'a str, &'a str)>) -> Read<Fields<'a>> {
        let mut f = Fields { at, one: BTreeMap::new(), choices: Vec::new() };
        for (no, key, value) in pairs {
            if key == "choice" {
                f.choices.push((no, value));
            } else if f.one.insert(key, (no, value)).is_some() {
                return Err(RunbookError::new(
                    no,
                    format!("`{key}` is there twice"),
                    "keep one of them",
                ));
            }
        }
        Ok(f)
    }

    fn need(&mut self, key: &str) -> Read<(usize, &'a str)> {
        self.one.remove(key).filter(|(_, v)| !v.is_empty()).ok_or_else(|| {
            RunbookError::new(
                self.at,
                format!("the block has no `{key}`"),
                format!("add `{key}: …`"),
            )
        })
    }

    fn target(&mut self, key: &str) -> Read<Option<Target>> {
        self.one.remove(key).map(|(no, v)| target(no, v)).transpose()
    }

    fn test(&mut self, (no, word): &(usize, &str)) -> Read<Test> {
        let look = Observable::parse(word).ok_or_else(|| {
            let known: Vec<&str> = Observable::words().map(|(w, _)| w).collect();
            RunbookError::new(
                *no,
                format!("`{}` cannot be looked at", short(word)),
                format!("there are {}", known.join(", ")),
            )
        })?;
        let number = |(no, v): (usize, &str)| {
            v.parse::<i64>().map_err(|_| {
                RunbookError::new(
                    no,
                    format!("`{}` is no number", short(v)),
                    "write a whole number",
                )
            })
        };
        let mut bounds = Vec::new();
        if let Some((_, v)) = self.one.remove("is") {
            bounds.push(Bound::Is(list(v)));
        }
        if let Some((_, v)) = self.one.remove("is-not") {
            bounds.push(Bound::IsNot(list(v)));
        }
        if let Some(x) = self.one.remove("at-least") {
            bounds.push(Bound::AtLeast(number(x)?));
        }
        if let Some(x) = self.one.remove("at-most") {
            bounds.push(Bound::AtMost(number(x)?));
        }
        let kind = self.one.remove("kind");
        if let Some((no, _)) = kind.filter(|_| !matches!(look, Observable::NodeFindings)) {
            return Err(RunbookError::new(no, "`kind` fits node.findings only", "leave it out"));
        }
        if bounds.len() != 1 {
            return Err(RunbookError::new(
                *no,
                "a check has one bound",
                "add one of `is`, `is-not`, `at-least` and `at-most`",
            ));
        }
        let kind = kind.map(|(_, k)| k.to_owned());
        Ok(Test { look, bound: bounds.swap_remove(0), kind })
    }

    fn act(&mut self, (no, word): &(usize, &str)) -> Read<Act> {
        let kind = ActKind::parse(word).ok_or_else(|| {
            let known: Vec<&str> = ActKind::words().collect();
            RunbookError::new(
                *no,
                format!("`{}` cannot be done", short(word)),
                format!("there are {}", known.join(", ")),
            )
        })?;
        let mut fields = BTreeMap::new();
        for name in kind.needs().iter().chain(kind.may()) {
            if let Some((_, v)) = self.one.remove(*name) {
                fields.insert((*name).to_owned(), v.to_owned());
            } else if kind.needs().contains(name) {
                if !VARS.contains(name) {
                    let message = format!("`{word}` needs `{name}`");
                    return Err(RunbookError::new(*no, message, format!("add a line `{name}: …`")));
                }
                fields.insert((*name).to_owned(), format!("${name}"));
            }
        }
        Ok(Act { kind, fields })
    }

    fn ask(&mut self, (no, question): (usize, &str)) -> Read<Ask> {
        let mut choices: Vec<Choice> = Vec::new();
        for (no, text) in std::mem::take(&mut self.choices) {
            let Some((words, to)) = text.rsplit_once("->") else {
                return Err(RunbookError::new(
                    no,
                    format!("`{}` does not name what follows", short(text)),
                    "write `choice: yes -> 4`, or `-> end` or `-> give-up`",
                ));
            };
            let words = words.trim();
            if words.is_empty() || choices.iter().any(|c| c.text == words) {
                let hint = "each choice has words of its own";
                return Err(RunbookError::new(no, "a choice is empty or is there twice", hint));
            }
            choices.push(Choice { text: words.to_owned(), goto: target(no, to.trim())? });
        }
        if choices.len() < 2 {
            let hint = "add lines like `choice: yes -> 4`";
            return Err(RunbookError::new(no, "a question has two choices or more", hint));
        }
        let assume = match self.one.remove("assume") {
            Some((no, a)) if !choices.iter().any(|c| c.text == a) => {
                let hint = "`assume` repeats the words of one choice";
                return Err(RunbookError::new(no, format!("`{}` is no choice", short(a)), hint));
            }
            Some((_, a)) => a.to_owned(),
            None => choices[0].text.clone(),
        };
        Ok(Ask { question: question.to_owned(), choices, assume })
    }

    fn nothing_left(self, step: u32) -> Read<()> {
        let choice = self.choices.first().map(|(no, _)| (*no, "choice"));
        match self.one.iter().map(|(k, (no, _))| (*no, *k)).chain(choice).next() {
            None => Ok(()),
            Some((no, key)) => Err(RunbookError::new(
                no,
                format!("`{}` is not known in step {step}", short(key)),
                "look at the kind of the step: each has its own fields",
            )),
        }
    }
}

fn target(no: usize, text: &str) -> Read<Target> {
    match text {
        "next" => Ok(Target::Next),
        "end" => Ok(Target::End),
        "give-up" => Ok(Target::GiveUp),
        n => n.parse().map(Target::Step).map_err(|_| {
            RunbookError::new(
                no,
                format!("`{}` leads nowhere", short(n)),
                "write the number of a step, next, end or give-up",
            )
        }),
    }
}

/// Everything a step may lead to.
fn targets(s: &Step) -> Vec<Target> {
    match &s.what {
        StepKind::Ask(a) => a.choices.iter().map(|c| c.goto).collect(),
        _ => vec![s.then, s.otherwise],
    }
}

/// Texts of a step that variables are filled into.
fn filled(s: &Step) -> Vec<&str> {
    let mut out = vec![s.title.as_str(), s.text.as_str()];
    match &s.what {
        StepKind::Act(a) => out.extend(a.fields.values().map(String::as_str)),
        StepKind::Ask(a) => out.push(&a.question),
        _ => {}
    }
    out
}

fn sound(book: &ParsedRunbook) -> Read<()> {
    let count = u32::try_from(book.steps.len()).unwrap_or(u32::MAX);
    if count == 0 {
        let hint = "add a heading like `## 1. check: The node answers` with its block";
        return Err(RunbookError::new(1, "the runbook has no step", hint));
    }
    let known: BTreeSet<&str> = book.needs.iter().chain(&book.takes).map(String::as_str).collect();
    let undeclared = |line: usize, v: &str| {
        let hint = format!("add it to `vars` in the front matter: `{v}`, or `{v}?` if it may miss");
        RunbookError::new(line, format!("the variable `{v}` is not declared"), hint)
    };
    for s in &book.steps {
        for t in targets(s) {
            if let Target::Step(n) = t
                && (n == 0 || n > count)
            {
                let message = format!("step {} leads to step {n}, which is not there", s.no);
                return Err(RunbookError::new(s.line, message, format!("there are {count} steps")));
            }
        }
        if let StepKind::Check(t) | StepKind::Wait(t, _) = &s.what
            && let Some(v) = t.look.needs().filter(|v| !known.contains(v))
        {
            return Err(undeclared(s.line, v));
        }
        for text in filled(s) {
            for v in used(text) {
                if VARS.contains(&v) && !known.contains(v) {
                    return Err(undeclared(s.line, v));
                }
            }
        }
    }
    let mut reached = BTreeSet::from([1]);
    let mut todo = vec![1];
    while let Some(no) = todo.pop() {
        let Some(s) = book.step(no) else { continue };
        for t in targets(s) {
            if let crate::runbook::Next::Step(n) = book.resolve(no, t)
                && reached.insert(n)
            {
                todo.push(n);
            }
        }
    }
    if let Some(s) = book.steps.iter().find(|s| !reached.contains(&s.no)) {
        let hint = "let a step lead to it, or take it out";
        return Err(RunbookError::new(s.line, format!("no step leads to step {}", s.no), hint));
    }
    Ok(())
}

fn used(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for part in text.split('$').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
        out.push(&part[..end]);
    }
    out
}
