//! Options that together say how large the gang is.

use super::{OptionReader, Set, Slurm, gpus_of_gres};
use crate::error::{FileError, shown};
use crate::tree::TextPosition;
use muster_model::Bytes;
use muster_model::spec::JobSpec;

/// What one option asks for.
#[derive(Clone, Copy)]
struct Asked<T> {
    n: T,
    name: &'static str,
    place: TextPosition,
}

impl<T> Asked<T> {
    /// What follows from it.
    fn map<U>(self, f: impl FnOnce(T) -> U) -> Asked<U> {
        Asked { n: f(self.n), name: self.name, place: self.place }
    }

    fn fail(&self, origin: &str, message: String, hint: &str) -> FileError {
        FileError::new(origin, message).at(self.place.line, self.place.column).hint(hint)
    }
}

/// A number, where there is one.
type Count = Option<Asked<u32>>;

/// The options about size as they were written.
#[derive(Default)]
pub(super) struct Size {
    nodes: Count,
    tasks: Count,
    per_node: Count,
    per_gpu: Count,
    gpus: Count,
    gpus_total: Count,
    gpus_per_task: Count,
    sku: Option<Asked<String>>,
    cpus_per_task: Count,
    cpus_per_gpu: Count,
    memory: Option<Asked<u64>>,
    memory_per_cpu: Option<Asked<u64>>,
    memory_per_gpu: Option<Asked<u64>>,
}

