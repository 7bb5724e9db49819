//! Which GPUs a command without a server looks at: this machine's, or simulated ones.

use clap::Args;
use muster_gpu::device::{DeviceError, Driver};
use muster_gpu::simulated::{SimFault, Throttle};
use muster_model::units::Span;
use muster_monitor::simulated_gpus::{SimulatedGpus, Spec};
use muster_terminal::fail::Fail;

/// Which GPUs.
#[derive(Debug, Args)]
pub(super) struct Gpus {
    /// Simulated GPUs instead of this machine's
    #[arg(long, value_name = "SKU:N")]
    simulated: Option<Spec>,
    /// Break a simulated GPU: lost, hang, hot, power-brake, ecc, remap-pending, remap-failed,
    /// replays, links or xid-N
    #[arg(long = "break", value_name = "GPU:FAULT", value_parser = broken, requires = "simulated")]
    broken: Vec<(u32, SimFault)>,
}

fn broken(text: &str) -> Result<(u32, SimFault), String> {
    let wrong = || format!("`{text}` is not a GPU and a fault, such as `3:lost`");
    let (gpu, fault) = text.split_once(':').ok_or_else(wrong)?;
    let fault = match fault {
        "lost" => SimFault::Lost,
        "hang" => SimFault::Hang,
        "hot" => SimFault::Throttle(Throttle::Hot),
        "power-brake" => SimFault::Throttle(Throttle::PowerBrake),
        "ecc" => SimFault::EccStorm,
        "remap-pending" => SimFault::RemapPending,
        "remap-failed" => SimFault::RemapFailed,
        "replays" => SimFault::ReplayStorm,
        "links" => SimFault::LinkErrors,
        other => SimFault::Xid(
            other.strip_prefix("xid-").and_then(|n| n.parse().ok()).ok_or_else(wrong)?,
        ),
    };
    Ok((gpu.parse().map_err(|_| wrong())?, fault))
}

/// Where a driver comes from. Simulated GPUs live as long as this.
pub(super) struct OpenedDriver {
    world: Option<SimulatedGpus>,
}

impl Gpus {
    pub(super) fn prepare(&self) -> Result<OpenedDriver, Fail> {
        let Some(spec) = &self.simulated else { return Ok(OpenedDriver { world: None }) };
        let world = SimulatedGpus::start(spec)
            .map_err(|e| Fail::failed(format!("cannot simulate GPUs: {e}")))?;
        for (gpu, fault) in &self.broken {
            world.world().inject(*gpu, *fault);
        }
        if !self.broken.is_empty() {
            // Heat and wear need a while to show.
            world.world().advance(Span::mins(5));
        }
        Ok(OpenedDriver { world: Some(world) })
    }
}

impl OpenedDriver {
    /// Opens the driver; may hang where the driver does.
    pub(super) fn opener(
        &self,
    ) -> impl FnOnce() -> Result<Box<dyn Driver>, DeviceError> + Send + use<> {
        let simulated = self.world.as_ref().map(SimulatedGpus::driver);
        move || simulated.map_or_else(muster_gpu::open, Ok)
    }
}

/// This machine's name, without its domain.
pub(super) fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        assert_eq!(broken("3:lost"), Ok((3, SimFault::Lost)));
        assert_eq!(broken("0:xid-79"), Ok((0, SimFault::Xid(79))));
        for bad in ["lost", "x:lost", "3:", "3:xid-", "3:tired"] {
            assert!(broken(bad).is_err(), "{bad}");
        }
    }
}
