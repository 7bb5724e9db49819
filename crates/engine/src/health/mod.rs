//! Findings, incidents, breakers and remediations: what is wrong, what follows, how far it is.
//!
//! A signal becomes a finding, findings with one cause an incident, a finding calls for a remediation,
//! and a remediation takes its steps as the node, people and tests allow. Each arrow is a record.

mod absent;
mod allocation;
mod apply;
mod breakers;
mod causes;
mod decide;
mod decided;
mod drift;
mod due_work;
mod faults;
mod findings;
mod held;
mod history;
mod jobs;
mod lemons;
mod limits;
mod recovery;
mod rehearse;
mod remediations;
mod suspicion;
mod timers;
mod witness;
mod work;

pub use allocation::{AllocationBlocker, NOT_CONNECTED};
pub(crate) use decide::decide;
pub(crate) use faults::faults;
pub(crate) use findings::{of_hardware, of_program};
pub(crate) use recovery::{
    recovery_begins, recovery_explained, recovery_given_up, recovery_of_lost, recovery_placed,
    recovery_released,
};
pub use rehearse::{RehearsedRemediation, RehearsedRemediations, RemediationRehearsal};
pub(crate) use work::Work;
