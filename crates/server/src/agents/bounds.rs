//! How much a node may say. Everything that an agent sends passes here before anything is done with
//! it: what it says stays in the log, and people read it.

use muster_link::messages::{FromAgent, Hello, ProgressReport};
use muster_model::command::Observed;
use muster_model::job::SlotEnd;
use muster_model::node::{Gpu, GpuFacts, Inventory};
use muster_model::text::{bound, is_odd};

/// Bytes of a reason or a message.
const REASON: usize = 1024;
/// Bytes of a line that a node read somewhere: of a fault, of a check.
const LINE: usize = 2048;
/// Bytes of a name, a version, an address.
const NAME: usize = 256;
/// Bytes of a list of processors, such as `0,2,4,6`.
const PROCESSORS: usize = 4096;
/// Bytes of the path of a checkpoint.
const PATH: usize = 1024;
/// Attempts that one hello reports.
const ATTEMPTS: usize = 1024;
/// GPUs of a node: a set of them has so many bits. Also what one GPU has many of.
const GPUS: usize = 64;
/// Other parts of a node: NUMA nodes, disks, network cards, each function of which counts.
const PARTS: usize = 2048;
/// Bytes of everything that a hello says of its node. One with 8 GPUs and all their links needs less
/// than 32 KiB; each of 2,048 functions of network cards needs 70 bytes more.
const WHOLE: usize = 256 << 10;

/// Cuts what is too long in a message, and writes out what is not plain text.
pub(super) fn message(m: &mut FromAgent) {
    match m {
        FromAgent::Report { observed, .. } => ended(observed),
        FromAgent::Faults { faults } => {
            for f in faults {
                bound(&mut f.code, NAME);
                bound(&mut f.text, LINE);
            }
        }
        FromAgent::Qualified { report, .. } => {
            for c in &mut report.checks {
                bound(&mut c.name, NAME);
                bound(&mut c.unit, NAME);
                bound(&mut c.note, LINE);
            }
        }
        FromAgent::Qualifying { doing: text, .. }
        | FromAgent::Acted { message: text, .. }
        | FromAgent::Injected { message: text, .. }
        | FromAgent::FabricReady { error: Some(text), .. } => bound(text, REASON),
        FromAgent::FabricDone { result, .. } => {
            if let Some(text) = &mut result.error {
                bound(text, REASON);
            }
        }
        // A path that was changed leads nowhere, and without one it would replace a good checkpoint.
        FromAgent::Progress { key, rank, report } => {
            if let ProgressReport::Checkpoint { state, step, path, .. } = report
                && path.as_ref().is_some_and(|p| p.len() > PATH || p.contains(is_odd))
            {
                tracing::warn!(
                    attempt = %key, rank = *rank, step = *step,
                    "a checkpoint is ignored: its path is longer than {PATH} bytes or has control characters"
                );
                *path = None;
                // The rank is done with it all the same.
                if state.as_str() == "done" {
                    "failed".clone_into(state);
                }
            }
        }
        _ => {}
    }
}

fn ended(observed: &mut Observed) {
    let Observed::Ended(end) = observed else { return };
    match end {
        SlotEnd::Failed { exit } => bound(&mut exit.note, REASON),
        SlotEnd::Unstartable { reason } | SlotEnd::NodeFault { reason, .. } => {
            bound(reason, REASON);
        }
        SlotEnd::Ok | SlotEnd::Stopped => {}
    }
}

/// Refuses a hello that says more than a node has to say. What is not plain text is written out.
pub(super) fn hello(h: &mut Hello) -> Result<(), String> {
    let mut size = Size::default();
    for (what, text) in [
        ("version", &mut h.version),
        ("machine", &mut h.machine),
        ("instance", &mut h.instance),
        ("boot", &mut h.boot),
        ("address", &mut h.address),
        ("host", &mut h.host),
        ("place", &mut h.place),
    ] {
        size.text(what, text, NAME)?;
    }
    size.list("observed", h.observed.len(), ATTEMPTS)?;
    size.list("ended_ago", h.ended_ago.len(), ATTEMPTS)?;
    h.observed.iter_mut().for_each(|(_, o)| ended(o));
    inventory(&mut size, &mut h.inventory)?;
    match size.0 > WHOLE {
        true => Err(too_much("inventory", size.0, "bytes", WHOLE)),
        false => Ok(()),
    }
}

