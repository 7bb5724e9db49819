//! The watch over telemetry and steps (H3, H4, H13).

mod config;

pub use config::WatchConfig;
