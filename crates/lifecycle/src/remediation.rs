//! What a remediation does next. The same question may be asked at any time and as often as one likes:
//! an answer that was carried out is not given again.

use muster_model::qualification::Outcome;
use muster_model::remediation::{ActEnd, Action, Mode, RemediationStep};
use muster_model::units::Time;

/// What is known of a remediation and its node.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// What is done in the end.
    pub action: Action,
    /// Who decides on it.
    pub mode: Mode,
    /// Its current step.
    pub step: RemediationStep,
    /// To be noticed after this.
    pub until: Option<Time>,
    /// An operator let it go on.
    pub approved: bool,
    /// Its finding is still open.
    pub open: bool,
    /// The finding is bad enough to go on when watching did not help.
    pub grave: bool,
    /// Why automation may not begin it now, or, once nothing runs there, its act.
    pub held: Option<String>,
    /// Its act was begun before.
    pub begun: bool,
    /// Something still runs where it is done.
    pub busy: bool,
    /// The node is heard.
    pub reachable: bool,
    /// What came of its act, once that ended.
    pub act: Option<&'a ActEnd>,
    /// What came of the test that began after this step. One that a person asked for counts only
    /// where it disproves what the remediation waits for.
    pub test: Option<Outcome>,
    /// A test goes on.
    pub testing: bool,
    /// The node can be tested.
    pub testable: bool,
    /// The time of the decision.
    pub now: Time,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing yet.
    Wait,
    /// It waits for this; to be written down when it is new.
    Hold(String),
    /// The node, or the GPU, gets no new work and what runs leaves.
    Take,
    /// Nothing runs there: an operator is asked.
    Ask,
    /// The act is carried out.
    Act,
    /// People are asked to repair it.
    Repair,
    /// It is tested.
    Test,
    /// It returns to service and is watched.
    Return,
    /// It helped, or there was nothing to do.
    Done(String),
    /// It did not help.
    Escalate(String),
}

/// What a remediation does next.
#[must_use]
pub fn next(v: &View<'_>) -> Next {
    let late = v.until.is_some_and(|t| t <= v.now);
    match v.step {
        RemediationStep::Proposed if v.action == Action::Watch => watch(v, late),
        RemediationStep::Proposed if !v.open => Next::Done("what asked for it is over".into()),
        RemediationStep::Proposed => match &v.held {
            Some(why) => Next::Hold(why.clone()),
            None => Next::Take,
        },
        RemediationStep::Moving if v.busy => Next::Wait,
        RemediationStep::Moving => match v.action {
            Action::Watch | Action::RestartJob => Next::Done("the work continues elsewhere".into()),
            Action::IsolateGpu => Next::Done("the GPU is out, the others work".into()),
            Action::Drain => test_or_ask(v),
            _ if v.approved || (v.mode == Mode::Automatic && v.held.is_none()) => Next::Act,
            _ => Next::Ask,
        },
        RemediationStep::Approval if v.approved && v.action == Action::Replace => Next::Repair,
        // A person had it tested since this remediation waits, and the test disproved what was found.
        RemediationStep::Approval | RemediationStep::Repairing
            if v.test == Some(Outcome::Passed) =>
        {
            Next::Return
        }
        // What was done already, where it cannot be tested, is not done again.
        RemediationStep::Approval if v.act.is_some_and(|end| end.ok) => Next::Wait,
        // A drain was approved before it began: what it asks for now is a word about a node without a test.
        RemediationStep::Approval if v.approved && v.action > Action::Drain => Next::Act,
        // Automation was stopped when its turn came, and is not any more.
        RemediationStep::Approval if v.mode == Mode::Automatic && v.held.is_none() => {
            if v.action > Action::Drain && !v.begun { Next::Act } else { Next::Wait }
        }
        // Repaired by people, who say so with a test.
        RemediationStep::Approval | RemediationStep::Repairing => Next::Wait,
        RemediationStep::Acting => match v.act {
            None => Next::Wait,
            // One that was taken back: whatever came of its act, the test says how the node is.
            Some(end) if end.ok || v.action == Action::Drain => test_or_ask(v),
            Some(end) => Next::Escalate(end.message.clone()),
        },
        RemediationStep::Testing => match v.test {
            Some(Outcome::Failed) => Next::Escalate("it failed its test".into()),
            Some(_) => Next::Return,
            None if v.testing || !v.reachable || !v.testable => Next::Wait,
            None => Next::Test,
        },
        RemediationStep::Probation if late => Next::Done("it lasted".into()),
        RemediationStep::Probation | RemediationStep::Ended => Next::Wait,
    }
}

fn watch(v: &View<'_>, late: bool) -> Next {
    if !v.open {
        Next::Done("it is over".into())
    } else if late && v.grave {
        Next::Escalate("it did not pass by itself".into())
    } else if late {
        Next::Done("no action".into())
    } else {
        Next::Wait
    }
}

