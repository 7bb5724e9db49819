//! Names of failure modes: the ones that the code itself speaks of.

use std::fmt;

/// A way of failing that this version knows, by its stable code. What is known of it is in the one
/// map of failure modes. Logs hold the code alone: those of other versions may name others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureMode(&'static str);

macro_rules! modes {
    ($($name:ident $code:literal;)*) => {
        impl FailureMode {
            $(
                #[doc = concat!("`", $code, "`")]
                pub const $name: FailureMode = FailureMode($code);
            )*

            /// All of them, in the order of the map.
            pub const ALL: &'static [FailureMode] = &[$(FailureMode::$name),*];
        }
    };
}

modes! {
    GPU_OFF_BUS "gpu-off-bus";
    GPU_MISSING "gpu-missing";
    GPU_RESET_NEEDED "gpu-reset-needed";
    GPU_FAULT "gpu-fault";
    DRIVER_HANG "driver-hang";
    ECC_UNCORRECTABLE "ecc-uncorrectable";
    ECC_RATE "ecc-rate";
    ROW_REMAP_PENDING "row-remap-pending";
    ROW_REMAP_FAILURE "row-remap-failure";
    PCIE_REPLAY "pcie-replay";
    PCIE_DOWNGRADE "pcie-downgrade";
    NVLINK_ERRORS "nvlink-errors";
    NVSWITCH_FAULT "nvswitch-fault";
    THERMAL "thermal";
    POWER_BRAKE "power-brake";
    CLOCKS_LOW "clocks-low";
    NIC_MISSING "nic-missing";
    LINK_DOWN "link-down";
    LINK_FLAP "link-flap";
    SYMBOL_ERRORS "symbol-errors";
    LINK_SLOW "link-slow";
    NODE_LOST "node-lost";
    AGENT_HANG "agent-hang";
    HOST_FAULT "host-fault";
    KERNEL_STUCK "kernel-stuck";
    DISK_FAULT "disk-fault";
    LEAF_LOSS "leaf-loss";
    RACK_LOSS "rack-loss";
    FEED_LOSS "feed-loss";
    BAD_VERSION "bad-version";
    STORAGE_STALL "storage-stall";
    STORAGE_SLOW "storage-slow";
    STRAGGLER "straggler";
    JOB_SLOW "job-slow";
    LOADER_STARVED "loader-starved";
    HANG "hang";
    APP_CRASH "app-crash";
    APP_SPRAY "app-spray";
    APP_FAULT "app-fault";
    CRASH_LOOP "crash-loop";
    NODE_KILLER "node-killer";
    OOM "oom";
    LEMON "lemon";
    HAZARD "hazard";
    FAILED_QUALIFICATION "failed-qualification";
    WRONG_RESULTS "wrong-results";
    CONFIG_DRIFT "config-drift";
    COPIED_IDENTITY "copied-identity";
    DETECTOR_STORM "detector-storm";
}

impl FailureMode {
    /// The code that logs, policies and people know it by.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.0
    }

    /// Is a code one of these?
    #[must_use]
    pub fn is_one_of(code: &str, modes: &[FailureMode]) -> bool {
        modes.iter().any(|m| m.0 == code)
    }
}

impl fmt::Display for FailureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl PartialEq<FailureMode> for &str {
    fn eq(&self, other: &FailureMode) -> bool {
        *self == other.0
    }
}

impl PartialEq<FailureMode> for String {
    fn eq(&self, other: &FailureMode) -> bool {
        self.as_str() == other.0
    }
}
