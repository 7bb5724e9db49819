//! The flags of `muster submit`, shared by the command line and by `#MUSTER` directives.

use crate::error::{closest, shown};
use muster_model::spec::{
    Elastic, JobSpec, OnPartition, Priority, SpecProblem, Spread, Tier, Volume, problem,
};
use muster_model::topology::Level;
use muster_model::{Bytes, Span};
use std::str::FromStr;

/// All flags without their dashes, and the field of the spec that each of them sets.
const FLAGS: [(&str, &str); 29] = [
    ("name", "name"),
    ("nodes", "gang.nodes"),
    ("gpus", "gang.gpus_per_node"),
    ("ranks-per-node", "gang.ranks_per_node"),
    ("cpus", "gang.cpus_per_node"),
    ("memory", "gang.memory_per_node"),
    ("sku", "gang.sku"),
    ("mig", "gang.mig"),
    ("gpu-milli", "gang.gpu_milli"),
    ("topology", "topology"),
    ("segment", "topology.segment"),
    ("spread", "topology.spread"),
    ("elastic", "elastic"),
    ("time", "time_limit"),
    ("priority", "priority"),
    ("tier", "tier"),
    ("array", "array"),
    ("after", "after"),
    ("image", "run.image"),
    ("env", "run.env"),
    ("secret", "secrets"),
    ("volume", "volumes"),
    ("tag", "tags"),
    ("project", "project"),
    ("workdir", "run.workdir"),
    ("checkpoint-dir", "checkpoint"),
    ("on-partition", "on_partition"),
    ("retries", "retries"),
    ("hold", "hold"),
];

/// All flags without their dashes.
pub fn names() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().map(|(name, _)| *name)
}

/// Whether a flag is followed by a value.
#[must_use]
pub fn takes_value(flag: &str) -> bool {
    flag != "hold"
}

/// The field of the spec that a flag sets, where there is such a flag.
#[must_use]
pub fn field_of(flag: &str) -> Option<&'static str> {
    FLAGS.iter().find(|(name, _)| *name == flag).map(|(_, field)| *field)
}

/// The flag that sets a field of the spec, where there is one.
pub(crate) fn of_field(field: &str) -> Option<&'static str> {
    let under = |of: &str| {
        field.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    FLAGS.iter().find(|(_, of)| under(of)).map(|(name, _)| *name)
}

/// Applies one flag (its name without dashes) to a spec. The problem's field is the flag.
///
/// # Errors
/// When the flag is unknown, lacks its value, or the value is not understood.
pub fn apply(spec: &mut JobSpec, flag: &str, value: Option<&str>) -> Result<(), SpecProblem> {
    let dashed = format!("--{flag}");
    if field_of(flag).is_none() {
        let flag = shown(flag);
        let names = FLAGS.map(|(name, _)| name);
        let hint = closest(&flag, &names).map_or_else(
            || format!("known flags: --{}", names.join(" --")),
            |k| format!("did you mean `--{k}`?"),
        );
        return Err(problem(&format!("--{flag}"), format!("unknown flag `--{flag}`"), hint));
    }
    if !takes_value(flag) {
        return match value {
            None => {
                spec.hold = true;
                Ok(())
            }
            Some(_) => Err(problem(&dashed, "it takes no value", "write the flag alone")),
        };
    }
    let Some(value) = value else {
        return Err(problem(&dashed, "its value is missing", format!("write --{flag} VALUE")));
    };
    let at = Flag { dashed: &dashed, value };
    match flag {
        "name" => spec.name = Some(at.parse("letters, digits, `-`, `_` and `.`")?),
        "nodes" => set_nodes(spec, at.number()?),
        "gpus" => set_gpus(spec, at.number()?),
        "ranks-per-node" => spec.gang.ranks_per_node = Some(at.number()?),
        "cpus" => spec.gang.cpus_per_node = Some(at.number()?),
        "memory" => spec.gang.memory_per_node = Some(memory(&at)?),
        "sku" => spec.gang.sku = Some(value.into()),
        "mig" => spec.gang.mig = Some(value.into()),
        "gpu-milli" => spec.gang.gpu_milli = Some(at.number()?),
        "topology" => topology(spec, &at)?,
        "segment" => spec.topology.segment = Some(at.number()?),
        "spread" => {
            let known = [("feed", Spread::Feed), ("leaf", Spread::Leaf), ("rack", Spread::Rack)];
            spec.topology.spread = Some(at.one_of(&known)?);
        }
        "elastic" => spec.elastic = Some(elastic(&at)?),
        "time" => spec.time_limit = Some(time(&at)?),
        "priority" => {
            let known = [
                ("low", Priority::Low),
                ("normal", Priority::Normal),
                ("high", Priority::High),
                ("critical", Priority::Critical),
            ];
            spec.priority = at.one_of(&known)?;
        }
        "tier" => {
            let known =
                [("spot", Tier::Spot), ("on-demand", Tier::OnDemand), ("reserved", Tier::Reserved)];
            spec.tier = at.one_of(&known)?;
        }
        "array" => spec.array = Some(value.into()),
        "after" => spec.after.extend(value.split(',').map(|s| s.trim().to_owned())),
        "image" => spec.run.image = Some(value.into()),
        "env" => {
            let (k, v) = at.pair()?;
            spec.run.env.insert(k, v);
        }
        "tag" => {
            let (k, v) = at.pair()?;
            spec.tags.insert(k, v);
        }
        "secret" => spec.secrets.push(at.parse("name a secret of the project")?),
        "volume" => spec.volumes.push(volume(&at)?),
        "project" => spec.project = Some(at.parse("name a project")?),
        "workdir" => spec.run.workdir = Some(value.into()),
        "checkpoint-dir" => spec.checkpoint.get_or_insert_default().dir = value.into(),
        "on-partition" if value == "continue" => spec.on_partition = Some(OnPartition::Continue),
        "on-partition" => {
            let lease = at.parse("write it like 60s or 2m, or `continue`")?;
            spec.on_partition = Some(OnPartition::StopAfter(lease));
        }
        _ => spec.retries.application = at.number()?,
    }
    Ok(())
}

