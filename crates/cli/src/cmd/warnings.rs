//! What whoever submits a job should know at once. Nothing depends on it: the job is submitted, and
//! its id was said. The answer to the submission says whether there is anything to ask for.

use muster_api::{Job, Submitted};
use muster_client::Client;
use muster_terminal::clean::line;
use muster_terminal::output;
use tokio::task::JoinHandle;

/// The lines for people; none where they cannot be asked for.
async fn ask(client: &Client, id: &str) -> Vec<String> {
    let Ok(e) = client.explain(id).await else { return Vec::new() };
    let notes = e.constraints.iter().filter(|c| c.warning);
    notes.map(|c| format!("note: {}", line(&c.detail))).collect()
}

/// Prints the warnings of what was submitted.
pub(crate) async fn print(client: &Client, submitted: &Submitted) {
    if submitted.has_warnings() {
        ask(client, submitted.id()).await.iter().for_each(|text| output::note(text));
    }
}

/// Warnings that are asked for beside the job's output: the output does not wait for them.
#[derive(Debug)]
pub(crate) struct Warnings(Option<JoinHandle<Vec<String>>>);

impl Warnings {
    /// Asks for the warnings of a job that was just submitted, if it has any.
    pub(crate) fn of(client: &Client, job: &Job) -> Warnings {
        let (client, id) = (client.clone(), job.id.clone());
        let asked = async move { ask(&client, &id).await };
        Warnings(job.has_warnings.then(|| tokio::spawn(asked)))
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
