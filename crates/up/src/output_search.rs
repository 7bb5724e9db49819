//! Options of a server for the search over job output.

use clap::{Args, ValueEnum};
use muster_model::units::Bytes;
use muster_server::output_search::{LEAST_BYTES, OutputSearchSwitch};

/// Whether job output is indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Where the file system of the data directory has at least 20 GiB.
    #[default]
    Auto,
    /// Indexed.
    On,
    /// Not indexed.
    Off,
}

/// What a server indexes of job output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct OutputSearchArgs {
    /// Index job output under DATA_DIR/output-index for `muster search --logs`; auto: where that file system has 20GiB or more
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "MUSTER_OUTPUT_SEARCH",
        value_name = "AUTO|ON|OFF"
    )]
    output_search: Choice,
    /// Bytes of that index; the oldest lines leave it first [default: 5GiB, or a twentieth of the file system]
    #[arg(long, env = "MUSTER_OUTPUT_SEARCH_BYTES", value_name = "BYTES", value_parser = size)]
    output_search_bytes: Option<Bytes>,
}

fn size(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|_| "write it like 20GiB".to_owned())?;
    if bytes < LEAST_BYTES {
        return Err(format!("at least {LEAST_BYTES}; `--output-search off` keeps none"));
    }
    Ok(bytes)
}

impl OutputSearchArgs {
    /// Whether it is indexed.
    pub(crate) fn switch(self) -> OutputSearchSwitch {
        match self.output_search {
            Choice::Auto => OutputSearchSwitch::Auto,
            Choice::On => OutputSearchSwitch::On,
            Choice::Off => OutputSearchSwitch::Off,
        }
    }

    /// How large the index may be, where somebody said.
    pub(crate) fn bytes(self) -> Option<Bytes> {
        self.output_search_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_and_one_that_is_too_small_is_refused() {
        assert_eq!(size("2GiB"), Ok(Bytes::gib(2)));
        assert!(size("1MiB").is_err_and(|e| e.contains("16MiB")));
        assert!(size("plenty").is_err_and(|e| e.contains("20GiB")));
    }
}
