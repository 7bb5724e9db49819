//! What every verb of the CLI has at hand: flags and settings, a client, printing, errors.

pub mod args;
pub mod clean;
pub mod config;
pub mod ctx;
pub mod fail;
pub mod follow;
pub mod jobs;
pub mod output;
pub mod pick;

/// Set for a cluster that must not outlive whoever started it: a drill's.
pub const ENDS_WITH_PARENT: &str = "MUSTER_ENDS_WITH_PARENT";

/// Waits for Ctrl-C or SIGTERM.
pub async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
