//! Everything that looks like a failure and is none, one function a kind.

mod device;
mod host;
mod work;

use crate::fleet::Kind;

/// Name, how often beside the others, and how it begins.
pub(crate) const KINDS: &[Kind] = &[
    ("app-spray", 3, work::spray),
    ("app-crash", 3, work::crash),
    ("xid45-flood", 3, work::flood),
    ("out-of-memory", 3, work::out_of_memory),
    ("power-dips", 3, work::dips),
    ("loader-stall", 3, work::loader),
    ("loader-pause", 3, work::pause),
    ("nvls-off", 2, work::nvls_off),
    ("uneven-experts", 4, work::uneven),
    ("job-slower", 3, work::slower),
    ("checkpoint-pause", 3, work::checkpoint),
    ("job-ends", 3, work::ends),
    ("few-correctable", 3, device::few_correctable),
    ("few-replays", 3, device::few_replays),
    ("power-cap", 4, device::power_cap),
    ("power-cap-job", 3, device::power_cap_job),
    ("bus-rests", 3, device::bus_rests),
    ("app-xid-idle", 2, device::notices),
    ("few-symbols", 4, host::few_symbols),
    ("clock-skew", 3, host::skew),
    ("late-rows", 3, host::late),
    ("warm-rack", 3, host::warm_rack),
    ("agent-restart", 3, host::reconnect),
    ("busy-storage", 2, host::busy_storage),
];
