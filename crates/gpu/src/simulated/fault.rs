//! What can be made to go wrong with a simulated GPU.

/// Why clocks are lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Throttle {
    /// The power limit in force is far below the usual one.
    PowerCap,
    /// Cooling is weak: under load it gets warm enough to slow itself down.
    Warm,
    /// Cooling failed: under load the hardware has to step in.
    Hot,
    /// The board asserts a slowdown.
    Hardware,
    /// The power supply asserts its brake.
    PowerBrake,
}

/// What can go wrong with a simulated GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimFault {
    /// The driver reports this XID, once.
    Xid(u32),
    /// It falls off the bus, until the node is restarted.
    Lost,
    /// Asking it anything blocks until it is released.
    Hang,
    /// Its clocks are held down.
    Throttle(Throttle),
    /// Single bits flip often, and now and then two at once.
    EccStorm,
    /// Two bits flipped, once: a row waits for a reset to be replaced.
    RemapPending,
    /// A row could not be replaced.
    RemapFailed,
    /// The bus retries often.
    ReplayStorm,
    /// Its links err often.
    LinkErrors,
    /// It never goes faster than so many percent, and does not say why.
    SlowClock(u8),
    /// It computes wrong results and reports nothing.
    WrongResult,
}
