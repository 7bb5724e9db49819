//! Tests of the network between two nodes: one listens, the other measures. Each runs on threads
//! of its own, and ends by the clock even when nobody asks for it any more. They are threads like
//! any other: ones that stand back behind the machine's work would measure that work.
//!
//! What measures is a [`Runner`]; [`Tcp`] is built in and needs nothing but a kernel.
//! Collectives between GPUs are measured by the node's qualifier, which brings its own library.

mod dial;
mod listen;
mod sent;
mod socket;
mod stall_watch;
#[cfg(test)]
mod tests;

use muster_link::messages::{FabricMeasurement, FromAgent};
use muster_model::units::Span;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Tests that may go on in this process at once; more are refused.
const AT_ONCE: usize = 64;
/// A node listens for so long at most.
const LISTEN_MAX: Duration = Duration::from_secs(180);
/// A test takes so long at most, and at least.
const LENGTH_MAX: Duration = Duration::from_secs(60);
const LENGTH_MIN: Duration = Duration::from_millis(100);
/// Connections side by side.
const STREAMS_MAX: u32 = 32;

/// Why a path was not measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FabricError {
    #[error("{0} is not an address")]
    Address(String),
    #[error("cannot listen on {0}: {1}")]
    Bind(String, #[source] std::io::Error),
    #[error("{to} does not answer: {source}")]
    Connect {
        to: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the connection broke off: {0}")]
    Broken(#[from] std::io::Error),
    #[error("no packet came back in time")]
    Silent,
    #[error("{AT_ONCE} tests run here already")]
    Busy,
}

/// What is asked of a node that listens.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    /// Only who knows it is answered.
    pub(crate) id: u64,
    /// Addresses to try in turn; then all of the machine.
    pub(crate) bind: Vec<String>,
    /// For so long at most.
    pub(crate) length: Duration,
}

/// What is asked of a node that measures.
#[derive(Debug, Clone)]
pub(crate) struct Dial {
    pub(crate) id: u64,
    pub(crate) to: String,
    pub(crate) from: Option<String>,
    pub(crate) streams: u32,
    /// For the whole test.
    pub(crate) length: Duration,
    /// Not back again.
    pub(crate) one_way: bool,
}

/// A listener that is bound: its port, and what serves it until the test is over.
pub(crate) type Bound = (u16, Box<dyn FnOnce() + Send>);

/// A way to measure the path between two nodes.
pub(crate) trait Runner: Send + Sync {
    /// Binds; nothing is served yet.
    fn listen(&self, order: &Listen) -> Result<Bound, FabricError>;
    /// Measures; called on a thread of its own.
    fn dial(&self, order: &Dial) -> Result<FabricMeasurement, FabricError>;
}

/// Bandwidth, round trips and repeats over TCP.
pub(crate) struct Tcp;

impl Runner for Tcp {
    fn listen(&self, order: &Listen) -> Result<Bound, FabricError> {
        listen::bind(order)
    }

    fn dial(&self, order: &Dial) -> Result<FabricMeasurement, FabricError> {
        dial::measure(order)
    }
}

/// Listens on a thread of its own and reports where.
pub(crate) fn serve(
    id: u64,
    bind: Option<String>,
    own: &str,
    length: Span,
    send: impl Fn(FromAgent) + Send + 'static,
) {
    // An address that was asked for is the only one; our own may be that of a gateway.
    let bind = bind.map_or_else(|| vec![own.to_owned(), String::new()], |b| vec![b]);
    let order = Listen { id, bind, length: length.to_std().min(LISTEN_MAX) };
    background("fabric-listen", move |turn| {
        let bound = match turn {
            Some(_) => Tcp.listen(&order),
            None => Err(FabricError::Busy),
        };
        match bound {
            Ok((port, serve)) => {
                send(FromAgent::FabricReady { id, port, error: None });
                serve();
            }
            Err(e) => send(FromAgent::FabricReady { id, port: 0, error: Some(e.to_string()) }),
        }
    });
}

/// Measures on a thread of its own and reports what came of it.
pub(crate) fn dial(
    id: u64,
    to: String,
    from: Option<String>,
    streams: u32,
    length: Span,
    one_way: bool,
    send: impl Fn(FromAgent) + Send + 'static,
) {
    let length = length.to_std().clamp(LENGTH_MIN, LENGTH_MAX);
    let order = Dial { id, to, from, streams: streams.clamp(1, STREAMS_MAX), length, one_way };
    background("fabric-dial", move |turn| {
        let measured = match turn {
            Some(_) => catch_unwind(AssertUnwindSafe(|| Tcp.dial(&order)))
                .unwrap_or_else(|_| Err(std::io::Error::other("the test itself broke off").into())),
            None => Err(FabricError::Busy),
        };
        let result = measured.unwrap_or_else(|e| FabricMeasurement {
            error: Some(e.to_string()),
            ..FabricMeasurement::default()
        });
        send(FromAgent::FabricDone { id, result });
    });
}

static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// One of the places that tests may take.
struct TestSlotGuard;

impl TestSlotGuard {
    fn take() -> Option<TestSlotGuard> {
        let more = |n: usize| (n < AT_ONCE).then_some(n + 1);
        ACTIVE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| TestSlotGuard)
    }
}

impl Drop for TestSlotGuard {
    fn drop(&mut self) {
        ACTIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// On a thread of its own. Without a thread nothing is said: whoever asked gives up.
fn background(name: &str, work: impl FnOnce(Option<&TestSlotGuard>) + Send + 'static) {
    let turn = TestSlotGuard::take();
    let body = move || work(turn.as_ref());
    if let Err(e) = std::thread::Builder::new().name(name.into()).spawn(body) {
        tracing::warn!(error = %e, "no thread for a test of the network");
    }
}