// A flag wins over the file's shorthand: `gpus: 4` and `--nodes 2` are two nodes with four each.
fn set_nodes(spec: &mut JobSpec, n: u32) {
    spec.gang.nodes = Some(n);
    if let Some(g) = spec.gang.gpus.take() {
        spec.gang.gpus_per_node = Some(g);
    }
}

fn set_gpus(spec: &mut JobSpec, n: u32) {
    spec.gang.gpus = None;
    spec.gang.gpus_per_node = Some(n);
}

/// A hint where one of the words comes near. The message has all of them.
fn meant(given: &str, known: &[&str]) -> String {
    closest(given, known).map(|k| format!("did you mean `{k}`?")).unwrap_or_default()
}

struct Flag<'a> {
    dashed: &'a str,
    value: &'a str,
}

impl Flag<'_> {
    fn bad(&self, message: impl Into<String>, hint: impl Into<String>) -> SpecProblem {
        problem(self.dashed, message, hint)
    }

    fn number(&self) -> Result<u32, SpecProblem> {
        let digits = !self.value.is_empty() && self.value.bytes().all(|b| b.is_ascii_digit());
        if !digits {
            let message = format!("`{}` is not a whole number", shown(self.value));
            return Err(self.bad(message, "write a number like 8"));
        }
        let too_large = |_| self.bad(format!("`{}` is too large", shown(self.value)), "use less");
        self.value.parse().map_err(too_large)
    }

    fn parse<T: FromStr<Err: std::fmt::Display>>(&self, hint: &str) -> Result<T, SpecProblem> {
        self.value.parse().map_err(|e: T::Err| self.bad(e.to_string(), hint))
    }

    fn one_of<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, SpecProblem> {
        let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
        let hit = known.iter().find(|(n, _)| *n == self.value).map(|(_, v)| *v);
        hit.ok_or_else(|| {
            let message = format!("`{}` is not one of {}", shown(self.value), names.join(", "));
            self.bad(message, meant(self.value, &names))
        })
    }

    fn pair(&self) -> Result<(String, String), SpecProblem> {
        let pair = self.value.split_once('=').filter(|(k, _)| !k.is_empty());
        let (k, v) = pair.ok_or_else(|| {
            self.bad(format!("`{}` has no `=`", shown(self.value)), "write it like NAME=value")
        })?;
        Ok((k.to_owned(), v.to_owned()))
    }
}

