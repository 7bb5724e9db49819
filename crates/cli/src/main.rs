//! The `muster` binary: argument parsing and printing.

mod args;
mod cmd;
mod config;
mod ctx;
mod fail;
mod follow;
mod output;
mod pick;
mod up;
mod wire;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Ranks are started through this binary; nothing else may happen before.
    if std::env::args_os().nth(1).is_some_and(|a| a == "__shim") {
        shim();
    }
    let cli = args::Cli::parse();
    let terminal = output::is_terminal_err();
    match cmd::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(fail) => {
            eprint!("{}", fail.render(terminal));
            ExitCode::from(fail.code)
        }
    }
}

fn shim() -> ! {
    muster_agent::shim::main()
}
