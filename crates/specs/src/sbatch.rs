//! `#SBATCH` directives: what each option of Slurm means here.

mod options;
mod size;

use crate::error::{FileError, did_you_mean, shown};
use crate::flags::slurm_time;
use crate::parsed::{Note, SlurmOption};
use crate::tree::TextPosition;
use crate::words::ShellWord;
use muster_model::Span;
use muster_model::names::Label;
use muster_model::resolve::signal_number;
use muster_model::spec::{JobSpec, Priority};
use muster_model::topology::Level;
use options::Takes::{No, Value};
use options::{all_names, known, short_option};
use size::Size;
use std::borrow::Cow;

/// A field of the spec and the directive that set it.
pub(crate) type Set = Vec<(String, TextPosition)>;

/// What the directives of a script said so far.
#[derive(Default)]
pub(crate) struct Slurm {
    /// Whether there was any directive.
    pub(crate) seen: bool,
    /// What the author should know.
    pub(crate) notes: Vec<Note>,
    /// Which option decided a field of the spec.
    pub(crate) options: Vec<SlurmOption>,
    given: Vec<SbatchOption>,
    signal: Option<(String, Option<u64>, u32)>,
}

/// One option as written.
struct SbatchOption {
    name: &'static str,
    value: String,
    place: TextPosition,
}

