//! Lists in a spec: volumes, tags, the indices of an array, the jobs that must end first.

use super::{AfterRef, MAX_ARRAY_PARTS, MAX_ARRAY_TEXT, MAX_TAG, absolute, count, one_line, shown};
use crate::job::Condition;
use crate::names::Label;
use crate::node_paths::{check_place, check_source};
use crate::spec::{MAX_ARRAY, SpecProblem, Volume, problem};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn volumes(volumes: &[Volume], in_image: bool) -> Result<(), SpecProblem> {
    count("volumes", volumes.len())?;
    let mut seen = BTreeSet::new();
    for (i, v) in volumes.iter().enumerate() {
        let field = format!("volumes[{i}].from");
        absolute(&field, &v.from)?;
        check_source(&v.from).map_err(|why| {
            problem(
                &field,
                format!("`{}` cannot be a volume: {why}", shown(&v.from)),
                "name a directory with data, like /data; not /, and nothing in /proc, /sys, /dev or /run",
            )
        })?;
        let field = format!("volumes[{i}].at");
        absolute(&field, &v.at)?;
        check_place(&v.at, in_image).map_err(|why| {
            problem(
                &field,
                format!("a volume cannot be bound at `{}`: {why}", shown(&v.at)),
                if in_image {
                    "choose a directory of its own, like /data; not /, and nothing in /proc, /sys or /dev"
                } else {
                    "choose a directory of its own, like /mnt/data; not /, and nothing in /proc, /sys, /run, /dev or /etc"
                },
            )
        })?;
        let parts: Vec<&str> = v.at.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        if !seen.insert(parts) {
            return Err(problem(
                &field,
                format!("two volumes are bound at `{}`", shown(&v.at)),
                "give each volume a place of its own",
            ));
        }
    }
    Ok(())
}

pub(super) fn tags(tags: &BTreeMap<String, String>) -> Result<(), SpecProblem> {
    count("tags", tags.len())?;
    for (k, v) in tags {
        let field = format!("tags.{}", shown(k));
        if k.is_empty() {
            return Err(problem("tags", "a tag has an empty name", "name it"));
        }
        for text in [k, v] {
            one_line(&field, text)?;
            let chars = text.chars().count();
            if chars > MAX_TAG {
                let message = format!("{chars} characters are more than {MAX_TAG}");
                return Err(problem(&field, message, "shorten it"));
            }
        }
    }
    Ok(())
}

/// The indices that a text stands for, sorted, each once. Costs what the text is long and what it
/// stands for, repeats included: `0-9999,0-9999,…` is refused at its second part.
pub(super) fn array(text: &str) -> Result<Vec<u32>, SpecProblem> {
    let bad = |message: String| {
        problem("array", message, "write indices like 0-9, 1,3,5-7 or 0-30:10 (every tenth)")
    };
    let parts = text.bytes().filter(|b| *b == b',').count() + 1;
    if text.len() > MAX_ARRAY_TEXT || parts > MAX_ARRAY_PARTS {
        return Err(problem(
            "array",
            format!(
                "it has {parts} parts in {} bytes; {MAX_ARRAY_PARTS} parts in {MAX_ARRAY_TEXT} bytes are the most",
                text.len()
            ),
            "write ranges like 0-999, or let a task read from a file what its index stands for",
        ));
    }
    if let Some((before, _)) = text.split_once('%') {
        return Err(problem(
            "array",
            "a limit on tasks at a time (`%N`) is not supported yet",
            format!("write `{}`; a quota of the project can limit them", shown(before)),
        ));
    }
    let mut out: Vec<u32> = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let number = |s: &str| {
            // `parse` alone would take a plus sign.
            let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            let n = if digits { s.parse::<u32>().ok() } else { None };
            n.ok_or_else(|| bad(format!("`{}` is not an index", shown(s))))
        };
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None if part.contains(':') => {
                return Err(bad(format!("`{}` has a step but no range", shown(part))));
            }
            None => (number(range)?, number(range)?),
        };
        if step == 0 {
            return Err(bad(format!("`{}` has a step of zero", shown(part))));
        }
        if first > last {
            return Err(bad(format!("`{}` runs backwards", shown(part))));
        }
        // Counted before it is built: `0-4294967295` must cost nothing.
        let tasks = ((last - first) / step) as usize;
        if tasks >= MAX_ARRAY {
            return Err(bad(format!("`{}` has more than {MAX_ARRAY} tasks", shown(part))));
        }
        // Repeats are counted too: parts that overlap must not cost more than what they name.
        if out.len() + tasks + 1 > MAX_ARRAY {
            return Err(bad(format!(
                "the array names more than {MAX_ARRAY} tasks, those named twice counted twice"
            )));
        }
        out.extend((first..=last).step_by(step as usize));
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

pub(super) fn after(i: usize, text: &str) -> Result<AfterRef, SpecProblem> {
    let field = format!("after[{i}]");
    let (job, condition) = match text.split_once(':') {
        None | Some((_, "ok")) => (text.split(':').next().unwrap_or(text), Condition::Ok),
        Some((job, "fail")) => (job, Condition::Fail),
        Some((job, "any")) => (job, Condition::Any),
        Some((_, other)) => {
            return Err(problem(
                &field,
                format!("`{}` is not a way for a job to end", shown(other)),
                "write the job's id or name, alone or with :ok, :fail or :any",
            ));
        }
    };
    if let Err(e) = job.parse::<Label>() {
        return Err(problem(&field, e.to_string(), "write the id or the name of a job"));
    }
    Ok(AfterRef { job: job.into(), condition })
}
