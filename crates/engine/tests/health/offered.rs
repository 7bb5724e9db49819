//! What is offered for a node is what the commands accept.

use super::*;
use crate::common::gang;
use muster_engine::NodeActionOffer;
use muster_model::command::{Actor, Refusal, Request};
use muster_model::job::JobState;
use muster_model::node::NodeAction;
use muster_model::placement::GpuSet;
use muster_model::qualification::Level;
use muster_model::tenant::Role;
use muster_model::units::Span;
use proptest::prelude::*;

fn offers(w: &TestSite, n: &NodeName) -> Vec<NodeActionOffer> {
    w.engine.state().node_actions(of(w, n), w.now)
}

/// The actions that a node takes now.
fn taken(w: &TestSite, n: &NodeName) -> Vec<NodeAction> {
    let all = offers(w, n).into_iter();
    all.filter(|o| o.refusal.is_none()).map(|o| o.action).collect()
}

fn refused_offer(w: &TestSite, n: &NodeName, action: NodeAction) -> Option<Refusal> {
    offers(w, n).into_iter().find(|o| o.action == action).and_then(|o| o.refusal)
}

fn refusal(w: &TestSite, n: &NodeName, action: NodeAction) -> String {
    refused_offer(w, n, action).map(|r| r.message).unwrap_or_default()
}

fn hint(w: &TestSite, n: &NodeName, action: NodeAction) -> String {
    refused_offer(w, n, action).and_then(|r| r.hint).unwrap_or_default()
}

/// What is sent for an action; `gpu` for those that are about one.
fn command(n: &Node, action: NodeAction, gpu: GpuSet) -> Command {
    let (node, reason) = (n.name.clone(), String::new());
    let excluded = |gpus| Command::ExcludeGpus { node: node.clone(), gpus, reason: "x".into() };
    match action {
        NodeAction::Uncordon => Command::Uncordon { node },
        NodeAction::Cordon => Command::Cordon { node, reason },
        NodeAction::Undrain => Command::Undrain { node },
        NodeAction::Drain => Command::Drain { node, reason, stop: false },
        NodeAction::CancelQualification => Command::CancelQualification { node },
        NodeAction::Qualify => Command::Qualify { node, level: Level::Quick },
        NodeAction::Repaired => Command::Repaired { node, note: "x".into() },
        NodeAction::Return => Command::ReturnUntested { node, reason: "x".into() },
        NodeAction::Exclude => excluded(n.excluded_gpus.or(gpu)),
        NodeAction::Include => excluded(n.excluded_gpus.minus(gpu)),
        NodeAction::Retire => Command::Retire { node },
    }
}

/// Every action on this node: the same as the command says, and with an effect where it is offered.
fn offered_is_accepted(w: &TestSite, n: &NodeName) -> Result<(), TestCaseError> {
    let n = of(w, n);
    for offer in offers(w, &n.name) {
        let action = offer.action;
        let of_gpu = matches!(action, NodeAction::Exclude | NodeAction::Include);
        let gpus = if of_gpu { GpuSet(0xff) } else { GpuSet(1) };
        for gpu in gpus.iter().map(|g| GpuSet(1 << g)) {
            let mut engine = w.engine.clone();
            let before = engine.state().seq;
            let actor = Actor { name: "user:olga".into(), role: Role::Admin, project: None };
            let command = command(n, action, gpu);
            let said =
                engine.handle(&Request { actor, at: w.now, key: None, if_version: None, command });
            let effect = said.is_ok() && engine.state().seq != before;
            let is_offered = match of_gpu {
                true => !offer.gpus.and(gpu).is_empty(),
                false => offer.refusal.is_none(),
            };
            let (stage, why) = (n.stage, &offer.refusal);
            prop_assert_eq!(is_offered, effect, "{:?} {:?} {:?} {:?}", action, stage, why, said);
            // The reason is the one that the command gives.
            if !of_gpu && let Err(refused) = said {
                prop_assert_eq!(why.as_ref(), Some(&refused), "{:?}", action);
            }
        }
        if of_gpu {
            prop_assert_eq!(offer.refusal.is_none(), !offer.gpus.is_empty());
        }
    }
    Ok(())
}

