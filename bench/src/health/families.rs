//! Which findings are a right answer to what happened. Written from what an operator would call
//! right: the failure itself, or an effect that it must have.

/// Failure modes that name this kind of fault.
pub(super) fn right(kind: &str) -> &'static [&'static str] {
    match kind {
        "gpu-off-bus" => &["gpu-off-bus", "gpu-missing", "gpu-fault"],
        "gpu-vanished" => &["gpu-missing", "gpu-off-bus", "driver-hang"],
        "gpu-needs-reset" => &["gpu-reset-needed", "gpu-fault", "driver-hang"],
        "driver-verdict" => &["gpu-reset-needed", "gpu-fault"],
        "driver-hang" => &["driver-hang", "gpu-reset-needed"],
        "nvlink-fatal" | "nvlink-counters" => &["nvlink-errors", "nvswitch-fault"],
        "nvswitch" => &["nvswitch-fault", "nvlink-errors"],
        "pcie-replay" => &["pcie-replay"],
        "pcie-downgrade" => &["pcie-downgrade", "straggler"],
        "ecc-fatal" | "ecc-counter" => &["ecc-uncorrectable"],
        "ecc-rate" => &["ecc-rate"],
        "remap-pending" => &["row-remap-pending"],
        "remap-failure" => &["row-remap-failure"],
        "thermal" => &["thermal", "clocks-low", "straggler"],
        "power-brake" => &["power-brake", "clocks-low", "straggler"],
        "low-clocks" => &["clocks-low", "straggler"],
        "slow-compute" => &["straggler", "clocks-low"],
        "slow-nic" => &["straggler", "link-slow"],
        "port-down" => &["link-down", "link-flap"],
        "port-flap" => &["link-flap", "link-down", "symbol-errors"],
        "symbol-errors" => &["symbol-errors", "link-flap"],
        "machine-check" => &["host-fault", "gpu-fault"],
        "lockup" | "dstate" => &["kernel-stuck", "host-fault"],
        "disk" => &["disk-fault"],
        "node-loss" => &["node-lost", "agent-hang"],
        "agent-hang" => &["agent-hang", "node-lost"],
        "hang" => &["hang"],
        "storage-stall" => &["storage-stall", "storage-slow"],
        "storage-slow" => &["storage-slow", "storage-stall"],
        "leaf-loss" => &["leaf-loss", "rack-loss"],
        "feed-loss" => &["feed-loss", "rack-loss", "leaf-loss"],
        "lemon" => &["lemon"],
        _ => &[],
    }
}

/// Failure modes that a fault brings with it beside those that name it: not asked for, and not
/// wrong. Work that stands still because a member of it is gone is one of them.
pub(super) fn follows(kind: &str, found: &str) -> bool {
    let stops = matches!(
        kind,
        "gpu-off-bus"
            | "gpu-vanished"
            | "gpu-needs-reset"
            | "driver-verdict"
            | "driver-hang"
            | "nvlink-fatal"
            | "nvswitch"
            | "ecc-fatal"
            | "machine-check"
            | "lockup"
            | "node-loss"
            | "agent-hang"
            | "leaf-loss"
            | "feed-loss"
            | "lemon"
    );
    match found {
        "hang" => stops,
        "node-lost" | "agent-hang" | "link-down" | "rack-loss" | "leaf-loss" | "feed-loss" => {
            matches!(kind, "leaf-loss" | "feed-loss" | "node-loss")
        }
        "failed-qualification" | "lemon" | "hazard" => true,
        _ => false,
    }
}

/// What a job did to itself, or what is only noted: neither right nor wrong about hardware.
pub(super) fn is_noise(found: &str) -> bool {
    matches!(
        found,
        "job-slow"
            | "loader-starved"
            | "app-crash"
            | "app-spray"
            | "app-fault"
            | "crash-loop"
            | "oom"
            | "config-drift"
            | "copied-identity"
    )
}

/// Reported by a line of the kernel's log, so that no row has to come first.
pub(super) fn by_line(kind: &str) -> bool {
    matches!(
        kind,
        "gpu-off-bus"
            | "gpu-needs-reset"
            | "driver-verdict"
            | "driver-hang"
            | "nvlink-fatal"
            | "nvswitch"
            | "ecc-fatal"
            | "machine-check"
            | "lockup"
            | "disk"
    )
}
