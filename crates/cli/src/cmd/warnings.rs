//! What whoever submits a job should know at once. Nothing depends on it: the job is submitted, and
//! its id was said.

use muster_client::Client;
use muster_model::spec::{JobSpec, Tier};
use muster_terminal::clean::line;
use muster_terminal::output;
use tokio::task::JoinHandle;

/// The lines for people; none where they cannot be asked for.
async fn ask(client: &Client, spec: &JobSpec, id: &str) -> Vec<String> {
    // Work with a limit never runs into a window.
    let timed = spec.time_limit.is_some() && spec.tier != Tier::Reserved;
    if spec.checkpoint.is_none() && timed {
        return Vec::new();
    }
    let Ok(e) = client.explain(id).await else { return Vec::new() };
    let told = |name: &str| matches!(name, "checkpoint" | "window" | "tier");
    let notes = e.constraints.iter().filter(|c| told(&c.name));
    notes.map(|c| format!("note: {}", line(&c.detail))).collect()
}

/// Asks for the warnings and prints them.
pub(crate) async fn print(client: &Client, spec: &JobSpec, id: &str) {
    ask(client, spec, id).await.iter().for_each(|text| output::note(text));
}

/// Warnings that are asked for beside the job's output: the output does not wait for them.
#[derive(Debug)]
pub(crate) struct Warnings(Option<JoinHandle<Vec<String>>>);

impl Warnings {
    /// Asks for the warnings of a job.
    pub(crate) fn of(client: &Client, spec: JobSpec, id: &str) -> Warnings {
        let (client, id) = (client.clone(), id.to_owned());
        Warnings(Some(tokio::spawn(async move { ask(&client, &spec, &id).await })))
    }

    /// Is there an answer to wait for?
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_some()
    }

    /// The lines, given once.
    pub(crate) async fn lines(&mut self) -> Vec<String> {
        let Some(asked) = &mut self.0 else { return Vec::new() };
        let lines = asked.await.unwrap_or_default();
        self.0 = None;
        lines
    }
}