impl Slurm {
    /// Takes in one directive line.
    pub(crate) fn line(
        &mut self,
        line: u32,
        words: &[ShellWord],
        origin: &str,
    ) -> Result<(), FileError> {
        self.seen = true;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = TextPosition { line, column: word.column };
            let fail = |message: String| FileError::new(origin, message).at(line, word.column);
            let (long, inline) = match (word.text.strip_prefix("--"), word.text.strip_prefix('-')) {
                (Some(long), _) if !long.is_empty() => match long.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                },
                (None, Some(short)) if !short.is_empty() => {
                    short_option(short).ok_or_else(|| {
                        fail(format!("unknown option `{}`", shown(&word.text))).hint(
                            "options with one letter: -J -N -n -G -c -t -p -q -A -a -d -D -C -o -e",
                        )
                    })?
                }
                _ => {
                    return Err(fail(format!("`{}` is not an option", shown(&word.text)))
                        .hint("options are written like --nodes=2 or -N 2"));
                }
            };
            let (name, takes, why) = known(&long).ok_or_else(|| {
                let hint = crate::error::closest(&long, &all_names()).map_or_else(
                    || "remove it, or put `##` before the line to keep it as a comment".to_owned(),
                    |k| format!("did you mean `--{k}`?"),
                );
                fail(format!("unknown option `--{}`", shown(&long))).hint(hint)
            })?;
            let value = match (takes, inline) {
                (No, Some(_)) => return Err(fail(format!("`--{name}` takes no value"))),
                (Value, None) => match words.next() {
                    Some(w) => w.text.clone(),
                    None => {
                        return Err(fail(format!("`--{name}` lacks its value"))
                            .hint(format!("write --{name}=VALUE")));
                    }
                },
                (_, inline) => inline.unwrap_or_default(),
            };
            match why {
                Some(why) => {
                    let end = if why.is_empty() { String::new() } else { format!(": {why}") };
                    self.note(line, format!("`--{name}` has no effect{end}"));
                }
                None => self.given.push(SbatchOption { name, value, place }),
            }
        }
        Ok(())
    }

    fn note(&mut self, line: u32, message: impl Into<String>) {
        self.notes.push(Note { line, message: message.into() });
    }

    /// Writes everything into the spec; says which directive set which field.
    pub(crate) fn finish(&mut self, spec: &mut JobSpec, origin: &str) -> Result<Set, FileError> {
        let mut set = Set::new();
        if !self.seen {
            return Ok(set);
        }
        let mut size = Size::default();
        let given = std::mem::take(&mut self.given);
        for (i, g) in given.iter().enumerate() {
            if self.is_said_anew(g, &given[i + 1..]) {
                continue;
            }
            let at = OptionReader { given: g, origin };
            self.option(spec, &mut size, &at, &mut set)?;
        }
        size.finish(self, spec, origin, &mut set)?;
        Ok(set)
    }

    /// Whether a later option sets the same. Then that one counts, as in Slurm, and where it sets
    /// something else there is a note.
    fn is_said_anew(&mut self, option: &SbatchOption, later: &[SbatchOption]) -> bool {
        let Some((what, value)) = sets_once(option) else { return false };
        let anew = |l: &&SbatchOption| sets_once(l).is_some_and(|(w, _)| w == what);
        let Some(by) = later.iter().rev().find(anew) else { return false };
        if sets_once(by) != Some((what, value)) {
            let message = format!(
                "`--{}` is overruled by `--{}` on line {}",
                option.name, by.name, by.place.line
            );
            self.note(option.place.line, message);
        }
        true
    }

    /// Stores which option decided a field.
    fn took(&mut self, set: &mut Set, field: &'static str, name: &'static str, at: TextPosition) {
        set.push((field.to_owned(), at));
        self.options.push(SlurmOption { field, name, line: at.line });
    }

    fn option(
        &mut self,
        spec: &mut JobSpec,
        size: &mut Size,
        at: &OptionReader<'_>,
        set: &mut Set,
    ) -> Result<(), FileError> {
        let (value, place) = (at.given.value.as_str(), at.given.place);
        let line = place.line;
        let field = match at.given.name {
            "job-name" => {
                spec.name = Some(self.job_name(at)?);
                "name"
            }
            "time" => {
                spec.time_limit = at.time()?;
                "time_limit"
            }
            "partition" => {
                spec.tags.insert("partition".into(), value.into());
                spec.run.env.insert("SLURM_JOB_PARTITION".into(), value.into());
                self.note(line, "partitions do not exist here; stored as the tag `partition`");
                "tags"
            }
            "qos" => {
                match value {
                    "high" => spec.priority = Priority::High,
                    "normal" => spec.priority = Priority::Normal,
                    "low" => spec.priority = Priority::Low,
                    _ => {
                        spec.tags.insert("qos".into(), value.into());
                        self.note(line, "this QOS is not a priority here; stored as the tag `qos`");
                    }
                }
                "priority"
            }
            "account" => {
                spec.project = Some(at.parse("an account of Slurm is a project here")?);
                "project"
            }
            "array" => {
                spec.array = Some(value.into());
                "array"
            }
            "dependency" => {
                spec.after.extend(at.dependencies()?);
                "after"
            }
            "chdir" | "workdir" => {
                spec.run.workdir = Some(value.into());
                "run.workdir"
            }
            "export" => {
                self.export(spec, at)?;
                "run.env"
            }
            "requeue" => "retries",
            "no-requeue" => {
                spec.retries.infrastructure = 0;
                "retries"
            }
            "signal" => {
                self.signal = Some(at.signal()?);
                "checkpoint.request"
            }
            "exclusive" => {
                self.note(line, "`--exclusive` has no effect: ask for all GPUs of the node");
                return Ok(());
            }
            "constraint" => {
                self.note(line, "`--constraint` has no effect: choose GPUs with --sku of #MUSTER");
                return Ok(());
            }
            "output" | "error" => {
                let message = format!("`--{}` has no effect: use `muster logs`", at.given.name);
                self.note(line, message);
                return Ok(());
            }
            "mail-type" | "mail-user" => {
                self.note(line, "no mail is sent: use `muster wait` or the event stream");
                return Ok(());
            }
            "comment" => {
                spec.tags.insert("comment".into(), value.into());
                "tags"
            }
            "switches" => {
                // One switch without a longest wait for it must be had; anything else is preferred.
                let count = value.split_once('@').map_or(value, |(count, _)| count);
                if at.number(count)? == 1 && count == value {
                    spec.topology.required = Some(Level::Leaf);
                    "topology.required"
                } else {
                    self.note(
                        line,
                        "`--switches` here means: one leaf is preferred, without a wait",
                    );
                    spec.topology.preferred = Some(Level::Leaf);
                    "topology.preferred"
                }
            }
            "hold" => {
                spec.hold = true;
                "hold"
            }
            "container-image" => {
                spec.run.image = Some(value.into());
                "run.image"
            }
            "begin" => {
                return Err(at
                    .fail("`--begin` is not supported yet")
                    .hint("submit with --hold and release it later"));
            }
            "wrap" => {
                return Err(at
                    .fail("`--wrap` belongs on the command line")
                    .hint("write the command"));
            }
            _ => {
                size.option(self, at)?;
                return Ok(());
            }
        };
        self.took(set, field, at.given.name, place);
        Ok(())
    }

    /// Slurm takes every name. Here it becomes the nearest one that a job can have.
    fn job_name(&mut self, at: &OptionReader<'_>) -> Result<Label, FileError> {
        let given = at.given.value.as_str();
        if let Ok(name) = given.parse() {
            return Ok(name);
        }
        let allowed = "letters, digits, `-`, `_` and `.`, at most 128";
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let plain: String =
            given.chars().map(|c| if good(c) { c } else { '-' }).take(128).collect();
        let near = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let name = near.parse::<Label>().map_err(|_| {
            at.fail(format!("`{}` cannot be the name of a job", shown(given)))
                .hint(format!("a name has {allowed}, and begins and ends with a letter or a digit"))
        })?;
        let message = format!("a name has {allowed}: the job is called `{name}`");
        self.note(at.given.place.line, message);
        Ok(name)
    }

    fn export(&mut self, spec: &mut JobSpec, at: &OptionReader<'_>) -> Result<(), FileError> {
        for part in at.given.value.split(',') {
            match part.split_once('=') {
                Some((k, v)) if !k.is_empty() => {
                    spec.run.env.insert(k.into(), v.into());
                }
                Some(_) => return Err(at.fail(format!("`{}` has no name", shown(part)))),
                None if matches!(part, "NONE" | "NIL" | "") => {}
                None => {
                    let what = if part == "ALL" { "environment" } else { "variables" };
                    let message = format!(
                        "the submitting shell's {what} are not passed on: write NAME=value"
                    );
                    self.note(
                        at.given.place.line,
                        message.replace("environment are", "environment is"),
                    );
                }
            }
        }
        Ok(())
    }

    /// What depends on Muster's own directives.
    pub(crate) fn apply_after_directives(&mut self, spec: &mut JobSpec) {
        let Some((signal, before, line)) = self.signal.take() else { return };
        match &mut spec.checkpoint {
            Some(c) => {
                c.request.signal.get_or_insert(signal);
                if let Some(s) = before {
                    c.grace.get_or_insert(Span::secs(s));
                }
            }
            None => self.note(
                line,
                "`--signal` asks for a checkpoint here; add `#MUSTER --checkpoint-dir DIR` to use it",
            ),
        }
    }
}

