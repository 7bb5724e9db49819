//! Faults that nodes report: where a fault enters the log.

use crate::Engine;
use crate::lookup::find;
use muster_model::command::{Answer, Refusal};
use muster_model::event::Event;
use muster_model::fault::ObservedFault;
use muster_model::names::NodeName;

/// Faults are written down as the site's catalogue judges them; what follows is judged at once.
pub(crate) fn faults(
    e: &mut Engine,
    node: &NodeName,
    faults: &[ObservedFault],
) -> Result<Answer, Refusal> {
    find(e, node)?;
    for fault in faults {
        let mut fault = e.apply_site_verdicts(node, fault.clone().bounded());
        let project = fault.attempt.and_then(|key| e.state.ran_here(node, key));
        if project.is_none() {
            (fault.attempt, fault.rank) = (None, None);
        }
        let event = Event::FaultSeen { node: node.clone(), fault: Box::new(fault.clone()) };
        e.emit(project.as_ref(), event);
        e.fault_found(node, &fault);
    }
    Ok(Answer::Done)
}
