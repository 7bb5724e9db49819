//! `muster sim …`: scenarios lived by the production engine in a simulated fleet.

pub(crate) mod compare;
pub(crate) mod formatting;
pub(crate) mod grid;
pub(crate) mod live;
pub(crate) mod log;
pub mod pool;
pub(crate) mod progress;
pub(crate) mod replay;
pub mod report;
pub(crate) mod run;
pub(crate) mod sweep;

use clap::{Args, Subcommand};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;

/// Simulate a scenario with the engine that runs real fleets; compare, sweep, replay
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster sim run llama3-54d\n  \
muster sim run site.toml --seed 7 --report week.html\n  \
muster sim compare now.toml new.toml --seeds 20       is the new policy better?\n  \
muster sim sweep site.toml --set fleet.spares=0..32/8  how many spares?\n\n\
A scenario of the library is run by its name; `scenarios/` of the repository has their files to begin from,\n\
docs/simulator.md a small one to copy.")]
pub struct SimCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Replay(replay::ReplayArgs),
    Compare(compare::Compare),
    Sweep(sweep::Sweep),
}

impl SimCmd {
    /// Does what was typed.
    ///
    /// # Errors
    /// What is wrong with the scenario, or kept it from being run.
    pub fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            Verb::Run(c) => c.run(ctx),
            Verb::Replay(c) => c.run(ctx),
            Verb::Compare(c) => c.run(ctx),
            Verb::Sweep(c) => c.run(ctx),
        }
    }
}
