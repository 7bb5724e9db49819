//! Service level objectives, how much of their budgets is left, and who has to be alerted. Pure.
//!
//! * [`ledger`] counts good and all by indicator and time; [`sli_counter`] fills it from the log.
//! * [`recoveries`] says which recoveries are counted as they end, each once.
//! * [`budget`] and [`burn`] are the arithmetic: exact fractions until something is printed.
//! * [`defaults`] are the objectives that come with Muster; [`rules`] prints any set of objectives
//!   as rules of Prometheus.
//! * [`causes`] puts alerts, findings and remediations together that have one cause.
//! * [`conditions`] says what is so now, [`decide`] turns it into alerts, and
//!   [`notifications`] knows who has
//!   been notified and what is owed; [`words`] are what each kind of receiver reads.

#![forbid(unsafe_code)]

pub mod budget;
pub mod burn;
pub mod causes;
pub mod conditions;
mod count;
pub mod decide;
pub mod defaults;
pub mod fleet;
mod group;
pub mod ledger;
mod meter;
mod minutes;
pub mod notifications;
pub mod ratio;
pub mod readiness;
pub mod recoveries;
pub mod rules;
pub mod service;
pub mod sli_counter;
pub mod words;

pub use budget::{Status, status};
pub use decide::{Change, decide};
pub use group::ParentsOf;
pub use ledger::{Count, Ledger, Series, TimeRange};
pub use notifications::{Notification, NotificationState};
pub use ratio::Ratio;
pub use sli_counter::{Facts, SliCounter};