/// What an option sets that can be set once only, and to what. None for those that add up, and for
/// those that always have a note of their own.
fn sets_once(option: &SbatchOption) -> Option<(&'static str, Cow<'_, str>)> {
    let value = option.value.as_str();
    let (what, value) = match option.name {
        "dependency" | "export" | "exclusive" | "constraint" | "output" | "error" | "mail-type"
        | "mail-user" => return None,
        "gres" => {
            let gpus = value.split(',').find_map(gpus_of_gres)?;
            return Some(("gpus-per-node", kind_and_count(&gpus).to_ascii_lowercase().into()));
        }
        "gpus-per-node" => {
            return Some(("gpus-per-node", kind_and_count(value).to_ascii_lowercase().into()));
        }
        "tasks-per-node" => ("ntasks-per-node", value),
        "workdir" => ("chdir", value),
        "requeue" | "no-requeue" => ("requeue", option.name),
        name => (name, value),
    };
    Some((what, value.into()))
}

/// What `--gpus-per-node` has for a part of `--gres`: `gpu` is one, and `gpu:h100` one of that kind.
/// None for what is no GPU.
fn gpus_of_gres(part: &str) -> Option<Cow<'_, str>> {
    let rest = match part.strip_prefix("gpu")? {
        "" => return Some("1".into()),
        rest => kind_and_count(rest.strip_prefix(':')?),
    };
    let counted = rest.starts_with(|c: char| c.is_ascii_digit()) || rest.contains(':');
    Some(if counted { rest.into() } else { format!("{rest}:1").into() })
}

/// Without the sockets that Slurm allows after a number of GPUs: `8(S:0-1)`.
fn kind_and_count(text: &str) -> &str {
    text.split('(').next().unwrap_or(text)
}

/// An option at its place, for reading its value.
struct OptionReader<'a> {
    given: &'a SbatchOption,
    origin: &'a str,
}

