//! `cargo xtask …`

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::{bench, guard, layers, proc, soak, suite, web, words};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Install what the tests need, run all of them, count.
    Test(suite::Options),
    /// Check that dependencies point down, and what others wrote against `deny.toml`.
    Layers,
    /// Count what fixed pieces of work cost, and compare with the baselines.
    Guard(guard::Options),
    /// Run the long version of a test.
    Soak(soak::Options),
    /// Run one benchmark and its peers.
    Bench(bench::Options),
    /// Write the console's description of the API and its types anew, or check and test the console.
    Web(web::Options),
    /// Take pictures of the console's pages.
    Shots(web::Shots),
    /// Find banned words in everything that people read, or list it.
    Words(words::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = proc::stop_everything_on_signals() {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let outcome = match cli.chore {
        XtaskCommand::Test(options) => suite::run(&options),
        XtaskCommand::Layers => layers::run(),
        XtaskCommand::Guard(options) => guard::run(&options),
        XtaskCommand::Soak(options) => soak::run(&options),
        XtaskCommand::Bench(options) => bench::run(&options),
        XtaskCommand::Web(options) => web::run(&options),
        XtaskCommand::Shots(options) => web::shots(&options),
        XtaskCommand::Words(options) => words::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
