//! The parts of a cluster on this machine: `muster up`, `server` and `agent`.

mod assemble;
mod brand;
mod cmd;
mod demo;
mod history;
mod options;
mod outbound;
mod output_search;
mod restarts;
mod traces;
mod up;

pub use cmd::agent::Agent;
pub use cmd::server::Server;
pub use cmd::up::Up;

use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use traces::Traces;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Runs a whole cluster until it is stopped.
///
/// # Errors
/// What kept it from starting, or ended it.
pub fn up(command: Up, ctx: &Ctx) -> Result<u8, Fail> {
    traced("warn", command.ways.traces.open()?, |t| command.run(ctx, t))
}

/// Runs a server until it is stopped.
///
/// # Errors
/// What kept it from starting, or ended it.
pub fn server(command: Server, ctx: &Ctx) -> Result<u8, Fail> {
    traced("info", command.ways.traces.open()?, |t| command.run(ctx, t))
}

/// Runs this machine's agent, or what else was asked of it.
///
/// # Errors
/// What kept it from starting, or ended it.
pub fn agent(command: Agent, ctx: &Ctx) -> Result<u8, Fail> {
    serving("info")?.block_on(command.run(ctx))
}

/// Runs the simulated nodes and this machine's agent for a cluster that `up` started.
///
/// # Errors
/// What kept it from starting, or ended it.
pub fn fleet() -> Result<u8, Fail> {
    serving("warn")?.block_on(up::fleet())
}

/// Serves, with spans sent to a collector if somebody wants that.
fn traced<F: Future<Output = Result<u8, Fail>>>(
    level: &str,
    traces: Option<Arc<Traces>>,
    serve: impl FnOnce(Option<Arc<Traces>>) -> F,
) -> Result<u8, Fail> {
    let Some(traces) = traces else { return serving(level)?.block_on(serve(None)) };
    let _ = tracing_subscriber::registry().with(lines(level)).with(traces.layer()).try_init();
    let ended = runtime()?.block_on(serve(Some(Arc::clone(&traces))));
    traces.stop();
    ended
}

/// The log on stderr.
fn lines<S>(level: &str) -> impl tracing_subscriber::Layer<S> + use<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer()
        .with_ansi(muster_terminal::output::is_terminal_err())
        .with_writer(std::io::stderr)
        .with_filter(filter(level))
}

/// What is logged on stderr. Spans for collectors are not, and cost nothing where there is none.
fn filter(level: &str) -> Targets {
    let wanted = std::env::var("MUSTER_LOG").ok().and_then(|text| text.parse().ok());
    let filter: Targets = wanted.unwrap_or_else(|| level.parse().unwrap_or_default());
    filter.with_target(muster_server::trace::TARGET, LevelFilter::OFF)
}

/// `level` is what is logged unless `MUSTER_LOG` says otherwise: `up` is for somebody who looks at
/// the terminal, a server's log is for a file.
fn serving(level: &str) -> Result<tokio::runtime::Runtime, Fail> {
    let _ = tracing_subscriber::registry().with(lines(level)).try_init();
    runtime()
}

/// Its threads say by their names which of them run tasks and which do what blocks: the runtime
/// starts all of the first kind before any of the second.
fn runtime() -> Result<tokio::runtime::Runtime, Fail> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let started = AtomicUsize::new(0);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name_fn(move || {
            let blocks = started.fetch_add(1, Ordering::Relaxed) >= workers;
            String::from(if blocks { "blocking" } else { "worker" })
        })
        .enable_all()
        .build()
        .map_err(|e| Fail::failed(format!("cannot start: {e}")))
}
