//! What the scheduler decides, as it shows in the log: reserved starts, notices, sizes, reservations,
//! rights and reasons. Each theme has a file of its own.

#[path = "scheduling/cycles.rs"]
mod cycles;
#[path = "scheduling/elastic.rs"]
mod elastic;
#[path = "scheduling/forecasts.rs"]
mod forecasts;
#[path = "scheduling/idle.rs"]
mod idle;
#[path = "scheduling/moves.rs"]
mod moves;
#[path = "scheduling/preemption.rs"]
mod preemption;
#[path = "scheduling/reasons.rs"]
mod reasons;
#[path = "scheduling/reservations.rs"]
mod reservations;
#[path = "scheduling/reserved_starts.rs"]
mod reserved_starts;
#[path = "scheduling/rights.rs"]
mod rights;
#[path = "scheduling/swaps.rs"]
mod swaps;
#[path = "scheduling/windows.rs"]
mod windows;
