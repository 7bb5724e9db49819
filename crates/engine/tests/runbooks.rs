//! Runs of runbooks: by a person, by the machine, with whose permissions, and over a restart.

use crate::common;

use common::{TestSite, node, replay};
use muster_engine::{Engine, Policy, State, current_step, rehearse};
use muster_model::command::{Actor, Answer, Command, Refusal, RefusalCode, Request};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::job::JobState;
use muster_model::remediation::{Action, Mode, RemediationStep};
use muster_model::runbook::{Run, RunOutcome, StepAnswer, StepOutcome};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

const BOOK: &str = "---
name: empty-it
title: Empty a node
topics: [test]
urgency: today
owner: a test
vars: [node]
---

Words.

## 1. check: It is heard

```muster
check: node.reachable
is: yes
```

## 2. act: Cordon it

```muster
act: cordon
reason: a test of $node
```

## 3. wait: It is empty

```muster
wait: node.jobs
at-most: 0
for: 10m
else: 5
```

## 4. ask: Keep it?

```muster
ask: Shall $node stay out?
choice: yes -> end
choice: no -> 5
```

## 5. act: Give it back

```muster
act: uncordon
then: end
```
";

fn vars(i: usize) -> BTreeMap<String, String> {
    BTreeMap::from([("node".to_owned(), node(i).to_string())])
}

fn with_token(w: &mut TestSite, role: Role) {
    w.ok(Command::CreateToken {
        id: "ann".into(),
        name: "ann".parse().unwrap(),
        hash: String::new(),
        usage: TokenUse::Api { role, project: None },
        ttl: None,
    });
}

fn test_site(role: Role) -> TestSite {
    let mut w = TestSite::new(8, 8);
    with_token(&mut w, role);
    w.ok(Command::SetRunbook { name: "empty-it".into(), text: Arc::from(BOOK) });
    w
}

/// Nodes of which nothing is taken out of service, whatever is found there.
fn watching(nodes: usize) -> TestSite {
    let mut w = crate::health::able(nodes);
    w.policy(|p| p.remediations.rules.push(crate::health::rule("*", &[Action::Watch])));
    w
}

fn ann(role: Role) -> Actor {
    Actor { name: "user:ann".into(), role, project: None }
}

fn as_ann(w: &mut TestSite, role: Role, command: Command) -> Result<Answer, Refusal> {
    let at = w.now;
    w.request(&Request { actor: ann(role), at, key: None, if_version: None, command })
}

fn begin(w: &mut TestSite, role: Role, i: usize, auto: bool) -> u64 {
    let command = Command::StartRunbook { name: "empty-it".into(), vars: vars(i), auto };
    match as_ann(w, role, command) {
        Ok(Answer::Begun { id }) => id,
        other => panic!("it began: {other:?}"),
    }
}

fn run(w: &TestSite, id: u64) -> Run {
    (*w.engine.state().runbooks.runs[&id]).clone()
}

fn say(w: &mut TestSite, id: u64, answer: StepAnswer) -> Result<Answer, Refusal> {
    let step = run(w, id).step;
    let command = Command::AnswerRunbook { run: id, step, answer, note: String::new(), seen: None };
    as_ann(w, Role::Operator, command)
}

