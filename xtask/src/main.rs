//! `cargo xtask …`

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::{bench, layers, proc, soak, suite};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need, run all of them, count.
    Test(suite::Options),
    /// Check that pure crates stay pure and that dependencies point down.
    Layers,
    /// Run the long version of a test.
    Soak(soak::Options),
    /// Run one benchmark beside its peers.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = proc::stop_everything_on_signals() {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let outcome = match cli.chore {
        Chore::Test(options) => suite::run(&options),
        Chore::Layers => layers::run(),
        Chore::Soak(options) => soak::run(&options),
        Chore::Bench(options) => bench::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
