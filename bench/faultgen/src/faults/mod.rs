//! Everything that really fails, one function a kind. Sizes, speeds and victims are drawn anew
//! each time; nothing here knows how anybody looks for it.

mod device;
mod group;
mod host;
mod memory;
mod network;
mod slow;

use crate::fleet::Kind;

/// Name, how often beside the others, and how it begins. What comes never is only done when it
/// is asked for by name: it has a life of its own, with nothing else that could be mistaken for it.
pub(crate) const KINDS: &[Kind] = &[
    ("gpu-off-bus", 3, device::off_bus),
    ("gpu-vanished", 3, device::vanished),
    ("gpu-needs-reset", 3, device::needs_reset),
    ("driver-verdict", 3, device::verdict),
    ("driver-hang", 3, device::driver_hang),
    ("nvlink-fatal", 3, device::nvlink_fatal),
    ("nvlink-counters", 3, device::nvlink_counters),
    ("nvswitch", 2, device::nvswitch),
    ("pcie-replay", 3, device::replay),
    ("pcie-downgrade", 3, device::downgrade),
    ("ecc-fatal", 4, memory::fatal),
    ("ecc-counter", 3, memory::counter),
    ("ecc-rate", 3, memory::rate),
    ("remap-pending", 3, memory::remap_pending),
    ("remap-failure", 3, memory::remap_failure),
    ("thermal", 4, slow::thermal),
    ("power-brake", 3, slow::power_brake),
    ("low-clocks", 4, slow::low_clocks),
    ("slow-compute", 6, slow::slow_compute),
    ("slow-nic", 3, slow::slow_nic),
    ("port-down", 3, network::port_down),
    ("port-flap", 3, network::port_flap),
    ("symbol-errors", 3, network::symbols),
    ("machine-check", 3, host::machine_check),
    ("lockup", 3, host::lockup),
    ("dstate", 3, host::dstate),
    ("disk", 2, host::disk),
    ("node-loss", 3, host::node_loss),
    ("agent-hang", 3, host::agent_hang),
    ("hang", 5, host::hang),
    ("storage-stall", 2, group::storage_stall),
    ("storage-slow", 2, group::storage_slow),
    ("lemon", 1, host::lemon),
    ("leaf-loss", 0, group::leaf_loss),
    ("feed-loss", 0, group::feed_loss),
];
