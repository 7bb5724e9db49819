//! Every threshold, with where it comes from.
//!
//! Sources: "DCGM" is NVIDIA's data centre GPU manager (health watches of 4.6); "`NVSentinel`" its
//! monitors' defaults; "gpud" Lepton's agent; "EROICA", "Minder", "Greyhound", "Holmes" and
//! "OSDI'25" the papers on stragglers of those names; "IBTA" the `InfiniBand` specification.

use muster_model::units::Span;

/// Thresholds of the watch. The defaults are for H100-class fleets with a row every 1 to 10 s.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchConfig {
    /// A GPU is busy from this percentage of use. Half: below it, clocks and heat say little.
    pub busy_util: f64,
    /// Or from this share of active multiprocessors.
    pub busy_sm: f64,

    /// Correctable errors a second that are too many in any case. 10 (DCGM's limit).
    pub sbe_rate: f64,
    /// Correctable errors within ten minutes that are too many beside quiet peers. 60: one bad
    /// cell that is read all the time; a stray error or two never get there.
    pub sbe_window: f64,
    /// So many times the peers' median. 20.
    pub sbe_peers: f64,

    /// Replays a minute and lane, by generation from the third on (a bit error rate of 1e-12;
    /// DCGM).
    pub replay_lane: [f64; 4],
    /// So many times the limit are more than a warning. 10.
    pub replay_worse: f64,

    /// Errors of links between GPUs a second that are fatal. 100 (DCGM's limit for CRC errors).
    pub nvlink_fatal: f64,
    /// And that make work slower, beside peers. 1.
    pub nvlink_rate: f64,

    /// Errors of links within ten minutes that are many beside quiet peers. 60: one every ten
    /// seconds; a link that trains again after a reset makes one burst.
    pub nvlink_window: f64,

    /// Degrees of margin below which a GPU is about to slow down. 2 (`NVSentinel`: 2 on H100).
    pub margin: f64,
    /// Degrees hotter than its peers at similar power. 6: seats of one board differ by 3 to 5.
    pub hotter: f64,
    /// How long a throttle reason has to last. 30 s (gpud wants 0.6 a minute over ten minutes).
    pub throttle_for: Span,
    /// Degrees above its own past at similar power. 10.
    pub warmer_than_past: f64,

    /// How far clocks are below the peers' median. 0.10 (Greyhound accepts shifts of 10%).
    pub clocks_share: f64,
    /// How long clocks or a bus have to be so under load. 60 s.
    pub load_for: Span,
    /// Median deviations that are no chance. 5 (EROICA).
    pub deviations: f64,

    /// Rows without any figure before a GPU is missing. 3 (`NVSentinel`: 3 looks).
    pub missing_rows: u16,
    /// Rows in which a port is down. 3 (`NVSentinel`: 3 looks).
    pub down_rows: u16,
    /// Times down within an hour. 3 (gpud, `NVSentinel`).
    pub flaps: u32,
    /// Symbol errors within an hour. 120 (IBTA: a bit error rate of 1e-12).
    pub symbols_hour: f64,
    /// Symbol errors a second. 10 (`NVSentinel`).
    pub symbols_sec: f64,
    /// Recoveries of a link a minute. 5 (`NVSentinel`).
    pub recoveries_min: f64,
    /// Receive errors a second. 10 (`NVSentinel`).
    pub receive_sec: f64,

    /// How long processes hang in the kernel. 90 s on top of the 30 s that make one count.
    pub stuck_for: Span,
    /// An agent that is heard and reports no rows. 30 s, and six times its usual pause.
    pub silent_for: Span,

    /// A probe of a file system that waits so long. 30 s.
    pub stall_after: Span,
    /// Times its own past at which a file system is slow. 4.
    pub slow_times: f64,
    /// And at least this latency, in milliseconds. 50.
    pub slow_ms: f64,
    /// For how long. 60 s.
    pub slow_for: Span,

    /// Ranks slower by less are noise. 0.07 (Holmes: under 4% is noise; Greyhound: 10%).
    pub slow_share: f64,
    /// Slower since the first step by less may be the program's design. 0.15.
    pub slow_from_start: f64,
    /// One window of steps. 20 s.
    pub step_window: Span,
    /// Windows in a row, so 60 s with the default window (Minder wants 4 min of 8 s windows).
    pub step_windows: u16,
    /// From this share of slow ranks on it is the job (OSDI'25: it mostly is). 0.5.
    pub job_share: f64,
    /// A job is slow beyond this over its own past. 0.10 (Greyhound).
    pub job_slow: f64,
    /// The share of reading in a step from which a job starves. 0.30.
    pub read_share: f64,

    /// No progress for at least so long. 60 s.
    pub hang_floor: Span,
    /// And for so many of the job's usual steps. 20.
    pub hang_steps: f64,
    /// The same when GPUs are idle and not spinning: a checkpoint looks like that. 5 min.
    pub hang_idle_floor: Span,
    /// Power below this share of the usual, with GPUs in use, is waiting. 0.45.
    pub hang_power: f64,

    /// Chance of a failure within a month, in thousandths, from which large gangs keep away.
    /// 150: sixteen times that of a healthy GPU by the model's own base rate.
    pub hazard_permille: u32,

    /// How long something has to be good before it is over. 60 s.
    pub over_after: Span,
    /// Nodes that are remembered; more are not watched.
    pub nodes_max: usize,
    /// Ranks that are remembered; more are not watched.
    pub ranks_max: usize,
}

impl Default for WatchConfig {
    fn default() -> WatchConfig {
        WatchConfig {
            busy_util: 50.0,
            busy_sm: 0.3,
            sbe_rate: 10.0,
            sbe_window: 60.0,
            sbe_peers: 20.0,
            replay_lane: [0.48, 0.96, 1.92, 3.84],
            replay_worse: 10.0,
            nvlink_fatal: 100.0,
            nvlink_rate: 1.0,
            nvlink_window: 60.0,
            margin: 2.0,
            hotter: 6.0,
            throttle_for: Span::secs(30),
            warmer_than_past: 10.0,
            clocks_share: 0.10,
            load_for: Span::secs(60),
            deviations: 5.0,
            missing_rows: 3,
            down_rows: 3,
            flaps: 3,
            symbols_hour: 120.0,
            symbols_sec: 10.0,
            recoveries_min: 5.0,
            receive_sec: 10.0,
            stuck_for: Span::secs(90),
            silent_for: Span::secs(30),
            stall_after: Span::secs(30),
            slow_times: 4.0,
            slow_ms: 50.0,
            slow_for: Span::secs(60),
            slow_share: 0.07,
            slow_from_start: 0.15,
            step_window: Span::secs(20),
            step_windows: 3,
            job_share: 0.5,
            job_slow: 0.10,
            read_share: 0.30,
            hang_floor: Span::secs(60),
            hang_steps: 20.0,
            hang_idle_floor: Span::mins(5),
            hang_power: 0.45,
            hazard_permille: 150,
            over_after: Span::secs(60),
            nodes_max: 65_536,
            ranks_max: 262_144,
        }
    }
}

/// Milliseconds of a span, for sums with times.
pub(crate) fn ms(span: Span) -> i64 {
    i64::try_from(span.0).unwrap_or(i64::MAX)
}
