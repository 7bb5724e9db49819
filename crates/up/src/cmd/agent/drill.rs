//! `muster agent drill`: a real fault on a real GPU, on purpose.

use clap::Args;
use muster_machine::{Order, Spawned, TestOrder};
use muster_model::qualification::Level;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Make a real fault on a GPU of this machine, to see that it is noticed
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster agent drill --xid 31\n  muster run --gpus 1 -- muster agent drill --xid 43\n\n\
31 writes out of bounds, 43 traps: both are what a broken program does. The driver kills the program \
that does it; the GPU continues, and no other program on it is affected."
)]
pub(crate) struct Drill {
    /// Which fault: 31 or 43
    #[arg(long, value_parser = xid)]
    xid: u32,
    /// On which GPU
    #[arg(long, default_value_t = 0, value_name = "INDEX")]
    gpu: u32,
}

fn xid(text: &str) -> Result<u32, String> {
    match text {
        "31" => Ok(31),
        "43" => Ok(43),
        _ => Err("only 31 and 43 can be made without harm".into()),
    }
}

impl Drill {
    pub(crate) fn run(self, _: &Ctx) -> Result<u8, Fail> {
        let child = Spawned::here(TestOrder::of(Level::Quick))
            .map_err(|e| Fail::failed(format!("cannot find this program: {e}")))?;
        let order = Order::Fault { gpu: self.gpu, xid: self.xid };
        let never = AtomicBool::new(false);
        // It always ends badly: that is what it is for. The driver's words are the result.
        match child.execute(&order, Duration::from_secs(60), &never, &mut |_| {}) {
            Ok(()) => Err(Fail::failed("the GPU reported no fault")),
            Err(e) => Err(Fail::failed(e.to_string())),
        }
    }
}
