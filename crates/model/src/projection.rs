//! What every reader of the log is.

use crate::event::Record;
use crate::ids::Seq;
use crate::units::Time;

/// A reading of the log: a fold that takes records in their order, each once. Whoever drives it
/// brings the records and the time.
pub trait Projection {
    /// Takes the next record in.
    fn apply(&mut self, record: &Record);

    /// The records that were to come next are archived, those up to `behind`: what was read before
    /// lacks its middle, so it begins anew. Says behind which record it reads on, `behind` or a
    /// later one.
    fn begin_anew(&mut self, behind: Seq) -> Seq;

    /// Some records were taken in, or the time has come that it asked for. `at_end`: there are no
    /// more for now. Says when it wants to be woken though the log does not grow.
    fn wake(&mut self, now: Time, at_end: bool) -> Option<Time>;
}
