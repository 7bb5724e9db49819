//! `muster completions`.

use clap::Args;
use muster_terminal::fail::Fail;
use muster_terminal::output;

/// Print shell completions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(muster completions bash)\n  muster completions zsh > ~/.zfunc/_muster\n  \
muster completions fish > ~/.config/fish/completions/muster.fish"
)]
pub(crate) struct Completions {
    /// Which shell
    shell: clap_complete::Shell,
}

impl Completions {
    /// For all that `command` knows.
    pub(crate) fn run(self, command: &mut clap::Command) -> Result<u8, Fail> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, command, "muster", &mut text);
        output::print_bytes(&text)?;
        Ok(0)
    }
}
