//! A job from a file: a YAML or JSON spec, or a shell script with `#MUSTER` or `#SBATCH` lines.

use crate::document::located;
use crate::error::FileError;
use crate::parsed::{Parsed, check};
use crate::tree::{self, Node, Value};
use crate::{de, json, script};
use muster_model::spec::JobSpec;

/// Largest job file: a script of the largest size and room for the spec around it.
pub const MAX_FILE: usize = 4 << 20;

/// Reads a job from the text of a file; `origin` is the file's name for errors.
///
/// The spec is also resolved, so whatever is wrong with it is reported with its line.
///
/// # Errors
/// The first thing that is wrong, with line and column where there is one.
pub fn parse(text: &str, origin: &str) -> Result<Parsed, FileError> {
    if text.len() > MAX_FILE {
        let message = format!("the file has {} bytes, more than {MAX_FILE}", text.len());
        return Err(FileError::new(origin, message).hint("is this really a job file?"));
    }
    if let Some(at) = text.find('\0') {
        let place = tree::TextPositions::new(text).of(at);
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
    let (root, spec) =
        if is_json(text) { from_json(text, origin)? } else { from_yaml(text, origin)? };
    check(&spec).map_err(|p| located(&root, origin, "", p))?;
    Ok(Parsed { spec, notes: Vec::new(), options: Vec::new() })
}

/// JSON starts with a brace and a quote; a YAML flow mapping hardly ever does.
fn is_json(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix('{').map(str::trim_start);
    rest.is_some_and(|r| r.starts_with(['"', '}']))
}

fn from_yaml(text: &str, origin: &str) -> Result<(Node, JobSpec), FileError> {
    let root = tree::yaml(text, origin)?;
    if matches!(root.value, Value::Text(_) | Value::Bare(_)) {
        return Err(FileError::new(origin, "this is neither a spec nor a script").at(1, 1).hint(
            "a spec is YAML with fields like `name:` and `gang:`; a script starts with `#!`",
        ));
    }
    let spec = de::read(&root, origin)?;
    Ok((root, spec))
}

fn from_json(text: &str, origin: &str) -> Result<(Node, JobSpec), FileError> {
    let root = json::read(text, origin)?;
    let spec = de::read_json(&root, text, origin)?;
    Ok((root, spec))
}