fn inventory(size: &mut Size, all: &mut Inventory) -> Result<(), String> {
    for (what, text) in [
        ("inventory.cpu_model", &mut all.cpu_model),
        ("inventory.kernel", &mut all.kernel),
        ("inventory.os", &mut all.os),
        ("inventory.isolation", &mut all.isolation),
        ("inventory.pool", &mut all.pool),
    ] {
        size.text(what, text, NAME)?;
    }
    size.list("inventory.versions", all.versions.len(), GPUS)?;
    for (name, version) in &mut all.versions {
        size.name("inventory.versions", name)?;
        size.text("inventory.versions", version, NAME)?;
    }
    size.list("inventory.can", all.can.len(), GPUS)?;
    for name in &all.can {
        size.name("inventory.can", name)?;
    }
    size.list("inventory.numa", all.numa.len(), PARTS)?;
    for numa in &mut all.numa {
        size.text("inventory.numa.cpus", &mut numa.cpus, PROCESSORS)?;
    }
    size.list("inventory.nics", all.nics.len(), PARTS)?;
    for nic in &mut all.nics {
        size.text("inventory.nics.name", &mut nic.name, NAME)?;
        size.text("inventory.nics.kind", &mut nic.kind, NAME)?;
        let more = [&mut nic.address, &mut nic.state, &mut nic.rail];
        size.texts("inventory.nics", more.into_iter().flatten())?;
    }
    size.list("inventory.disks", all.disks.len(), PARTS)?;
    for disk in &mut all.disks {
        size.text("inventory.disks.name", &mut disk.name, NAME)?;
        size.texts("inventory.disks.model", disk.model.iter_mut())?;
    }
    size.list("inventory.gpus", all.gpus.len(), GPUS)?;
    all.gpus.iter_mut().try_for_each(|gpu| device(size, gpu))
}

fn device(size: &mut Size, gpu: &mut Gpu) -> Result<(), String> {
    size.text("inventory.gpus.sku", &mut gpu.sku, NAME)?;
    size.text("inventory.gpus.uuid", &mut gpu.uuid, NAME)?;
    size.texts("inventory.gpus", gpu.serial.iter_mut().chain(&mut gpu.pci))?;
    let Some(facts) = gpu.facts.as_deref_mut() else { return Ok(()) };
    let GpuFacts { product, part, vbios, inforom, compute, fabric, .. } = facts;
    let named = [product, part, vbios, inforom, compute, fabric];
    size.texts("inventory.gpus.facts", named.into_iter().flatten())?;
    if let Some(cpus) = &mut facts.cpus {
        size.text("inventory.gpus.facts.cpus", cpus, PROCESSORS)?;
    }
    size.list("inventory.gpus.facts.links", facts.links.len(), GPUS)?;
    let peers = facts.links.iter_mut().filter_map(|l| l.peer.as_mut());
    size.texts("inventory.gpus.facts.links", peers)?;
    size.list("inventory.gpus.facts.mig_profiles", facts.mig_profiles.len(), GPUS)?;
    for profile in &mut facts.mig_profiles {
        size.list("inventory.gpus.facts.mig_profiles.starts", profile.starts.len(), GPUS)?;
        size.text("inventory.gpus.facts.mig_profiles", &mut profile.name, NAME)?;
    }
    size.list("inventory.gpus.facts.mig_slices", facts.mig_slices.len(), GPUS)?;
    let slices = facts.mig_slices.iter_mut().flat_map(|s| [&mut s.uuid, &mut s.profile]);
    size.texts("inventory.gpus.facts.mig_slices", slices)
}

/// Bytes that were said so far.
#[derive(Default)]
struct Size(usize);

impl Size {
    fn text(&mut self, what: &str, text: &mut String, most: usize) -> Result<(), String> {
        if text.len() > most {
            return Err(too_much(what, text.len(), "bytes", most));
        }
        bound(text, most);
        // What is written out is longer than what was sent, and it is what stays in the log.
        self.0 += text.len();
        Ok(())
    }

    fn texts<'a>(
        &mut self,
        what: &str,
        texts: impl Iterator<Item = &'a mut String>,
    ) -> Result<(), String> {
        for text in texts {
            self.text(what, text, NAME)?;
        }
        Ok(())
    }

    /// A name that others are looked up by: it is right or it is refused.
    fn name(&mut self, what: &str, name: &str) -> Result<(), String> {
        self.0 += name.len();
        match name {
            n if n.len() > NAME => Err(too_much(what, n.len(), "bytes in a name", NAME)),
            n if n.contains(is_odd) => {
                Err(format!("{what} has a name with control characters: send plain text"))
            }
            _ => Ok(()),
        }
    }

    fn list(&mut self, what: &str, length: usize, most: usize) -> Result<(), String> {
        // Each has numbers of its own besides.
        self.0 += length * 32;
        if length > most {
            return Err(too_much(what, length, "entries", most));
        }
        Ok(())
    }
}

fn too_much(what: &str, has: usize, unit: &str, most: usize) -> String {
    format!(
        "{what} has {has} {unit}, and at most {most} are accepted: check the agent's version and \
         what it reads there"
    )
}