/// One step of a site's life.
fn step(w: &mut TestSite, what: u8, i: usize, value: u64) {
    let n = node(i);
    let gpu = u32::try_from(value % 8).unwrap();
    let jobs = |w: &TestSite, s: JobState| -> Vec<JobId> {
        w.engine.state().jobs.values().filter(|j| j.state == s).map(|j| j.id).collect()
    };
    match what {
        0 => {
            w.submit(gang(1, 4));
        }
        1 => jobs(w, JobState::Starting).into_iter().for_each(|id| w.start(id)),
        2 => jobs(w, JobState::Stopping).into_iter().for_each(|id| w.stopped(id)),
        3 if of(w, &n).stage != Stage::Retired => xid79(w, &n),
        4 if of(w, &n).stage != Stage::Retired => {
            see(w, "ecc-uncorrectable", Entity::Gpu(n, gpu), Severity::Critical);
        }
        5 if of(w, &n).qualifying.is_some() => {
            let outcome = if value.is_multiple_of(2) { Outcome::Passed } else { Outcome::Failed };
            tested(w, &n, outcome);
        }
        6 => {
            let open = acts(w, &n).first().map(|a| a.0);
            if let Some(id) = open {
                w.ok(Command::ActDone { id, ok: value.is_multiple_of(2), message: "m".into() });
            }
        }
        7 => {
            if let Some(r) = remediation(w, &n) {
                let _ = w.send(Command::ApproveRemediation { id: r.id });
            }
        }
        8 if of(w, &n).stage != Stage::Retired => w.lose(&n),
        9 => {
            let can = ["qualify", "reset", "reboot"].map(String::from).into();
            let boot = format!("boot-{}", value % 3);
            let _ = w.send(connected(i, &boot, Inventory { can, ..inventory(8) }, Vec::new()));
        }
        10 | 11 => w.sleep(Span::secs(value)),
        _ => {
            // One that is offered, so that it leads on.
            let all = offers(w, &n).into_iter().filter(|o| o.refusal.is_none());
            let all: Vec<_> =
                all.filter(|o| o.action != NodeAction::Retire || value > 500).collect();
            let Some(o) = all.get(usize::try_from(value).unwrap() % all.len().max(1)) else {
                return;
            };
            let command = command(of(w, &n), o.action, o.gpus.lowest(1));
            w.ok(command);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_offered_for_a_node_is_what_the_commands_accept(
        automatic_too in any::<bool>(),
        steps in proptest::collection::vec((0u8..16, 0usize..3, 0u64..600), 1..40),
    ) {
        let mut w = able(8);
        if automatic_too {
            for action in [Action::Drain, Action::ResetGpu, Action::Reboot, Action::Replace] {
                automatic(&mut w, action);
            }
        }
        for (what, i, value) in steps {
            step(&mut w, what, i, value);
            offered_is_accepted(&w, &node(i))?;
        }
    }
}

#[test]
fn a_node_says_what_it_takes_and_why_not_the_rest() {
    let mut w = able(8);
    let n = node(0);
    let in_service =
        [NodeAction::Cordon, NodeAction::Drain, NodeAction::Qualify, NodeAction::Exclude];
    assert_eq!(taken(&w, &n), in_service);
    assert!(refusal(&w, &n, NodeAction::Retire).contains("drain it first"));
    assert_eq!(refusal(&w, &n, NodeAction::Return), "node n000 is ready");
    w.ok(Command::Cordon { node: n.clone(), reason: "fan".into() });
    assert!(taken(&w, &n).contains(&NodeAction::Uncordon));
    assert_eq!(refusal(&w, &n, NodeAction::Cordon), "node n000 is cordoned already");
    let is_cordoned = "node n000 is cordoned";
    assert_eq!(refusal(&w, &n, NodeAction::Return), is_cordoned, "its operator did it");
    assert!(hint(&w, &n, NodeAction::Return).contains("`muster node uncordon n000`"));
    assert_eq!(refusal(&w, &n, NodeAction::Repaired), format!("{is_cordoned} and not in repair"));
    let retire = refusal(&w, &n, NodeAction::Retire);
    assert_eq!(retire, format!("{is_cordoned}: it is in service; drain it first"));
    // What a remediation took out is not simply undrained.
    let out = node(1);
    xid79(&mut w, &out);
    assert_eq!(stands(&w, &out), (Stage::Quarantined, RemediationStep::Approval));
    let now = taken(&w, &out);
    assert!(now.contains(&NodeAction::Repaired) && now.contains(&NodeAction::Return), "{now:?}");
    let r = remediation(&w, &out).expect("a remediation");
    assert!(w.engine.state().returns_node(&r));
    let id = r.id;
    let why = format!("remediation {id} took node n001 out of service");
    assert_eq!(refusal(&w, &out, NodeAction::Undrain), why);
    let way = hint(&w, &out, NodeAction::Undrain);
    assert!(way.contains("`muster node return n001 --reason WHY`"), "{way}");
    assert!(refusal(&w, &out, NodeAction::Drain).contains("out of service already"));
    // Nothing is done with a node that left the site.
    let gone = node(3);
    w.ok(Command::Drain { node: gone.clone(), reason: String::new(), stop: false });
    assert!(taken(&w, &gone).contains(&NodeAction::Undrain));
    assert!(hint(&w, &gone, NodeAction::Return).contains("`muster node undrain n003`"));
    w.ok(Command::Retire { node: gone.clone() });
    assert!(taken(&w, &gone).is_empty(), "{:?}", offers(&w, &gone));
    assert!(refusal(&w, &gone, NodeAction::Cordon).contains("is retired"));
}

#[test]
fn a_node_that_is_rebooted_is_neither_tested_nor_said_to_be_returnable() {
    let mut w = able(8);
    automatic(&mut w, Action::Reboot);
    let n = node(1);
    xid79(&mut w, &n);
    assert_eq!(stands(&w, &n), (Stage::Repairing, RemediationStep::Acting));
    let why = "node n001 is being rebooted, which cannot be stopped";
    let test = Command::Qualify { node: n.clone(), level: Level::Quick };
    assert_eq!(w.send(test).unwrap_err().message, why);
    for action in [NodeAction::Qualify, NodeAction::Undrain, NodeAction::Return] {
        assert_eq!(refusal(&w, &n, action), why, "{action:?}");
        assert!(!hint(&w, &n, action).contains("node return"), "{action:?}");
    }
    // It is over, and the test that follows it runs.
    w.lose(&n);
    meet(&mut w, 1, "boot-2");
    assert!(refusal(&w, &n, NodeAction::Qualify).contains("is being qualified already"));
    tested(&mut w, &n, Outcome::Passed);
    assert!(taken(&w, &n).contains(&NodeAction::Qualify));
}
