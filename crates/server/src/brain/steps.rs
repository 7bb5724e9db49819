//! Steps of this machine's wall clock, on their way into the log.

use super::{Attach, BrainCall, BrainError, Committed, Shared, clock};
use muster_model::clock::{ClockStep, StepWatch};
use muster_model::command::{Actor, Command, Request};
use std::collections::VecDeque;
use tokio::sync::oneshot::{self, error::TryRecvError};

/// Steps that wait for a store that is away; there is at most one a minute.
const WAITING: usize = 60;

/// Looks at the clock and has the engine record what it finds.
#[derive(Default)]
pub(super) struct Steps {
    watch: StepWatch,
    waiting: VecDeque<ClockStep>,
    /// The answer to the first of them.
    asked: Option<oneshot::Receiver<Result<Committed, BrainError>>>,
}

impl Steps {
    /// Once a second. A step is reported again until it is durable.
    pub(super) fn check_clock(&mut self, shared: &Shared) {
        if let Some(step) = clock::detect_clock_step(&mut self.watch)
            && self.waiting.len() < WAITING
        {
            self.waiting.push_back(step);
        }
        match self.asked.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(Ok(_) | Err(BrainError::Refused(_)))) => {
                self.waiting.pop_front();
            }
            Some(Ok(Err(_)) | Err(TryRecvError::Closed)) | None => {}
        }
        self.asked = self.waiting.front().and_then(|step| submit_step(shared, step));
    }
}

/// Asks the engine; none when it has too much to do.
fn submit_step(
    shared: &Shared,
    step: &ClockStep,
) -> Option<oneshot::Receiver<Result<Committed, BrainError>>> {
    let (reply, answer) = oneshot::channel();
    let command = Command::ClockStepped { step: step.clone() };
    let (actor, at) = (Actor::system(), clock());
    let request = Request { actor, at, key: None, if_version: None, command };
    let span = tracing::Span::none();
    let call = BrainCall { request, attach: Attach::default(), payload: None, reply, span };
    shared.calls.try_send(call).ok().map(|()| answer)
}
