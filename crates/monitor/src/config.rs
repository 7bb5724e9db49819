//! How the monitor works.

use crate::clock::{self, Steady, Wall};
use crate::faults::{FaultSignal, Verdicts};
use crate::kmsg::{FaultParser, KernelLog, OwnerOf};
use muster_health::faults::{Catalogue, Context, Reader};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Devices are never asked more often than this, nor more rarely than [`SLOWEST`].
pub const FASTEST: Duration = Duration::from_millis(100);
/// See [`FASTEST`].
pub const SLOWEST: Duration = Duration::from_secs(10);

/// How the monitor works.
pub struct Config {
    /// Devices are asked this often.
    pub every: Duration,
    /// Samples are kept this long.
    pub keep: Duration,
    /// A row for the server sums up this much.
    pub row_every: Duration,
    /// A call into the driver that takes longer has hung.
    pub hang_after: Duration,
    /// A device that was lost is asked again after so long.
    pub retry_lost: Duration,
    /// The host is looked at this often.
    pub host_every: Duration,
    /// Where `/proc` and `/sys` are; `/` but in tests.
    pub root: PathBuf,
    /// Directories that must not fill up: the agent writes there.
    pub dirs: Vec<PathBuf>,
    /// Directories on file systems that are probed.
    pub probe: Vec<PathBuf>,
    /// Where the kernel's log is read.
    pub kernel_log: KernelLog,
    /// What reads faults from it.
    pub parser: Box<dyn FaultParser>,
    /// How the site judges what the agent finds by its own looking.
    pub verdicts: Verdicts,
    /// Whose process it is.
    pub owner_of: OwnerOf,
    /// Called when there is a fault to take.
    pub wakeup: FaultSignal,
    /// The wall's clock.
    pub wall: Wall,
    /// The clock by which calls hang and samples grow old.
    pub steady: Steady,
}

impl Config {
    /// The usual pace and the usual reader of the kernel's log, judging by this catalogue.
    #[must_use]
    pub fn reading(catalogue: Arc<Catalogue>, context: Context) -> Config {
        let (sku, pool) = (context.sku.clone(), context.pool.clone());
        let rules = catalogue.clone();
        let mut config = Config::new(Box::new(Reader::new(catalogue, context)));
        config.verdicts = Arc::new(move |code| {
            let rule = rules.evaluate(rules.code(code)?, &sku, &pool);
            Some((rule.class, rule.action))
        });
        config
    }

    /// The usual pace, with this parser.
    #[must_use]
    pub fn new(parser: Box<dyn FaultParser>) -> Config {
        Config {
            every: Duration::from_secs(1),
            keep: Duration::from_secs(120),
            row_every: Duration::from_secs(10),
            hang_after: Duration::from_secs(5),
            retry_lost: Duration::from_secs(30),
            host_every: Duration::from_secs(10),
            root: "/".into(),
            dirs: Vec::new(),
            probe: Vec::new(),
            kernel_log: KernelLog::Auto,
            parser,
            verdicts: Arc::new(|_| None),
            owner_of: Arc::new(|_| None),
            wakeup: Arc::new(|| {}),
            wall: clock::system(),
            steady: Steady::start(),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("every", &self.every)
            .field("keep", &self.keep)
            .field("kernel_log", &self.kernel_log)
            .finish_non_exhaustive()
    }
}