fn topology(spec: &mut JobSpec, at: &Flag<'_>) -> Result<(), SpecProblem> {
    if at.value == "none" {
        (spec.topology.required, spec.topology.preferred) = (None, None);
        return Ok(());
    }
    for part in at.value.split(',') {
        let (kind, level) = part.trim().split_once(':').unwrap_or(("required", part.trim()));
        let words: Vec<&str> = Level::ALL.iter().map(|l| l.word()).collect();
        let level = level.parse::<Level>().map_err(|e| at.bad(e, meant(level, &words)))?;
        match kind {
            "required" => spec.topology.required = Some(level),
            "preferred" => spec.topology.preferred = Some(level),
            other => {
                return Err(at.bad(
                    format!("`{}` is neither `required` nor `preferred`", shown(other)),
                    "write leaf, required:leaf, preferred:rack or required:leaf,preferred:rack",
                ));
            }
        }
    }
    Ok(())
}

/// With its unit: 4096 means MiB to Slurm, and bytes to others.
fn memory(at: &Flag<'_>) -> Result<Bytes, SpecProblem> {
    let value: Bytes = at.parse("write it like 512GiB")?;
    if value.0 > 0 && at.value.trim().bytes().all(|b| b.is_ascii_digit()) {
        let number = shown(at.value);
        return Err(at.bad(
            format!("`{number}` has no unit"),
            format!("write a unit, such as {number}MiB or 64GiB"),
        ));
    }
    Ok(value)
}

/// `2-8`, or `4` for `4-4`.
fn elastic(at: &Flag<'_>) -> Result<Elastic, SpecProblem> {
    let (least, most) = at.value.split_once('-').unwrap_or((at.value, at.value));
    let number = |value: &str| {
        Flag { dashed: at.dashed, value: value.trim() }.number().map_err(|mut p| {
            p.hint = Some("write the fewest and the most nodes, like 2-8".into());
            p
        })
    };
    Ok(Elastic { min_nodes: number(least)?, max_nodes: number(most)? })
}

fn time(at: &Flag<'_>) -> Result<Span, SpecProblem> {
    if at.value.contains([':', '-'])
        && let Some(span) = slurm_time(at.value)
    {
        return Ok(span);
    }
    at.parse::<Span>("write it like 30m, 24h, 1d12h or 12:00:00")
}

fn volume(at: &Flag<'_>) -> Result<Volume, SpecProblem> {
    let parts: Vec<&str> = at.value.split(':').collect();
    let (from, to, mode) = match parts.as_slice() {
        [from, to] => (*from, *to, "rw"),
        [from, to, mode] => (*from, *to, *mode),
        _ => ("", "", "rw"),
    };
    if from.is_empty() || to.is_empty() || !matches!(mode, "rw" | "ro") {
        let message = format!("`{}` is not a volume", shown(at.value));
        return Err(at.bad(message, "write SRC:DST, or SRC:DST:ro for reading only"));
    }
    Ok(Volume { from: from.into(), at: to.into(), read_only: mode == "ro" })
}

