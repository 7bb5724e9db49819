//! What comes of reading a job, in whichever form it was written.

use crate::error::FileError;
use crate::flags;
use muster_model::resolve::{check_run, resolve};
use muster_model::spec::{JobSpec, SpecProblem};
use std::fmt;

/// A job and what its author should know about how it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The job as it will be submitted.
    pub spec: JobSpec,
    /// Directives that were understood but have no effect, or another one than in Slurm.
    pub notes: Vec<Note>,
    /// The `#SBATCH` options of a script by the field that each of them decided.
    pub options: Vec<SlurmOption>,
}

impl Parsed {
    /// Notes on the options of the script that flags overruled. `spec` is what came of it with the flags;
    /// `variable` names the environment variable that gave a flag which was not on the command line.
    #[must_use]
    pub fn overruled(
        &self,
        spec: &JobSpec,
        variable: impl Fn(&str) -> Option<&'static str>,
    ) -> Vec<Note> {
        overruled(&self.options, &self.spec, spec, |flag| match variable(flag) {
            Some(name) => format!("`{name}` of the environment"),
            None => format!("`--{flag}` of the command line"),
        })
    }

    /// The `#SBATCH` option whose type of GPU is the SKU of `spec`, such as `h100` of
    /// `--gres=gpu:h100:8`. None where something else decides the SKU.
    #[must_use]
    pub fn gpu_type(&self, spec: &JobSpec) -> Option<SlurmOption> {
        let option = self.options.iter().find(|o| o.field == "gang.sku")?;
        is_same("gang.sku", &self.spec, spec).then_some(*option)
    }

    /// Puts a SKU of the fleet where a `#SBATCH` line names a type of GPU: the only one that begins with it.
    /// Where there is none, the type stays, and the server says what there is.
    ///
    /// # Errors
    /// When several SKUs begin with it.
    pub fn name_sku(
        &self,
        spec: &mut JobSpec,
        known: &[String],
        origin: &str,
    ) -> Result<Option<Note>, FileError> {
        let (Some(option), Some(kind)) = (self.gpu_type(spec), spec.gang.sku.clone()) else {
            return Ok(None);
        };
        let (line, name) = (option.line, option.name);
        let begins = |sku: &&str| {
            let rest = sku.to_ascii_lowercase();
            let rest = rest.strip_prefix(kind.as_str());
            rest.is_some_and(|r| !r.starts_with(|c: char| c.is_ascii_alphanumeric()))
        };
        let mut skus: Vec<&str> = known.iter().map(String::as_str).filter(begins).collect();
        if skus.contains(&kind.as_str()) {
            return Ok(None);
        }
        skus.sort_unstable();
        match skus.as_slice() {
            [] => Ok(None),
            [sku] => {
                spec.gang.sku = Some((*sku).to_owned());
                let message = format!("`{kind}` of `--{name}` is the SKU {sku} here");
                Ok(Some(Note { line, message }))
            }
            several => {
                let message = format!("`{kind}` may be {} here", several.join(" or "));
                let any = several.join("|");
                Err(FileError::new(origin, message).at(line, 0).about(format!("--{name}")).hint(
                    format!("name one with `#MUSTER --sku`; `--sku '{any}'` takes any of them"),
                ))
            }
        }
    }
}

/// A `#SBATCH` option and the field of the spec that it decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlurmOption {
    /// The field, such as `gang.nodes`.
    pub field: &'static str,
    /// The option without its dashes.
    pub name: &'static str,
    /// Its line.
    pub line: u32,
}

/// Notes on the options whose fields have another value than before, and on those whose value was
/// counted with such a field. `by` names what sets the field of a flag now.
pub(crate) fn overruled(
    options: &[SlurmOption],
    before: &JobSpec,
    after: &JobSpec,
    by: impl Fn(&str) -> String,
) -> Vec<Note> {
    let note = |o: &SlurmOption| {
        let (field, ends) = if !is_same(o.field, before, after) {
            (o.field, "")
        } else {
            let field = counted_with(o).filter(|f| !is_same(f, before, after))?;
            (field, ", and is counted without it")
        };
        let flag = flags::of_field(field).unwrap_or(field);
        let message = format!("`--{}` is overruled by {}{ends}", o.name, by(flag));
        Some(Note { line: o.line, message })
    };
    options.iter().filter_map(note).collect()
}

/// The other field that an option was counted with: `--gpus` is shared among the nodes.
fn counted_with(option: &SlurmOption) -> Option<&'static str> {
    match option.name {
        "gpus" | "ntasks" if option.field != "gang.nodes" => Some("gang.nodes"),
        "cpus-per-gpu" | "mem-per-gpu" | "ntasks-per-gpu" => Some("gang.gpus_per_node"),
        "cpus-per-task" | "gpus-per-task" => Some("gang.ranks_per_node"),
        "mem-per-cpu" => Some("gang.cpus_per_node"),
        _ => None,
    }
}

/// Whether a field that an option can set and a flag can change has the same value in both.
pub(crate) fn is_same(field: &str, a: &JobSpec, b: &JobSpec) -> bool {
    match field {
        "name" => a.name == b.name,
        "project" => a.project == b.project,
        "time_limit" => a.time_limit == b.time_limit,
        "priority" => a.priority == b.priority,
        "array" => a.array == b.array,
        "run.workdir" => a.run.workdir == b.run.workdir,
        "run.image" => a.run.image == b.run.image,
        "topology.required" => a.topology.required == b.topology.required,
        "topology.preferred" => a.topology.preferred == b.topology.preferred,
        "gang.nodes" => a.gang.nodes.unwrap_or(1) == b.gang.nodes.unwrap_or(1),
        "gang.gpus_per_node" => a.gang.gpus_per_node == b.gang.gpus_per_node,
        "gang.ranks_per_node" => a.gang.ranks_per_node == b.gang.ranks_per_node,
        "gang.cpus_per_node" => a.gang.cpus_per_node == b.gang.cpus_per_node,
        "gang.memory_per_node" => a.gang.memory_per_node == b.gang.memory_per_node,
        "gang.sku" => a.gang.sku == b.gang.sku,
        // The rest adds up.
        _ => true,
    }
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

/// Everything that can be judged from the spec alone.
pub(crate) fn check(spec: &JobSpec) -> Result<(), SpecProblem> {
    resolve(spec)?;
    check_run(&spec.run, spec.simulate.is_some())
}