#[test]
fn a_person_goes_through_a_book_step_by_step() {
    let mut w = test_site(Role::Operator);
    let id = begin(&mut w, Role::Operator, 1, false);
    assert_eq!((run(&w, id).step, run(&w, id).done.len()), (1, 0));
    say(&mut w, id, StepAnswer::Go).unwrap();
    say(&mut w, id, StepAnswer::Go).unwrap();
    let cordon = w.engine.state().nodes[&node(1)].cordon.clone().map(|c| c.reason);
    assert_eq!(cordon.as_deref(), Some("a test of n001"));
    say(&mut w, id, StepAnswer::Go).unwrap();
    let wrong = say(&mut w, id, StepAnswer::Choose("maybe".into())).unwrap_err();
    assert_eq!(wrong.code, RefusalCode::Invalid);
    say(&mut w, id, StepAnswer::Choose("no".into())).unwrap();
    say(&mut w, id, StepAnswer::Go).unwrap();
    let r = run(&w, id);
    assert_eq!(r.ended.map(|e| e.outcome), Some(RunOutcome::Resolved));
    assert_eq!(r.done.iter().map(|d| d.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(r.done.iter().all(|d| d.by == "user:ann"));
    assert_eq!(w.engine.state().nodes[&node(1)].cordon, None);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_word_about_another_step_or_an_ended_run_is_refused() {
    let mut w = test_site(Role::Operator);
    let id = begin(&mut w, Role::Operator, 1, false);
    let answer = StepAnswer::Go;
    let late = Command::AnswerRunbook { run: id, step: 2, answer, note: String::new(), seen: None };
    assert_eq!(as_ann(&mut w, Role::Operator, late).unwrap_err().code, RefusalCode::Conflict);
    as_ann(&mut w, Role::Operator, Command::StopRunbook { run: id, reason: "enough".into() })
        .unwrap();
    assert_eq!(say(&mut w, id, StepAnswer::Go).unwrap_err().code, RefusalCode::Conflict);
    assert_eq!(run(&w, id).ended.map(|e| e.outcome), Some(RunOutcome::Stopped));
}

#[test]
fn the_machine_goes_on_until_it_needs_a_person() {
    let mut w = test_site(Role::Operator);
    let id = begin(&mut w, Role::Operator, 1, true);
    let r = run(&w, id);
    assert_eq!(r.step, 4, "{r:?}");
    assert_eq!(r.waits.as_deref(), Some("Shall n001 stay out?"));
    assert!(w.engine.state().nodes[&node(1)].cordon.is_some());
    let by: Vec<&str> = w
        .log
        .iter()
        .filter(|r| matches!(r.event, Event::NodeCordoned { .. }))
        .map(|r| r.actor.as_str())
        .collect();
    assert_eq!(by, ["user:ann"], "what the machine does, it does in its owner's name");
    say(&mut w, id, StepAnswer::Choose("no".into())).unwrap();
    assert_eq!(run(&w, id).ended.map(|e| e.outcome), Some(RunOutcome::Resolved));
    assert_eq!(w.engine.state().nodes[&node(1)].cordon, None);
}

#[test]
fn a_wait_ends_when_it_holds_or_when_its_time_is_up() {
    let mut w = test_site(Role::Operator);
    let job = w.gang(1, 8);
    w.start(job);
    let at = common::number(&w.nodes_of(job)[0]);
    let id = begin(&mut w, Role::Operator, at, true);
    assert_eq!(run(&w, id).step, 3);
    assert_eq!(w.engine.next_wake().map(|t| t <= w.now + Span::mins(10)), Some(true));
    w.pass(Span::mins(11));
    let r = run(&w, id);
    assert_eq!(r.done[2].outcome, StepOutcome::HoldsNot, "{r:?}");
    assert_eq!(r.ended.map(|e| e.outcome), Some(RunOutcome::Resolved));
    let id = begin(&mut w, Role::Operator, at, true);
    w.finish(job);
    w.tick();
    assert_eq!(run(&w, id).done[2].outcome, StepOutcome::Holds);
}

#[test]
fn the_machine_may_no_more_than_whoever_started_it() {
    let mut w = test_site(Role::User);
    let id = begin(&mut w, Role::User, 1, true);
    let r = run(&w, id);
    assert_eq!(r.done[1].outcome, StepOutcome::Refused, "{r:?}");
    assert!(r.done[1].saw.contains("may not steer nodes"), "{r:?}");
    assert_eq!(r.ended.map(|e| e.outcome), Some(RunOutcome::Unresolved));
    assert_eq!(w.engine.state().nodes[&node(1)].cordon, None);
    let start = Command::StartRunbook { name: "empty-it".into(), vars: vars(1), auto: false };
    assert_eq!(as_ann(&mut w, Role::Viewer, start).unwrap_err().code, RefusalCode::NotAllowed);
    // Somebody whose token was ended meanwhile acts no more.
    let mut w = test_site(Role::Operator);
    let job = w.gang(1, 8);
    w.start(job);
    let at = common::number(&w.nodes_of(job)[0]);
    let id = begin(&mut w, Role::Operator, at, true);
    w.ok(Command::RevokeToken { id: "ann".into() });
    w.pass(Span::mins(11));
    assert_eq!(run(&w, id).done[3].outcome, StepOutcome::Refused);
    assert!(w.engine.state().nodes[&node(at)].cordon.is_some());
}

fn answer(
    w: &mut TestSite,
    who: &str,
    role: Role,
    id: u64,
    answer: StepAnswer,
) -> Result<(), Refusal> {
    let step = run(w, id).step;
    let command = Command::AnswerRunbook { run: id, step, answer, note: String::new(), seen: None };
    let actor = Actor { name: format!("user:{who}"), role, project: None };
    let at = w.now;
    w.request(&Request { actor, at, key: None, if_version: None, command }).map(|_| ())
}

#[test]
fn an_answer_takes_the_permissions_of_what_follows_it() {
    let mut w = test_site(Role::Operator);
    // The machine asks; after `no` it would uncordon the node in ann's name.
    let id = begin(&mut w, Role::Operator, 1, true);
    let before = w.log.len();
    for given in
        [StepAnswer::Choose("no".into()), StepAnswer::Choose("yes".into()), StepAnswer::Skip]
    {
        let no = answer(&mut w, "bob", Role::User, id, given).unwrap_err();
        assert_eq!(no.code, RefusalCode::NotAllowed);
        assert!(no.message.contains("uncordon node=n001") && no.hint.is_some(), "{no:?}");
    }
    let stop = Command::StopRunbook { run: id, reason: "no".into() };
    let bob = Actor { name: "user:bob".into(), role: Role::User, project: None };
    let request = Request { actor: bob, at: w.now, key: None, if_version: None, command: stop };
    assert_eq!(w.request(&request).unwrap_err().code, RefusalCode::NotAllowed);
    assert_eq!(w.log.len(), before, "a refusal leaves no trace");
    assert_eq!(run(&w, id).step, 4);
    answer(&mut w, "eve", Role::Operator, id, StepAnswer::Choose("no".into())).unwrap();
    assert_eq!(w.engine.state().nodes[&node(1)].cordon, None);
    // One that waits before an act: no word of a user's moves it, not even past the act.
    w.ok(Command::StopAutomation { reason: "a test".into() });
    let id = begin(&mut w, Role::Operator, 2, true);
    for given in [StepAnswer::Go, StepAnswer::Yes, StepAnswer::No, StepAnswer::Skip] {
        let no = answer(&mut w, "bob", Role::User, id, given).unwrap_err();
        assert_eq!(no.code, RefusalCode::NotAllowed, "{no:?}");
    }
    assert_eq!(run(&w, id).step, 2);
    // Step by step nothing follows by itself: others answer at what they may do themselves.
    let id = begin(&mut w, Role::Operator, 3, false);
    answer(&mut w, "bob", Role::User, id, StepAnswer::Go).unwrap();
    assert!(answer(&mut w, "bob", Role::User, id, StepAnswer::Skip).is_err());
    // In a run of one's own the machine may no more than oneself: no answer is in the way.
    let id = begin(&mut w, Role::User, 4, false);
    as_ann(
        &mut w,
        Role::User,
        Command::AnswerRunbook {
            run: id,
            step: 1,
            answer: StepAnswer::Go,
            note: String::new(),
            seen: None,
        },
    )
    .unwrap();
    answer(&mut w, "ann", Role::User, id, StepAnswer::Yes).unwrap();
    assert_eq!(w.engine.state().nodes[&node(4)].cordon, None, "a word alone does nothing");
}

#[test]
fn what_holds_automation_back_holds_the_machine_back() {
    let mut w = test_site(Role::Operator);
    w.ok(Command::StopAutomation { reason: "a test".into() });
    let id = begin(&mut w, Role::Operator, 1, true);
    let r = run(&w, id);
    assert_eq!(r.step, 2);
    assert!(r.waits.as_deref().is_some_and(|w| w.contains("automation is stopped")), "{r:?}");
    assert_eq!(w.engine.state().nodes[&node(1)].cordon, None);
    // A person's own word goes through.
    say(&mut w, id, StepAnswer::Go).unwrap();
    assert!(w.engine.state().nodes[&node(1)].cordon.is_some());
    // Nor does it take more nodes than automation may.
    let mut w = test_site(Role::Operator);
    let ids: Vec<u64> = (0..8).map(|i| begin(&mut w, Role::Operator, i, true)).collect();
    let held = ids.iter().filter(|id| run(&w, **id).step == 2).count();
    assert!(held >= 5, "{held} of 8 were held");
}

#[test]
fn no_book_starts_a_job_that_has_ended() {
    for auto in [false, true] {
        let mut w = test_site(Role::Operator);
        let job = w.gang(1, 8);
        w.start(job);
        w.ok(Command::Cancel { job });
        w.stopped(job);
        assert_eq!(w.job(job).state, JobState::Cancelled);
        let vars = BTreeMap::from([("job".to_owned(), job.to_string())]);
        let start = Command::StartRunbook { name: "node-killer".into(), vars, auto };
        let id = match as_ann(&mut w, Role::Operator, start) {
            Ok(Answer::Begun { id }) => id,
            other => panic!("it began: {other:?}"),
        };
        if auto {
            w.pass(Span::mins(1));
            let done = run(&w, id).done;
            let second = done.iter().find(|d| d.step == 2).expect("it tried to");
            assert_eq!(second.outcome, StepOutcome::Refused);
        } else {
            say(&mut w, id, StepAnswer::No).unwrap();
            let no = say(&mut w, id, StepAnswer::Go).unwrap_err();
            assert_eq!(no.code, RefusalCode::Conflict);
            assert!(no.hint.is_some_and(|h| h.contains("muster requeue")));
        }
        w.pass(Span::mins(1));
        assert_eq!((w.job(job).state, w.job(job).attempts), (JobState::Cancelled, 1));
    }
}

#[test]
fn a_server_that_starts_anew_goes_on_and_does_nothing_twice() {
    let mut w = test_site(Role::Operator);
    let job = w.gang(1, 8);
    w.start(job);
    let at = common::number(&w.nodes_of(job)[0]);
    let id = begin(&mut w, Role::Operator, at, true);
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(state.digest(), w.engine.state().digest());
    w.engine = Engine::new(state, Policy::default());
    w.pass(Span::mins(11));
    let cordons = w.log.iter().filter(|r| matches!(r.event, Event::NodeCordoned { .. })).count();
    assert_eq!(cordons, 1);
    assert!(run(&w, id).ended.is_some());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let w = test_site(Role::Operator);
    let before = w.engine.state().digest();
    let none = |_: &muster_runbook::Observable| None;
    let state = w.engine.state().clone();
    let plan = rehearse(state, "empty-it", &vars(1), &ann(Role::Operator), w.now, &none).unwrap();
    assert_eq!(plan.steps.iter().map(|s| s.step).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(plan.steps[1].would, "cordon node=n001 reason=a test of n001");
    assert_eq!(plan.outcome, RunOutcome::Resolved);
    let state = w.engine.state().clone();
    let plan = rehearse(state, "empty-it", &vars(1), &ann(Role::Viewer), w.now, &none).unwrap();
    assert_eq!(plan.steps[1].outcome, StepOutcome::Refused);
    assert!(plan.steps[1].saw.contains("may not steer nodes"), "{plan:?}");
    assert_eq!(w.engine.state().digest(), before);
}

#[test]
fn what_depends_on_a_wait_is_not_judged_by_the_present() {
    let mut w = test_site(Role::Operator);
    let job = w.gang(1, 8);
    let vars = BTreeMap::from([("node".to_owned(), w.nodes_of(job)[0].to_string())]);
    let state = w.engine.state().clone();
    let none = |_: &muster_runbook::Observable| None;
    let plan = rehearse(state, "empty-it", &vars, &ann(Role::Operator), w.now, &none).unwrap();
    assert_eq!(plan.steps[0].outcome.word(), "pass");
    assert_eq!(plan.steps[2].outcome.word(), "cannot know yet", "{plan:?}");
    assert_eq!(plan.outcome, RunOutcome::Resolved);
}

#[test]
fn an_act_after_a_wait_is_not_judged_by_what_is_in_its_way_now() {
    let mut w = TestSite::new(2, 8);
    let job = w.gang(1, 8);
    let node = w.nodes_of(job)[0].to_string();
    let vars = BTreeMap::from([("node".to_owned(), node), ("gpu".to_owned(), "0".to_owned())]);
    let none = |_: &muster_runbook::Observable| None;
    let (state, who) = (w.engine.state().clone(), ann(Role::Operator));
    let plan = rehearse(state, "gpu-off-bus", &vars, &who, w.now, &none).unwrap();
    let mut after = plan.steps.iter().skip_while(|s| s.outcome != StepOutcome::Assumed);
    let test = after.find(|s| s.would.starts_with("qualify")).expect("it is tested at the end");
    assert_eq!(test.outcome.word(), "cannot know yet", "{plan:?}");
    assert!(test.saw.contains("as things are now it would be refused: work runs"), "{test:?}");
}

#[test]
fn approvals_are_not_over_because_automation_runs() {
    let w = TestSite::new(2, 8);
    let state = w.engine.state().clone();
    let none = |_: &muster_runbook::Observable| None;
    let vars = BTreeMap::new();
    let plan = rehearse(state, "approvals-wait", &vars, &Actor::system(), w.now, &none).unwrap();
    assert_eq!(plan.steps[0].saw, "automation.approvals is 0; expected: is 1 or more");
    assert_eq!(plan.outcome, RunOutcome::Resolved, "nothing is pending approval");
}

/// What a run of a runbook that began now would see of this.
fn saw(w: &TestSite, book: &str, vars: BTreeMap<String, String>, what: &str) -> String {
    let (state, who) = (w.engine.state().clone(), ann(Role::Operator));
    let none = |_: &muster_runbook::Observable| None;
    let plan = rehearse(state, book, &vars, &who, w.now, &none).unwrap();
    let step = plan.steps.iter().find(|s| s.saw.starts_with(what));
    step.map(|s| s.saw.clone()).unwrap_or_else(|| panic!("{plan:?}"))
}

#[test]
fn a_run_does_not_wait_for_a_remediation_that_only_watches() {
    let mut w = watching(8);
    crate::health::xid79(&mut w, &node(1));
    let r = crate::health::remediation(&w, &node(1)).unwrap();
    assert_eq!((r.action, r.step), (Action::Watch, RemediationStep::Proposed));
    let step = saw(&w, "gpu-reset", vars(1), "node.remediation_step");
    assert!(step.starts_with("node.remediation_step is watched; "), "{step}");
    assert!(saw(&w, "gpu-reset", vars(1), "node.approval").starts_with("node.approval is no; "));
}

#[test]
fn a_check_for_an_approval_passes_where_somebody_has_to_decide_and_not_for_what_a_limit_delays() {
    let mut w = crate::health::able(32);
    // Three nodes are a tenth of the fleet: the fourth is delayed.
    for i in [0, 8, 16, 24] {
        crate::health::xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    let delayed = crate::health::remediation(&w, &node(24)).unwrap();
    assert!(delayed.why.contains("limit of fleet"), "{}", delayed.why);
    let of_node = |w: &TestSite, i: usize| saw(w, "driver-hang", vars(i), "node.approval");
    let of_all = |w: &TestSite| saw(w, "approvals-wait", BTreeMap::new(), "automation.approvals");
    assert_eq!(of_node(&w, 0), "node.approval is yes; expected: is yes");
    assert_eq!(of_node(&w, 24), "node.approval is no; expected: is yes");
    assert_eq!(of_all(&w), "automation.approvals is 3; expected: is 1 or more");
    // Where the policy has an operator decide that a node is taken, nothing else delays it.
    w.policy(|p| {
        p.remediations.modes.insert(Action::Drain, Mode::Approve);
    });
    assert_eq!(of_node(&w, 24), "node.approval is yes; expected: is yes");
    assert_eq!(of_all(&w), "automation.approvals is 4; expected: is 1 or more");
}

#[test]
fn a_job_that_ran_waits_since_its_last_attempt_ended() {
    let mut w = TestSite::new(1, 8);
    let job = w.run(common::gang(1, 8));
    let node = w.nodes_of(job)[0].clone();
    w.pass(Span::hours(3));
    w.ok(Command::Cordon { node, reason: "x".into() });
    w.ok(Command::Requeue { job });
    w.stopped(job);
    w.pass(Span::mins(5));
    assert_eq!(w.engine.state().queue().count(), 1);
    let (state, vars) = (w.engine.state().clone(), BTreeMap::new());
    let none = |_: &muster_runbook::Observable| None;
    let plan = rehearse(state, "slo-burn", &vars, &Actor::system(), w.now, &none).unwrap();
    let saw = &plan.steps[1].saw;
    assert!(saw.starts_with("queue.oldest_minutes is 5;"), "{plan:?}");
}

#[test]
fn every_book_on_the_shelf_can_be_rehearsed() {
    let mut w = TestSite::new(8, 8);
    let job = w.gang(1, 8);
    for b in muster_runbook::builtin::books() {
        let given = |v: &String| {
            let value = match v.as_str() {
                "node" => node(1).to_string(),
                "breaker" => "leaf:r/c/s0/l0".to_owned(),
                "job" => job.to_string(),
                _ => "1".to_owned(),
            };
            (v.clone(), value)
        };
        let vars: BTreeMap<String, String> = b.needs.iter().map(given).collect();
        let state = w.engine.state().clone();
        let none = |_: &muster_runbook::Observable| None;
        let plan = rehearse(state, &b.name, &vars, &Actor::system(), w.now, &none).unwrap();
        assert!(!plan.steps.is_empty(), "{}", b.name);
    }
}

#[test]
fn whatever_an_alert_can_be_about_has_a_book() {
    let w = TestSite::new(2, 8);
    let books = &w.engine.state().runbooks;
    let topics = [
        "automation-stopped",
        "approvals-wait",
        "nodes-protected",
        "cannot-write",
        "part-panicked",
        "clock-set",
        "no-spares",
        "breaker-open",
        "certificate-ends",
        "nodes-out",
        "slo-burn",
    ];
    for kind in muster_health::modes::MODES.iter().map(|m| m.code).chain(topics) {
        assert!(books.find(kind).is_some(), "no book serves {kind}");
    }
    assert_eq!(books.find("approvals-wait").as_deref(), Some("approvals-wait"));
    assert_eq!(books.find("no-such-thing"), None);
    // And can be followed by that word: the run is of the book.
    let mut w = w;
    let vars = BTreeMap::from([("node".to_owned(), node(1).to_string())]);
    let start = |name: &str, vars| Command::StartRunbook { name: name.into(), vars, auto: false };
    let Answer::Begun { id } = w.ok(start("telemetry-stale", vars)) else { panic!("no run") };
    assert_eq!(w.engine.state().runbooks.runs[&id].book, "agent-hang");
    let none = w.send(start("no-such-thing", BTreeMap::new())).unwrap_err();
    assert_eq!(none.code, RefusalCode::NotFound);
}

#[test]
fn a_book_of_the_sites_own_counts_before_the_one_beneath_it() {
    let mut w = TestSite::new(1, 8);
    let text = muster_runbook::builtin::text("lemon")
        .unwrap()
        .replace("owner: fleet on-call", "owner: us");
    w.ok(Command::SetRunbook { name: "lemon".into(), text: Arc::from(text) });
    let of = |w: &TestSite| w.engine.state().runbooks.all()["lemon"].0.owner.clone();
    assert_eq!(of(&w), "us");
    let wrong = Command::SetRunbook { name: "other".into(), text: Arc::from(BOOK) };
    assert_eq!(w.send(wrong).unwrap_err().field.as_deref(), Some("name"));
    let bad = Command::SetRunbook { name: "x".into(), text: Arc::from("no book") };
    let refusal = w.send(bad).unwrap_err();
    assert!(refusal.message.starts_with("x:1: ") && refusal.hint.is_some(), "{refusal:?}");
    w.ok(Command::DeleteRunbook { name: "lemon".into() });
    assert_eq!(of(&w), "fleet on-call");
}

#[test]
fn a_book_is_opened_at_the_first_step_that_is_left_to_do() {
    let mut w = test_site(Role::Operator);
    let book = muster_runbook::parse("empty-it", BOOK).expect("it is sound");
    let at = |w: &TestSite| current_step(w.engine.state(), &book, &vars(1));
    assert_eq!(at(&w), Some(2));
    w.ok(Command::Cordon { node: node(1), reason: "x".into() });
    assert_eq!(at(&w), Some(4), "it is cordoned and empty");
}

#[test]
fn what_is_done_is_not_advised_again() {
    use crate::health::{able, stands, tested, xid79};
    use muster_model::node::Stage;
    use muster_model::qualification::Outcome;
    use muster_model::remediation::RemediationStep;
    let book = |name: &str| {
        let text = muster_runbook::builtin::text(name).expect("it is built in");
        muster_runbook::parse(name, text).expect("it is sound")
    };
    let (lost, hot) = (book("gpu-off-bus"), book("power-brake"));
    let at = |w: &TestSite, b: &muster_runbook::ParsedRunbook| {
        let no = current_step(w.engine.state(), b, &vars(1))?;
        b.step(no).map(|s| s.title.clone())
    };
    let mut w = able(8);
    assert_eq!(at(&w, &lost).as_deref(), Some("Cordon the node"));
    assert_eq!(at(&w, &hot).as_deref(), Some("Drain the node"));
    w.ok(Command::Cordon { node: node(1), reason: "x".into() });
    assert_ne!(at(&w, &hot).as_deref(), Some("Drain the node"), "cordoned, and nothing runs there");
    w.ok(Command::Uncordon { node: node(1) });
    // Found, out of service, repaired, tested: it is back and only watched.
    xid79(&mut w, &node(1));
    w.pass(Span::secs(2));
    assert_eq!(stands(&w, &node(1)).1, RemediationStep::Approval);
    assert_eq!(at(&w, &lost).as_deref(), Some("Let it restart the node"));
    w.ok(Command::Repaired { node: node(1), note: "reseated".into() });
    tested(&mut w, &node(1), Outcome::Passed);
    assert_eq!(stands(&w, &node(1)), (Stage::Ready, RemediationStep::Probation));
    assert_eq!((at(&w, &lost), at(&w, &hot)), (None, None));
}

/// The acts that are pending approval once work has left are approved then, and nobody is paged that
/// they did not help.
#[test]
fn a_run_waits_for_work_to_leave_before_it_looks_for_an_approval() {
    use crate::health::{able, remediation, stands, xid79};
    let mut w = able(8);
    with_token(&mut w, Role::Operator);
    let job = w.run(common::gang(8, 8));
    let n = w.nodes_of(job)[2].clone();
    xid79(&mut w, &n);
    assert_eq!(stands(&w, &n).1, RemediationStep::Moving, "{:?}", remediation(&w, &n));
    let text = muster_runbook::builtin::text("gpu-reset").expect("it is built in");
    let book = muster_runbook::parse("gpu-reset", text).expect("it is sound");
    let vars = BTreeMap::from([("node".to_owned(), n.to_string())]);
    let start = Command::StartRunbook { name: book.name.clone(), vars: vars.clone(), auto: true };
    let Ok(Answer::Begun { id }) = as_ann(&mut w, Role::Operator, start) else {
        panic!("it began")
    };
    let title = |no: u32| book.step(no).map(|s| s.title.clone()).unwrap_or_default();
    assert!(title(run(&w, id).step).starts_with("Work has left"), "{:?}", run(&w, id));
    // Whoever opens the runbook is sent to the same step.
    assert_eq!(current_step(w.engine.state(), &book, &vars), Some(run(&w, id).step));
    w.stopped(job);
    w.pass(Span::secs(2));
    let steps: Vec<u32> = run(&w, id).done.iter().map(|d| d.step).collect();
    assert!(steps.is_sorted() && steps.contains(&4), "{:?}", run(&w, id));
    assert_eq!(stands(&w, &n).1, RemediationStep::Acting);
}

#[test]
fn people_write_about_an_incident_and_take_it_on() {
    let mut w = TestSite::new(32, 8);
    let none = Command::NoteIncident { id: 7, text: "hm".into() };
    assert_eq!(w.send(none).unwrap_err().code, RefusalCode::NotFound);
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let id = w.engine.state().health.open_incidents().next().expect("a leaf is lost").id;
    w.ok(Command::OwnIncident { id, owner: Some("user:ann".into()) });
    w.ok(Command::NoteIncident { id, text: "  the switch is off  ".into() });
    assert!(w.send(Command::NoteIncident { id, text: " ".into() }).is_err());
    let i = w.engine.state().health.incidents[&id].clone();
    assert_eq!(i.owner.as_ref().map(|o| o.who.as_str()), Some("user:ann"));
    assert_eq!(i.notes.iter().map(|n| n.text.as_str()).collect::<Vec<_>>(), ["the switch is off"]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// All GPUs of a leaf have five findings each, and one cause.
fn a_leaf_fails(w: &mut TestSite) -> u64 {
    let kinds = ["gpu-off-bus", "ecc-uncorrectable", "pcie-replay", "thermal", "nvlink-errors"];
    let mut findings = Vec::new();
    for kind in kinds {
        for (i, gpu) in (0..8).flat_map(|i| (0..8).map(move |gpu| (i, gpu))) {
            let entity = Entity::Gpu(node(i), gpu);
            findings.push(ObservedFinding::new(kind, entity, Severity::Degraded, w.now));
        }
    }
    w.ok(Command::FindingsSeen { findings });
    w.pass(Span::secs(2));
    w.engine.state().health.open_incidents().next().expect("they have one cause").id
}

#[test]
fn an_incident_is_closed_with_everything_that_is_open_of_it() {
    let mut w = watching(32);
    let close = |id: u64| Command::CloseIncident { id, reason: "planned work".into() };
    assert_eq!(w.send(close(7)).unwrap_err().code, RefusalCode::NotFound);
    let id = a_leaf_fails(&mut w);
    for _ in 0..2 {
        w.ok(close(id));
        let health = &w.engine.state().health;
        let i = &health.incidents[&id];
        let why = &i.closed.as_ref().expect("it is closed").why;
        assert!(why.starts_with("by ") && why.ends_with(": planned work"), "{why}");
        assert!(!health.open().any(|f| f.incident == Some(id)));
        // Once is enough.
        let notes: Vec<&str> = i.notes.iter().map(|n| n.text.as_str()).collect();
        assert_eq!(notes, ["closed: planned work"]);
    }
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn findings_of_an_incident_that_somebody_closed_are_part_of_no_other() {
    let mut w = watching(32);
    let fail = |w: &mut TestSite, nodes: usize| {
        let of = |i| {
            let gpu = Entity::Gpu(node(i), 3);
            ObservedFinding::new("gpu-off-bus", gpu, Severity::Degraded, w.now)
        };
        let findings = (0..nodes).map(of).collect();
        w.ok(Command::FindingsSeen { findings });
        w.pass(Span::secs(2));
        w.engine.state().health.open_incidents().next().map(|i| i.id)
    };
    let id = fail(&mut w, 8).expect("a leaf fails");
    w.ok(Command::CloseIncident { id, reason: "planned work".into() });
    let closed = w.engine.state().seq.0;
    w.pass(Span::secs(10));
    assert_eq!(fail(&mut w, 1), None, "one node fails again");
    let health = &w.engine.state().health;
    let before = &health.incidents[&id].findings;
    assert!(before.iter().all(|f| health.findings[f].incident == Some(id)));
    // What is found anew counts.
    let again = fail(&mut w, 8).expect("the leaf fails again");
    let found = &w.engine.state().health.incidents[&again];
    assert!(found.findings.iter().all(|f| *f > closed), "{found:?}");
    assert_eq!((found.count, found.closed.as_ref()), (8, None));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_incident_is_not_closed_while_a_remediation_for_it_is_pending() {
    let mut w = crate::health::able(32);
    // The driver said so once: nothing says it again while the node is out.
    crate::health::xid79(&mut w, &node(0));
    a_leaf_fails(&mut w);
    let gpu = Entity::Gpu(node(0), 3);
    let health = &w.engine.state().health;
    let f = health.open_of(&gpu, "gpu-off-bus").expect("it is open").clone();
    let r = health.remediations_of(&node(0)).find(|r| r.finding == f.id).expect("it goes on");
    assert_eq!(r.step, RemediationStep::Approval);
    let id = f.incident.expect("it is part of an incident");
    let n = w.log.len();
    let e = w.send(Command::CloseIncident { id, reason: "rolled back".into() }).unwrap_err();
    assert_eq!((e.code, w.log.len()), (RefusalCode::Conflict, n), "{e}");
    assert!(e.message.contains("remediation ") && e.message.contains("is not over"), "{e}");
    let health = &w.engine.state().health;
    assert!(health.open_of(&gpu, "gpu-off-bus").is_some());
    assert_eq!(health.incidents[&id].closed, None);
}

#[test]
fn an_incident_of_nodes_that_are_still_lost_is_not_closed() {
    let mut w = TestSite::new(32, 8);
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let id = w.engine.state().health.open_incidents().next().expect("a leaf is lost").id;
    let close = || Command::CloseIncident { id, reason: "planned work".into() };
    let n = w.log.len();
    let e = w.send(close()).unwrap_err();
    assert_eq!((e.code, w.log.len()), (RefusalCode::Conflict, n), "{e}");
    assert!(e.message.contains("is still lost: incident"), "{e}");
    assert_eq!(w.engine.state().health.incidents[&id].closed, None);
    for i in 8..16 {
        w.connect(i, 8, "boot", Vec::new());
    }
    w.ok(close());
    assert!(w.engine.state().health.incidents[&id].closed.is_some());
}
