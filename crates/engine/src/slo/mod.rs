//! Service level objectives, how much of their budgets is left, and who has to be alerted.
//!
//! Counting is part of applying records, so it is the same for whoever reads the log. Alerts are
//! decided when something changed that they follow from, and when time alone may change them.

mod affected;
mod apply;
mod conditions;
mod decide;
mod evaluate;
mod under;
mod watch;

pub(crate) use decide::decide;
pub(crate) use watch::Watch;
