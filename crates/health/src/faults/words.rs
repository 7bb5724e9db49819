//! Classes, actions and blame for people.

use super::catalogue::Blame;
use muster_model::fault::{FaultAction, FaultClass};

/// What is at fault, for people.
#[must_use]
pub fn class_words(class: FaultClass) -> &'static str {
    match class {
        FaultClass::Application => "the job",
        FaultClass::Driver => "driver or firmware",
        FaultClass::Gpu => "the GPU",
        FaultClass::Memory => "the GPU's memory",
        FaultClass::Link => "a link between GPUs",
        FaultClass::Bus => "PCIe",
        FaultClass::Thermal => "heat",
        FaultClass::Power => "power",
        FaultClass::Network => "the network",
        FaultClass::Host => "the host",
        FaultClass::Storage => "disks or file systems",
        FaultClass::Notice => "nothing: a notice",
        FaultClass::Unknown => "not known",
    }
}

/// What is to be done, for people.
#[must_use]
pub fn action_words(action: FaultAction) -> &'static str {
    match action {
        FaultAction::None => "nothing",
        FaultAction::Watch => "watch it",
        FaultAction::RestartJob => "restart or fix the job",
        FaultAction::ResetWhenIdle => "drain, then reset the GPU",
        FaultAction::ResetGpu => "reset the GPU",
        FaultAction::Reboot => "restart the node",
        FaultAction::Inspect => "inspect the hardware",
        FaultAction::Replace => "replace the part",
    }
}

/// Whose fault, for people.
#[must_use]
pub fn blame_words(blame: Blame) -> &'static str {
    match blame {
        Blame::Job => "the job",
        Blame::Platform => "the platform, not the job",
        Blame::Unclear => "not clear from this alone",
        Blame::Nobody => "nobody",
    }
}
