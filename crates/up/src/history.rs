//! Options of a server for the history of metrics.

use clap::{Args, ValueEnum};
use muster_model::units::Bytes;

/// Less holds too little to be worth its files.
const LEAST: Bytes = Bytes::mib(16);

/// Whether metrics are stored for longer than some minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Stored.
    #[default]
    On,
    /// Not stored.
    Off,
}

/// What a server keeps of metrics.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct HistoryArgs {
    /// Keep a history of metrics under DATA_DIR/history: 10 s steps for a day, a minute for 90 days
    #[arg(long, value_enum, default_value = "on", env = "MUSTER_HISTORY", value_name = "ON|OFF")]
    history: Switch,
    /// Bytes of that history; fine steps go first [default: 5GiB, or a tenth of the file system]
    #[arg(long, env = "MUSTER_HISTORY_BYTES", value_name = "BYTES", value_parser = size)]
    history_bytes: Option<Bytes>,
}

fn size(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|_| "write it like 20GiB".to_owned())?;
    if bytes < LEAST {
        return Err(format!("at least {LEAST}; `--history off` keeps none"));
    }
    Ok(bytes)
}

impl HistoryArgs {
    /// Whether it is kept.
    pub(crate) fn is_on(self) -> bool {
        self.history == Switch::On
    }

    /// How large it may be, where somebody said.
    pub(crate) fn bytes(self) -> Option<Bytes> {
        self.history_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_and_one_that_is_too_small_is_refused() {
        assert_eq!(size("20GiB"), Ok(Bytes::gib(20)));
        assert!(size("1MiB").is_err_and(|e| e.contains("16MiB")));
        assert!(size("plenty").is_err_and(|e| e.contains("20GiB")));
    }
}
