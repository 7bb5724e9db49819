//! Jobs are changed where they stand: nobody who has a copy of the state may see it.

use crate::common::{TestSite, checkpoints, gang, replay};
use muster_model::command::Command;
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::spec::JobSpec;
use muster_model::units::Span;

type Step = (&'static str, fn(&mut TestSite, JobId));

#[test]
fn a_copy_of_the_state_stays_as_it_was_while_a_job_goes_on() {
    let steps: [Step; 8] = [
        ("starts", |w, id| w.start(id)),
        ("is asked for a checkpoint", |w, id| {
            w.ok(Command::AskCheckpoint { job: id });
        }),
        ("writes one", |w, id| {
            w.pass(Span::mins(1));
            w.checkpoint(id, 7);
        }),
        ("may run longer", |w, id| {
            let time_limit = Some(Span::mins(60));
            w.ok(Command::UpdateJob { job: id, priority: None, time_limit });
        }),
        ("writes another", |w, id| w.checkpoint(id, 8)),
        ("loses a node", |w, id| {
            let lost = w.nodes_of(id)[0].clone();
            w.lose(&lost);
        }),
        ("is cancelled", |w, id| {
            w.ok(Command::Cancel { job: id });
        }),
        ("is gone", |w, id| w.stopped(id)),
    ];
    let mut w = TestSite::new(4, 8);
    let spec =
        JobSpec { checkpoint: checkpoints(true), time_limit: Some(Span::mins(30)), ..gang(2, 8) };
    let id = w.submit(spec);
    for (what, step) in steps {
        let copy = w.engine.state().clone();
        let (digest, job) = (copy.digest(), copy.jobs[&id].clone());
        step(&mut w, id);
        assert_ne!(w.engine.state().digest(), digest, "nothing is written when it {what}");
        assert_eq!(copy.digest(), digest, "the copy is another when it {what}");
        assert_eq!(copy.problems(), Vec::<String>::new(), "when it {what}");
        assert!(*job != *w.job(id), "it is the same when it {what}");
    }
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn nodes_whose_orders_change_are_notified_once_and_in_order() {
    let mut w = TestSite::new(4, 8);
    w.engine.take_touched();
    let id = w.gang(3, 8);
    w.start(id);
    w.ok(Command::Cancel { job: id });
    assert_eq!(w.job(id).state, JobState::Stopping);
    let mut nodes = w.nodes_of(id);
    nodes.sort();
    assert_eq!(w.engine.take_touched(), nodes, "placed and stopped");
    assert!(w.engine.take_touched().is_empty());
    w.stopped(id);
    w.engine.discard_touched();
    assert!(w.engine.take_touched().is_empty(), "nobody asks for them");
}
