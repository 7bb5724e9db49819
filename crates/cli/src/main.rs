//! The `muster` binary: argument parsing and printing.

mod args;
mod brand;
mod cmd;
mod config;
mod ctx;
mod demo;
mod fail;
mod follow;
mod output;
mod pick;
mod traces;
mod up;
mod wire;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Ranks are started through this binary; nothing else may happen before.
    let first = std::env::args_os().nth(1);
    if first.as_ref().is_some_and(|a| a == muster_agent::shim::SHIM_ARG) {
        muster_agent::shim::main();
    }
    // So is work on GPUs, which may crash or hang.
    if first.is_some_and(|a| a == muster_machine::child::ARG) {
        muster_machine::child::main();
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