impl Size {
    pub(super) fn option(
        &mut self,
        slurm: &mut Slurm,
        at: &OptionReader<'_>,
    ) -> Result<(), FileError> {
        let (value, place) = (at.given.value.as_str(), at.given.place);
        let name = at.given.name;
        let number =
            |text: &str| Ok::<_, FileError>(Some(Asked { n: at.number(text)?, name, place }));
        let gpus = |size: &mut Size, text: &str| {
            let (kind, n) = at.gpus(text)?;
            if let Some(kind) = kind {
                size.sku = Some(Asked { n: kind, name, place });
            }
            Ok::<_, FileError>(Some(Asked { n, name, place }))
        };
        let memory = |slurm: &mut Slurm| {
            let m = at.memory()?;
            if m.is_none() {
                slurm
                    .note(place.line, "all memory of a node cannot be requested; none is reserved");
            }
            Ok::<_, FileError>(m.map(|n| Asked { n, name, place }))
        };
        match name {
            "nodes" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                if least != most {
                    at.number(most)?;
                    slurm.note(
                        place.line,
                        "of a range of nodes the least is used: see `--elastic` of #MUSTER",
                    );
                }
                self.nodes = number(least)?;
            }
            "ntasks" => self.tasks = number(value)?,
            "ntasks-per-node" | "tasks-per-node" => self.per_node = number(value)?,
            "ntasks-per-gpu" => self.per_gpu = number(value)?,
            "gpus-per-node" => self.gpus = gpus(self, value)?,
            "gpus" => self.gpus_total = gpus(self, value)?,
            "gpus-per-task" => self.gpus_per_task = gpus(self, value)?,
            "gres" => {
                for part in value.split(',') {
                    if let Some(text) = gpus_of_gres(part) {
                        self.gpus = gpus(self, &text)?;
                    } else if part != "none" {
                        let message = format!("`{}` is not scheduled here", shown(part));
                        slurm.note(place.line, message);
                    }
                }
            }
            "cpus-per-task" => self.cpus_per_task = number(value)?,
            "cpus-per-gpu" => self.cpus_per_gpu = number(value)?,
            "mem" => self.memory = memory(slurm)?,
            "mem-per-cpu" => self.memory_per_cpu = memory(slurm)?,
            "mem-per-gpu" => self.memory_per_gpu = memory(slurm)?,
            other => return Err(at.fail(format!("`--{other}` is not understood"))),
        }
        Ok(())
    }

    pub(super) fn finish(
        self,
        slurm: &mut Slurm,
        spec: &mut JobSpec,
        origin: &str,
        set: &mut Set,
    ) -> Result<(), FileError> {
        let nodes = self.nodes(origin)?;
        let gpus = self.gpus(slurm, nodes, origin)?;
        let ranks = self.ranks(slurm, nodes, origin)?;
        let (gpus, ranks) = self.ranks_and_gpus(slurm, gpus, ranks, origin)?;
        // Slurm starts one task on a node unless the script asks for more, whatever its GPUs.
        let per_node = ranks.map_or(1, |a| a.n);
        let cpus = self.cpus(slurm, per_node, gpus);
        let memory = self.memory(slurm, cpus.map_or(per_node, |a| a.n), gpus);
        let gang = &mut spec.gang;
        gang.ranks_per_node = Some(per_node);
        let mut mark = |field: &'static str, name: &'static str, place: TextPosition| {
            slurm.took(set, field, name, place);
        };
        if let Some(Asked { n, name, place }) = nodes {
            gang.nodes = Some(n);
            mark("gang.nodes", name, place);
        }
        if let Some(Asked { n, name, place }) = gpus {
            gang.gpus_per_node = Some(n);
            mark("gang.gpus_per_node", name, place);
        }
        if let Some(Asked { name, place, .. }) = ranks {
            mark("gang.ranks_per_node", name, place);
        }
        if let Some(Asked { n, name, place }) = cpus {
            gang.cpus_per_node = Some(n);
            mark("gang.cpus_per_node", name, place);
        }
        if let Some(Asked { n, name, place }) = memory {
            gang.memory_per_node = Some(Bytes(n));
            mark("gang.memory_per_node", name, place);
        }
        if let Some(Asked { n, name, place }) = self.sku {
            gang.sku = Some(n);
            mark("gang.sku", name, place);
        }
        Ok(())
    }

    /// As asked, or as many as the tasks or GPUs in all need.
    fn nodes(&self, origin: &str) -> Result<Count, FileError> {
        if self.nodes.is_some() {
            return Ok(self.nodes);
        }
        if let (Some(tasks), Some(per)) = (self.tasks, self.per_node) {
            if per.n == 0 {
                return Err(tasks.fail(origin, "no tasks on a node".into(), "use at least 1"));
            }
            return Ok(Some(tasks.map(|n| n.div_ceil(per.n))));
        }
        let (Some(total), Some(per)) = (self.gpus_total, self.gpus) else { return Ok(None) };
        if per.n == 0 || !total.n.is_multiple_of(per.n) {
            let message = format!("{} GPUs are not a number of nodes with {} each", total.n, per.n);
            return Err(total.fail(origin, message, "use --nodes and --gpus-per-node"));
        }
        Ok(Some(total.map(|n| n / per.n)))
    }

    /// GPUs of a node, where they or all of them are counted.
    fn gpus(&self, slurm: &mut Slurm, nodes: Count, origin: &str) -> Result<Count, FileError> {
        let count = nodes.map_or(1, |a| a.n);
        match (self.gpus, self.gpus_total) {
            (Some(each), Some(total)) => {
                let all = u64::from(each.n) * u64::from(count);
                if all != u64::from(total.n) {
                    slurm.overruled(&total, &each, &format!("{all} GPUs in all"));
                }
                Ok(Some(each))
            }
            (None, Some(total)) => {
                if nodes.is_none() && total.n > 1 {
                    let message = "all GPUs are asked on one node: add --nodes for more";
                    slurm.note(total.place.line, message);
                }
                divide(total, count, "GPUs", "use --gpus-per-node", origin).map(Some)
            }
            (each, None) => Ok(each),
        }
    }

    /// Tasks of a node, where they or all of them are counted.
    fn ranks(&self, slurm: &mut Slurm, nodes: Count, origin: &str) -> Result<Count, FileError> {
        let count = nodes.map_or(1, |a| a.n);
        match (self.per_node, self.tasks) {
            (Some(each), Some(tasks)) => {
                let all = u64::from(each.n) * u64::from(count);
                if all != u64::from(tasks.n) {
                    slurm.overruled(&tasks, &each, &format!("{all} tasks in all"));
                }
                Ok(Some(each))
            }
            (None, Some(tasks)) => {
                if nodes.is_none() && tasks.n > 1 && self.gpus_total.is_none() {
                    let message = "all tasks are asked on one node: add --nodes for more";
                    slurm.note(tasks.place.line, message);
                }
                divide(tasks, count, "tasks", "use --ntasks-per-node", origin).map(Some)
            }
            (each, None) => Ok(each),
        }
    }

    /// GPUs and tasks of a node. Where one of them is not counted, it follows from the other.
    fn ranks_and_gpus(
        &self,
        slurm: &mut Slurm,
        mut gpus: Count,
        mut ranks: Count,
        origin: &str,
    ) -> Result<(Count, Count), FileError> {
        let uneven = |by: Asked<u32>, message: String| {
            Err(by.fail(origin, message, "use --ntasks-per-node and --gpus-per-node"))
        };
        if let Some(per) = self.gpus_per_task {
            match (gpus, ranks) {
                (Some(g), Some(r)) if r.n.checked_mul(per.n) != Some(g.n) => {
                    slurm.overruled(&per, &g, &format!("{} GPUs for {} tasks on a node", g.n, r.n));
                }
                (Some(_), Some(_)) => {}
                (Some(g), None) if per.n == 0 || !g.n.is_multiple_of(per.n) => {
                    let message = format!("{} GPUs are not a number of tasks with {}", g.n, per.n);
                    return uneven(per, message);
                }
                (Some(g), None) => ranks = Some(per.map(|n| g.n / n)),
                (None, _) => {
                    let tasks = ranks.map_or(1, |r| r.n);
                    gpus = Some(per.map(|n| n.saturating_mul(tasks)));
                }
            }
        }
        if let Some(per) = self.per_gpu {
            match (gpus, ranks) {
                (Some(g), Some(r)) if g.n.checked_mul(per.n) != Some(r.n) => {
                    slurm.overruled(&per, &r, &format!("{} tasks for {} GPUs on a node", r.n, g.n));
                }
                (Some(_), Some(_)) => {}
                (Some(g), None) => ranks = Some(per.map(|n| n.saturating_mul(g.n))),
                (None, Some(r)) if per.n == 0 || !r.n.is_multiple_of(per.n) => {
                    let message = format!("{} tasks are not a number of GPUs with {}", r.n, per.n);
                    return uneven(per, message);
                }
                (None, Some(r)) => gpus = Some(per.map(|n| r.n / n)),
                (None, None) => {
                    let message = "`--ntasks-per-gpu` needs a number of GPUs or of tasks";
                    return Err(per.fail(
                        origin,
                        message.into(),
                        "add --gpus-per-node or --ntasks",
                    ));
                }
            }
        }
        Ok((gpus, ranks))
    }

    /// Processors of a node.
    fn cpus(&self, slurm: &mut Slurm, ranks: u32, gpus: Count) -> Count {
        let by_task = self.cpus_per_task.map(|a| a.map(|n| n.saturating_mul(ranks)));
        let by_gpu = match (self.cpus_per_gpu, gpus) {
            (Some(a), Some(g)) => Some(a.map(|n| n.saturating_mul(g.n))),
            (Some(a), None) => {
                slurm.without_gpus(a.name, a.place, "--cpus");
                None
            }
            (None, _) => None,
        };
        if let (Some(used), Some(other)) = (by_task, by_gpu)
            && used.n != other.n
        {
            slurm.overruled(&other, &used, &format!("{} processors on a node", used.n));
        }
        by_task.or(by_gpu)
    }

    /// Memory of a node.
    fn memory(&self, slurm: &mut Slurm, cpus: u32, gpus: Count) -> Option<Asked<u64>> {
        let by_cpu = self.memory_per_cpu.map(|a| a.map(|b| b.saturating_mul(cpus.into())));
        let by_gpu = match (self.memory_per_gpu, gpus) {
            (Some(a), Some(g)) => Some(a.map(|b| b.saturating_mul(g.n.into()))),
            (Some(a), None) => {
                slurm.without_gpus(a.name, a.place, "--memory");
                None
            }
            (None, _) => None,
        };
        let used = self.memory.or(by_cpu).or(by_gpu)?;
        for other in [by_cpu, by_gpu].into_iter().flatten() {
            if other.n != used.n {
                slurm.overruled(&other, &used, &format!("{} on a node", Bytes(used.n)));
            }
        }
        Some(used)
    }
}

impl Slurm {
    /// Notes that one option decides what another asks for as well.
    fn overruled<A, B>(&mut self, option: &Asked<A>, by: &Asked<B>, so: &str) {
        let message = format!("`--{}` is overruled by `--{}`: {so}", option.name, by.name);
        self.note(option.place.line, message);
    }

    /// Notes that what is asked for each GPU comes to nothing.
    fn without_gpus(&mut self, name: &str, place: TextPosition, ours: &str) {
        let message = format!(
            "`--{name}` has no effect: no #SBATCH line asks for GPUs; use {ours} of #MUSTER"
        );
        self.note(place.line, message);
    }
}

/// What each of so many nodes gets of a total.
fn divide(
    total: Asked<u32>,
    by: u32,
    what: &str,
    hint: &str,
    origin: &str,
) -> Result<Asked<u32>, FileError> {
    if by == 0 || !total.n.is_multiple_of(by) {
        let message = format!("{} {what} cannot be shared evenly among {by} nodes", total.n);
        return Err(total.fail(origin, message, hint));
    }
    Ok(total.map(|n| n / by))
}