impl OptionReader<'_> {
    fn fail(&self, message: impl Into<String>) -> FileError {
        FileError::new(self.origin, message)
            .at(self.given.place.line, self.given.place.column)
            .about(format!("--{}", self.given.name))
    }

    fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        hint: &str,
    ) -> Result<T, FileError> {
        self.given.value.parse().map_err(|e: T::Err| self.fail(e.to_string()).hint(hint))
    }

    fn number(&self, text: &str) -> Result<u32, FileError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let n = if digits { text.parse().ok() } else { None };
        n.ok_or_else(|| {
            self.fail(format!("`{}` is not a whole number", shown(text))).hint("write it like 8")
        })
    }

    fn time(&self) -> Result<Option<Span>, FileError> {
        let value = self.given.value.as_str();
        if value == "0" || matches!(value.to_ascii_uppercase().as_str(), "UNLIMITED" | "INFINITE") {
            return Ok(None);
        }
        let bad = || {
            self.fail(format!("`{}` is not a time", shown(value)))
                .hint("write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS")
        };
        slurm_time(value).map(Some).ok_or_else(bad)
    }

    /// `64G`, `512M`, `4000` (megabytes). None for 0: all of the node.
    fn memory(&self) -> Result<Option<u64>, FileError> {
        let value = self.given.value.as_str();
        let bad = || {
            self.fail(format!("`{}` is not an amount of memory", shown(value)))
                .hint("write megabytes, or a number with K, M, G or T")
        };
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        let n: u64 = value[..digits].parse().map_err(|_| bad())?;
        let unit: u64 = match value[digits..].to_ascii_uppercase().trim_end_matches('B') {
            "K" => 1 << 10,
            "" | "M" => 1 << 20,
            "G" => 1 << 30,
            "T" => 1 << 40,
            _ => return Err(bad()),
        };
        let bytes = n.checked_mul(unit).filter(|b| *b < 1 << 60).ok_or_else(bad)?;
        Ok(Some(bytes).filter(|b| *b > 0))
    }

    /// Kind and number of GPUs from `8` or `h100:8`.
    fn gpus(&self, text: &str) -> Result<(Option<String>, u32), FileError> {
        let text = kind_and_count(text);
        match text.rsplit_once(':') {
            Some((kind, n)) => Ok((Some(kind.to_ascii_lowercase()), self.number(n)?)),
            None => Ok((None, self.number(text)?)),
        }
    }

    fn dependencies(&self) -> Result<Vec<String>, FileError> {
        let value = self.given.value.as_str();
        let mut out = Vec::new();
        if value.contains('?') {
            return Err(self
                .fail("dependencies of which one is enough (`?`) are not supported yet")
                .hint("separate them with commas: all must be met"));
        }
        for part in value.split(',') {
            let (kind, jobs) = part.split_once(':').unwrap_or((part, ""));
            let end = match kind {
                "afterok" => "ok",
                "afternotok" => "fail",
                "afterany" => "any",
                "singleton" | "after" | "aftercorr" | "afterburstbuffer" => {
                    return Err(self
                        .fail(format!("dependency `{kind}` is not supported yet"))
                        .hint("use afterok:JOB, afternotok:JOB or afterany:JOB"));
                }
                other => {
                    let known = ["afterok", "afternotok", "afterany"];
                    return Err(self
                        .fail(format!("`{}` is not a kind of dependency", shown(other)))
                        .hint(did_you_mean(other, &known)));
                }
            };
            if jobs.is_empty() {
                return Err(self.fail(format!("`{kind}` names no job")).hint("write afterok:JOB"));
            }
            out.extend(jobs.split(':').map(|job| format!("{job}:{end}")));
        }
        Ok(out)
    }

    /// Signal, seconds before the end, line; from `B:USR1@120`.
    fn signal(&self) -> Result<(String, Option<u64>, u32), FileError> {
        let value = self.given.value.as_str();
        let (head, seconds) = match value.split_once('@') {
            Some((head, s)) => (head, Some(u64::from(self.number(s)?))),
            None => (value, None),
        };
        let name = head.rsplit(':').next().unwrap_or(head);
        let name = match name {
            "10" => "USR1",
            "12" => "USR2",
            "15" => "TERM",
            other => other.strip_prefix("SIG").unwrap_or(other),
        };
        if signal_number(name).is_none() {
            return Err(self
                .fail(format!("`{}` is not a signal that a rank can be asked with", shown(name)))
                .hint("use USR1, USR2, HUP, INT or TERM"));
        }
        Ok((format!("SIG{name}"), seconds, self.given.place.line))
    }
}
