//! Shell scripts with directives: which lines count, and what they say.

mod calls;

use crate::error::FileError;
use crate::flags;
use crate::parsed::{Note, Parsed, check, is_same, overruled};
use crate::sbatch::{Set, Slurm};
use crate::tree::{TextPosition, TextPositions};
use crate::words::{self, ShellWord};
use muster_model::spec::{JobSpec, SpecProblem};

const OURS: &str = "#MUSTER";
const SLURMS: &str = "#SBATCH";

/// The rest of a directive line, if it is one. `##SBATCH` and `# SBATCH` are comments.
fn directive<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark).filter(|r| r.is_empty() || r.starts_with(char::is_whitespace))
}

/// Whether the text is a script: it starts with `#!`, or has a directive before its first command.
pub(crate) fn is_script(text: &str) -> bool {
    text.starts_with("#!")
        || header(text).any(|(_, l)| directive(l, OURS).is_some() || directive(l, SLURMS).is_some())
}

/// Lines before the first command, with their numbers.
fn header(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1u32..).zip(text.lines()).take_while(|(_, l)| {
        let l = l.trim_start();
        l.is_empty() || l.starts_with('#')
    })
}

/// Reads a script.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Parsed, FileError> {
    if let Some(at) = text.find("\r\n") {
        let place = TextPositions::new(text).of(at);
        return Err(FileError::new(origin, "the script has Windows line ends")
            .at(place.line, place.column)
            .hint("a shell takes them for part of each word: convert the file with dos2unix"));
    }
    let mut slurm = Slurm::default();
    let mut ours: Vec<(TextPosition, Vec<ShellWord>)> = Vec::new();
    let mut last = 0;
    for (line, content) in header(text) {
        last = line;
        for mark in [OURS, SLURMS] {
            let Some(rest) = directive(content, mark) else { continue };
            let begin = u32::try_from(mark.len()).unwrap_or(0) + 1;
            let words = words::split(rest, begin).map_err(|e| {
                FileError::new(origin, e.to_string()).at(line, e.column).hint("close the quote")
            })?;
            if mark == SLURMS {
                slurm.line(line, &words, origin)?;
            } else {
                ours.push((TextPosition { line, column: 1 }, words));
            }
        }
    }
    let mut notes = Vec::new();
    for (line, content) in (1u32..).zip(text.lines()).skip(last as usize) {
        if directive(content, OURS).is_some() || directive(content, SLURMS).is_some() {
            let message = "this directive is after the first command and has no effect";
            notes.push(Note { line, message: message.into() });
        }
    }
    let mut spec = JobSpec::default();
    let mut set = slurm.finish(&mut spec, origin)?;
    let slurms = spec.clone();
    // Muster's own directives win over Slurm's, so one script can serve both.
    for (place, words) in &ours {
        own_line(&mut spec, place.line, words, origin, &mut set)?;
    }
    notes
        .extend(overruled(&slurm.options, &slurms, &spec, |flag| format!("`--{flag}` of #MUSTER")));
    slurm.apply_after_directives(&mut spec);
    notes.append(&mut slurm.notes);
    // What #MUSTER overruled decides nothing any more.
    slurm.options.retain(|o| is_same(o.field, &slurms, &spec));
    if slurm.seen {
        notes.extend(calls::notes(text, last));
    }
    notes.sort_by_key(|n| n.line);
    if spec.name.is_none() {
        spec.name = name_of(origin);
    }
    spec.run.script = Some(text.into());
    check(&spec).map_err(|p| located(origin, p, &set))?;
    Ok(Parsed { spec, notes, options: slurm.options })
}

fn own_line(
    spec: &mut JobSpec,
    line: u32,
    words: &[ShellWord],
    origin: &str,
    set: &mut Set,
) -> Result<(), FileError> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = TextPosition { line, column: word.column };
        let fail = |p: SpecProblem| FileError::from_problem(origin, p).at(place.line, place.column);
        let Some(flag) = word.text.strip_prefix("--").filter(|f| !f.is_empty()) else {
            let given = crate::error::shown(&word.text);
            return Err(FileError::new(origin, format!("`{given}` is not a flag"))
                .at(line, word.column)
                .hint("flags are written like --nodes 2 --gpus 8"));
        };
        let (flag, inline) = match flag.split_once('=') {
            Some((f, v)) => (f, Some(v)),
            None => (flag, None),
        };
        let field = flags::field_of(flag);
        let value = match inline {
            None if field.is_some() && flags::takes_value(flag) => {
                words.next().map(|w| w.text.as_str())
            }
            other => other,
        };
        flags::apply(spec, flag, value).map_err(fail)?;
        set.push((field.unwrap_or_default().to_owned(), place));
    }
    Ok(())
}

/// A problem of the spec, with the place of the directive that caused it.
fn located(origin: &str, p: SpecProblem, set: &Set) -> FileError {
    let touches = |field: &str| p.field.starts_with(field) || field.starts_with(&p.field);
    let place = set.iter().rev().find(|(f, _)| touches(f)).map(|(_, p)| *p);
    let error = FileError::from_problem(origin, p);
    match place {
        Some(place) => error.at(place.line, place.column),
        None => error,
    }
}

/// A script without a name is called after its file, as Slurm does it.
fn name_of(origin: &str) -> Option<muster_model::names::Label> {
    let file = origin.rsplit('/').next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    stem.parse().ok()
}
