//! Classes, actions and attribution for people.

use super::catalogue::FaultAttribution;
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
pub fn attribution_words(attribution: FaultAttribution) -> &'static str {
    match attribution {
        FaultAttribution::Job => "the job",
        FaultAttribution::Platform => "the platform, not the job",
        FaultAttribution::Unclear => "not clear from this alone",
        FaultAttribution::Nobody => "nobody",
    }
}
