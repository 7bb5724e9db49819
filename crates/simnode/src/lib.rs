//! One pure model of a simulated node: devices, telemetry, simulated work, faults.
