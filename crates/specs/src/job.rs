//! A job from a file: a YAML or JSON spec, or a shell script with `#MUSTER` or `#SBATCH` lines.

use crate::error::{FileError, closest, shown};
use crate::script;
use crate::tree::{self, Node, Place};
use muster_model::resolve::{check_run, resolve};
use muster_model::spec::{JobSpec, SpecProblem};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Largest job file: a script of the largest size and room for the spec around it.
pub const MAX_FILE: usize = 4 << 20;

/// A job and what its author should know about how it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The job as it will be submitted.
    pub spec: JobSpec,
    /// Directives that were understood but have no effect, or another one than in Slurm.
    pub notes: Vec<Note>,
}

/// Something worth knowing that is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line it is about.
    pub line: u32,
    /// What to know.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Reads a job from the text of a file; `origin` is the file's name for errors.
///
/// The spec is also resolved, so whatever is wrong with it is told with its line.
///
/// # Errors
/// The first thing that is wrong, with line and column where there is one.
pub fn parse(text: &str, origin: &str) -> Result<Parsed, FileError> {
    if text.len() > MAX_FILE {
        let message = format!("the file has {} bytes, more than {MAX_FILE}", text.len());
        return Err(FileError::new(origin, message).hint("is this really a job file?"));
    }
    if let Some(at) = text.find('\0') {
        let place = tree::Places::new(text).of(at);
        return Err(FileError::new(origin, "the file contains a NUL byte")
            .at(place.line, place.column)
            .hint("is this a text file?"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(FileError::new(origin, "the file is empty")
            .hint("write a YAML spec, or a script that starts with `#!/bin/sh`"));
    }
    if script::is_script(text) {
        return script::parse(text, origin);
    }
    let spec = if is_json(text) { json(text, origin)? } else { yaml(text, origin)? };
    check(&spec).map_err(|p| located(text, origin, p))?;
    Ok(Parsed { spec, notes: Vec::new() })
}

/// Everything that can be judged from the spec alone.
pub(crate) fn check(spec: &JobSpec) -> Result<(), SpecProblem> {
    resolve(spec)?;
    check_run(&spec.run, spec.simulate.is_some())
}

/// JSON starts with a brace and a quote; a YAML flow mapping hardly ever does.
fn is_json(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix('{').map(str::trim_start);
    rest.is_some_and(|r| r.starts_with(['"', '}']))
}

fn yaml(text: &str, origin: &str) -> Result<JobSpec, FileError> {
    serde_saphyr::from_str_with_options::<JobSpec>(text, tree::yaml_options()).map_err(|e| {
        let mut error = tree::yaml_error(origin, &e);
        let node = tree::yaml(text, origin).ok();
        if matches!(&node, Some(n) if matches!(n.value, tree::Value::Text(_) | tree::Value::Bare(_)))
        {
            return FileError::new(origin, "this is neither a spec nor a script")
                .at(1, 1)
                .hint("a spec is YAML with fields like `name:` and `gang:`; a script starts with `#!`");
        }
        // A missing field is told at the first of its neighbours, which is not to blame.
        if !matches!(e.without_snippet(), serde_saphyr::Error::SerdeMissingField { .. }) {
            name_the_field(&mut error, node.as_ref());
        }
        error
    })
}

fn json(text: &str, origin: &str) -> Result<JobSpec, FileError> {
    // First for duplicate keys: maps would silently keep the last one.
    let twice = serde_json::from_str::<Unique>(text).map(|_| ());
    let read = twice.and_then(|()| serde_json::from_str::<JobSpec>(text));
    read.map_err(|e| {
        let full = e.to_string();
        let message = full.split(" at line ").next().unwrap_or(&full);
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (line, column) = (small(e.line()), small(e.column()));
        let node = tree::yaml(text, origin).ok();
        // The reader stands behind what it read; the tree knows where that began.
        let (mut error, key) = if let Some((field, known)) = listed(message, "unknown field `") {
            (tree::unknown_field(origin, field, &known), Some(Some(field)))
        } else if let Some((word, known)) = listed(message, "unknown variant `") {
            let message = format!("`{}` is not one of {}", shown(word), known.join(", "));
            let near = closest(word, &known).map(|k| format!("did you mean `{k}`?"));
            (FileError::new(origin, message).hint(near.unwrap_or_default()), Some(None))
        } else if let Some((field, _)) = listed(message, "missing field `") {
            (tree::missing_field(origin, field), None)
        } else {
            (FileError::new(origin, message), Some(None))
        };
        error = error.at(line, column);
        if let (Some(name), Some(node)) = (key, &node)
            && let Some(place) = key_before(node, name, line, column)
        {
            if name.is_some() {
                error = error.at(place.line, place.column);
            }
            error.field = node.path_at(place).or(error.field);
        }
        error
    })
}

/// Where the last key (called `name`, if given) before a place stands.
fn key_before(node: &Node, name: Option<&str>, line: u32, column: u32) -> Option<Place> {
    match &node.value {
        tree::Value::Table(entries) => entries
            .iter()
            .flat_map(|(k, n)| {
                let here = name.is_none_or(|n| n == k.text).then_some(k.place);
                [here, key_before(n, name, line, column)]
            })
            .flatten()
            .filter(|p| (p.line, p.column) <= (line, column))
            .max_by_key(|p| (p.line, p.column)),
        tree::Value::List(items) => items
            .iter()
            .filter_map(|n| key_before(n, name, line, column))
            .max_by_key(|p| (p.line, p.column)),
        _ => None,
    }
}

/// The name that serde's message begins with, and the names it lists after that.
fn listed<'m>(message: &'m str, begins: &str) -> Option<(&'m str, Vec<&'m str>)> {
    let (name, rest) = message.strip_prefix(begins)?.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

/// Replaces a bare field name by its whole path, when the tree knows what stands at the place.
pub(crate) fn name_the_field(error: &mut FileError, node: Option<&Node>) {
    if let (Some(line), Some(column), Some(node)) = (error.line, error.column, node)
        && let Some(path) = node.path_at(Place { line, column })
    {
        error.field = Some(path);
    }
}

/// A problem of the spec, with the place of its field in the file.
fn located(text: &str, origin: &str, p: SpecProblem) -> FileError {
    let place = tree::yaml(text, origin).ok().and_then(|node| node.find(&p.field));
    let error = FileError::from_problem(origin, p);
    match place {
        Some(place) => error.at(place.line, place.column),
        None => error,
    }
}

/// Reads anything and refuses a key that is given twice.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
        while seq.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                map.next_value::<IgnoredAny>()?;
                let message = format!("`{}` is given twice", shown(&key));
                return Err(serde::de::Error::custom(message));
            }
            map.next_value::<Unique>()?;
            seen.insert(key);
        }
        Ok(Unique)
    }
}