/// A time as Slurm writes it: `MIN`, `MIN:SEC`, `H:MIN:SEC`, `D-H`, `D-H:MIN`, `D-H:MIN:SEC`.
#[must_use]
pub fn slurm_time(text: &str) -> Option<Span> {
    let (days, rest) = match text.split_once('-') {
        Some((d, rest)) => (Some(d), rest),
        None => (None, text),
    };
    let number = |s: &str| {
        let good = (1..=9).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        if good { s.parse::<u64>().ok() } else { None }
    };
    let parts = rest.split(':').map(number).collect::<Option<Vec<u64>>>()?;
    let (h, m, s) = match (days.is_some(), parts.as_slice()) {
        (false, [m]) => (0, *m, 0),
        (false, [m, s]) => (0, *m, *s),
        (true, [h]) => (*h, 0, 0),
        (true, [h, m]) => (*h, *m, 0),
        (_, [h, m, s]) => (*h, *m, *s),
        _ => return None,
    };
    let days = days.map_or(Some(0), number)?;
    let secs = days * 86_400 + h * 3600 + m * 60 + s;
    // The same bound as every other length of time in a spec.
    (secs <= 100 * 366 * 86_400).then(|| Span::secs(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(flags: &[(&str, &str)]) -> JobSpec {
        let mut spec = JobSpec::default();
        for &(flag, value) in flags {
            apply(&mut spec, flag, Some(value)).unwrap();
        }
        spec.run.command = vec!["true".into()];
        spec
    }

    #[test]
    fn flags_make_a_spec() {
        let mut s = spec(&[
            ("name", "a"),
            ("nodes", "2"),
            ("gpus", "8"),
            ("memory", "16G"),
            ("topology", "required:leaf,preferred:rack"),
            ("time", "1-12:00"),
            ("checkpoint-dir", "/c"),
            ("retries", "3"),
            ("env", "LR=3e-4=x"),
            ("volume", "/a:/b:ro"),
        ]);
        apply(&mut s, "hold", None).unwrap();
        assert_eq!((s.gang.nodes, s.gang.gpus_per_node), (Some(2), Some(8)));
        assert_eq!(s.gang.memory_per_node, Some(Bytes::gib(16)));
        assert_eq!(s.topology.preferred, Some(Level::Rack));
        assert_eq!(s.time_limit, Some(Span::mins(36 * 60)));
        assert_eq!(s.run.env["LR"], "3e-4=x");
        assert!(s.volumes[0].read_only && s.hold);
        assert_eq!(s.retries.application, 3);
        assert!(muster_model::resolve::resolve(&s).is_ok());
    }

    #[test]
    fn shapes_of_gangs_are_read() {
        let s = spec(&[
            ("nodes", "32"),
            ("gpus", "4"),
            ("sku", "gb200|gb300"),
            ("segment", "16"),
            ("tier", "reserved"),
        ]);
        assert_eq!((s.topology.segment, s.tier), (Some(16), Tier::Reserved));
        assert!(muster_model::resolve::resolve(&s).is_ok());
        let s = spec(&[("spread", "feed"), ("elastic", "2-8"), ("checkpoint-dir", "/c")]);
        assert_eq!(s.elastic, Some(Elastic { min_nodes: 2, max_nodes: 8 }));
        assert_eq!(s.topology.spread, Some(Spread::Feed));
        assert_eq!(muster_model::resolve::resolve(&s).unwrap().groups[0].nodes, 8);
        for (said, want) in
            [("90s", OnPartition::StopAfter(Span::secs(90))), ("continue", OnPartition::Continue)]
        {
            assert_eq!(spec(&[("on-partition", said)]).on_partition, Some(want), "{said}");
        }
        assert_eq!(spec(&[("gpu-milli", "250")]).gang.gpu_milli, Some(250));
    }

    #[test]
    fn bad_values_name_the_flag_and_a_way_out() {
        let bad = |flag: &str, value: &str| {
            let e = apply(&mut JobSpec::default(), flag, Some(value)).unwrap_err();
            format!("{e} ({})", e.hint.as_deref().unwrap_or_default())
        };
        assert_eq!(
            bad("nodes", "-1"),
            "--nodes: `-1` is not a whole number (write a number like 8)"
        );
        assert_eq!(bad("nodes", "99999999999"), "--nodes: `99999999999` is too large (use less)");
        assert!(bad("priority", "hihg").ends_with("(did you mean `high`?)"));
        // What may be written is said once.
        assert!(bad("priority", "urgent").ends_with("not one of low, normal, high, critical ()"));
        assert!(bad("topology", "building").ends_with("nvlink or node ()"));
        assert!(bad("nods", "1").ends_with("(did you mean `--nodes`?)"));
        assert!(bad("topology", "leef").ends_with("(did you mean `leaf`?)"));
        assert!(bad("spread", "leav").ends_with("(did you mean `leaf`?)"));
        assert!(bad("elastic", "2-many").ends_with("like 2-8)"));
        assert!(bad("segment", "all").contains("not a whole number"));
        assert!(bad("volume", "/a").contains("write SRC:DST"));
        assert!(bad("on-partition", "later").ends_with("(write it like 60s or 2m, or `continue`)"));
        assert_eq!(
            bad("memory", "4096"),
            "--memory: `4096` has no unit (write a unit, such as 4096MiB or 64GiB)"
        );
        assert!(bad("env", "A").contains("has no `=`"));
        assert!(apply(&mut JobSpec::default(), "hold", Some("x")).is_err());
        assert!(apply(&mut JobSpec::default(), "name", None).is_err());
    }

    #[test]
    fn slurm_times_read_as_slurm_reads_them() {
        let secs = |t: &str| slurm_time(t).map(|s| s.0 / 1000);
        assert_eq!(secs("30"), Some(1800));
        assert_eq!(secs("1:30"), Some(90));
        assert_eq!(secs("2:00:00"), Some(7200));
        assert_eq!(secs("1-0"), Some(86_400));
        assert_eq!(secs("1-2:30"), Some(95_400));
        assert_eq!(secs("7-00:00:01"), Some(604_801));
        for bad in ["", "a", "1:2:3:4", "-1", "1-", "1::2", "999999999-0", "1-2:3:4:5"] {
            assert_eq!(secs(bad), None, "{bad:?}");
        }
    }
}
