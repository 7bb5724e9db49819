//! From what was typed to the verb that does it.

use crate::args::{Cli, Command};
use crate::unknown_project;
use clap::CommandFactory;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;

/// Carries the command out; the exit code is the answer.
pub(crate) fn run(cli: Cli) -> Result<u8, Fail> {
    let Cli { global, command } = cli;
    let ctx = Ctx::new(global);
    match command {
        Command::Completions(c) => c.run(&mut Cli::command()),
        Command::Export(c) => c.run(),
        // A store blocks, and must not be driven from an async task.
        Command::Store(c) => {
            asking()?.block_on(c.warn_of_another_site(&ctx));
            c.run(&ctx)
        }
        Command::Sim(c) => c.run(&ctx),
        Command::Up(c) => muster_up::up(c, &ctx),
        Command::Server(c) => muster_up::server(c, &ctx),
        Command::Agent(c) => muster_up::agent(c, &ctx),
        Command::Fleet => muster_up::fleet(),
        other => asking()?.block_on(client_command(&ctx, other)),
    }
}

async fn client_command(ctx: &Ctx, command: Command) -> Result<u8, Fail> {
    unknown_project::check(ctx, &command).await?;
    match command {
        Command::Run(c) => c.run(ctx).await,
        Command::Submit(c) => c.run(ctx).await,
        Command::Ps(c) => c.run(ctx).await,
        Command::Top(c) => c.run(ctx).await,
        Command::Get(c) => c.run(ctx).await,
        Command::Describe(c) => c.run(ctx).await,
        Command::Logs(c) => c.run(ctx).await,
        Command::Cancel(c) => c.run(ctx).await,
        Command::Hold(c) => c.run(ctx).await,
        Command::Release(c) => c.run(ctx).await,
        Command::Requeue(c) => c.run(ctx).await,
        Command::Checkpoint(c) => c.run(ctx).await,
        Command::Wait(c) => c.run(ctx).await,
        Command::Explain(c) => c.run(ctx).await,
        Command::Report(c) => c.run(ctx).await,
        Command::Update(c) => c.run(ctx).await,
        Command::Whatif(c) => c.run(ctx).await,
        Command::Quota(c) => c.run(ctx).await,
        Command::Policy(c) => c.run(ctx).await,
        Command::Reservation(c) => c.run(ctx).await,
        Command::Defrag(c) => c.run(ctx).await,
        Command::Nodes(c) => c.run(ctx).await,
        Command::Node(c) => c.run(ctx).await,
        Command::Topology(c) => c.run(ctx).await,
        Command::Events(c) => c.run(ctx).await,
        Command::Search(c) => c.run(ctx).await,
        Command::Fabric(c) => c.run(ctx).await,
        Command::Faults(c) => c.run(ctx).await,
        Command::Health(c) => c.run(ctx).await,
        Command::Findings(c) => c.run(ctx).await,
        Command::Incident(c) => c.run(ctx).await,
        Command::Remediations(c) => c.run(ctx).await,
        Command::Runbook(c) => c.run(ctx).await,
        Command::Breakers(c) => c.run(ctx).await,
        Command::Automation(c) => c.run(ctx).await,
        Command::Readiness(c) => c.run(ctx).await,
        Command::Slo(c) => c.run(ctx).await,
        Command::Alerts(c) => c.run(ctx).await,
        Command::Silence(c) => c.run(ctx).await,
        Command::Routing(c) => c.run(ctx).await,
        Command::FailureModes(c) => c.run(ctx).await,
        Command::Gameday(c) => c.run(ctx).await,
        Command::Token(c) => c.run(ctx).await,
        Command::Secret(c) => c.run(ctx).await,
        Command::Project(c) => c.run(ctx).await,
        Command::Power(c) => c.run(ctx).await,
        Command::History(c) => c.run(ctx).await,
        Command::Whoami(c) => c.run(ctx).await,
        Command::Doctor(c) => c.run(ctx).await,
        Command::Up(_)
        | Command::Server(_)
        | Command::Agent(_)
        | Command::Store(_)
        | Command::Sim(_)
        | Command::Completions(_)
        | Command::Export(_)
        | Command::Fleet => unreachable!("handled before a client is needed"),
    }
}

/// One thread is enough to ask, and starts soonest.
fn asking() -> Result<tokio::runtime::Runtime, Fail> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Fail::failed(format!("cannot start: {e}")))
}