/// What cannot be tested is pending approval.
fn test_or_ask(v: &View<'_>) -> Next {
    if v.testable { Next::Test } else { Next::Ask }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(action: Action, step: RemediationStep) -> View<'static> {
        View {
            action,
            mode: Mode::Approve,
            step,
            until: None,
            approved: false,
            open: true,
            grave: true,
            held: None,
            begun: false,
            busy: false,
            reachable: true,
            act: None,
            test: None,
            testing: false,
            testable: true,
            now: Time(1000),
        }
    }

    #[test]
    fn a_reboot_waits_for_approval_and_then_for_its_test() {
        let at = |step| view(Action::Reboot, step);
        assert_eq!(next(&at(RemediationStep::Proposed)), Next::Take);
        let held = View { held: Some("limit".into()), ..at(RemediationStep::Proposed) };
        assert_eq!(next(&held), Next::Hold("limit".into()));
        assert_eq!(next(&View { busy: true, ..at(RemediationStep::Moving) }), Next::Wait);
        assert_eq!(next(&at(RemediationStep::Moving)), Next::Ask);
        let auto = View { mode: Mode::Automatic, ..at(RemediationStep::Moving) };
        assert_eq!(next(&auto), Next::Act);
        assert_eq!(next(&at(RemediationStep::Approval)), Next::Wait);
        assert_eq!(next(&View { approved: true, ..at(RemediationStep::Approval) }), Next::Act);
        let well = View { test: Some(Outcome::Passed), ..at(RemediationStep::Approval) };
        assert_eq!(next(&well), Next::Return, "a person had it tested");
        assert_eq!(next(&at(RemediationStep::Acting)), Next::Wait);
        let ok = ActEnd { at: Time(1), ok: true, message: "up".into() };
        let failed = ActEnd { ok: false, message: "no power".into(), ..ok.clone() };
        assert_eq!(next(&View { act: Some(&ok), ..at(RemediationStep::Acting) }), Next::Test);
        assert_eq!(
            next(&View { act: Some(&failed), ..at(RemediationStep::Acting) }),
            Next::Escalate("no power".into())
        );
        let undone = View { act: Some(&failed), ..view(Action::Drain, RemediationStep::Acting) };
        assert_eq!(next(&undone), Next::Test, "nothing heavier follows what was taken back");
        let untestable = View { act: Some(&ok), testable: false, ..at(RemediationStep::Acting) };
        assert_eq!(next(&untestable), Next::Ask, "an operator's word");
        let again = View {
            act: Some(&ok),
            approved: true,
            testable: false,
            ..at(RemediationStep::Approval)
        };
        assert_eq!(next(&again), Next::Wait, "one approval is one reboot");
        assert_eq!(next(&View { testing: true, ..at(RemediationStep::Testing) }), Next::Wait);
        let passed = View { test: Some(Outcome::Passed), ..at(RemediationStep::Testing) };
        assert_eq!(next(&passed), Next::Return);
        let bad = View { test: Some(Outcome::Failed), ..at(RemediationStep::Testing) };
        assert!(matches!(next(&bad), Next::Escalate(_)));
        assert_eq!(next(&at(RemediationStep::Probation)), Next::Wait);
        let late = View { until: Some(Time(1000)), ..at(RemediationStep::Probation) };
        assert_eq!(next(&late), Next::Done("it lasted".into()));
    }

    #[test]
    fn watching_ends_by_itself_or_leads_on() {
        let w = view(Action::Watch, RemediationStep::Proposed);
        assert_eq!(next(&w), Next::Wait);
        assert!(matches!(next(&View { open: false, ..w.clone() }), Next::Done(_)));
        let late = View { until: Some(Time(900)), ..w };
        assert!(matches!(next(&late), Next::Escalate(_)));
        assert!(matches!(next(&View { grave: false, ..late }), Next::Done(_)));
    }

    #[test]
    fn what_takes_no_node_waits_too_where_something_holds_it() {
        for action in [Action::RestartJob, Action::IsolateGpu] {
            let v = view(action, RemediationStep::Proposed);
            assert_eq!(next(&v), Next::Take);
            let held = View { held: Some("stopped".into()), ..v };
            assert_eq!(next(&held), Next::Hold("stopped".into()));
        }
    }

    #[test]
    fn an_automatic_act_waits_for_approval_while_automation_is_stopped() {
        let automatic = |step| View { mode: Mode::Automatic, ..view(Action::Reboot, step) };
        let stopped = |step| View { held: Some("stopped".into()), ..automatic(step) };
        let (moving, approval) = (RemediationStep::Moving, RemediationStep::Approval);
        assert_eq!(next(&automatic(moving)), Next::Act);
        assert_eq!(next(&stopped(moving)), Next::Ask);
        assert_eq!(next(&View { approved: true, ..stopped(moving) }), Next::Act);
        assert_eq!(next(&stopped(approval)), Next::Wait);
        assert_eq!(next(&View { approved: true, ..stopped(approval) }), Next::Act);
        assert_eq!(next(&automatic(approval)), Next::Act, "it runs again");
        assert_eq!(next(&View { begun: true, ..automatic(approval) }), Next::Wait, "once");
        let drain = View { mode: Mode::Automatic, ..view(Action::Drain, approval) };
        assert_eq!(next(&drain), Next::Wait, "it cannot be tested");
        let approved = View { approved: true, ..view(Action::Drain, approval) };
        assert_eq!(next(&approved), Next::Wait, "it was drained, and cannot be tested");
    }
}
