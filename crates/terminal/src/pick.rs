//! Finding what the user means: an id or a name, and "did you mean" when there is none.

use crate::fail::{Fail, NOT_FOUND};
use muster_api::{Job, JobsQuery};
use muster_client::{Client, ClientError};
use muster_model::job::ArrayTask;
use muster_model::names::Label;
use muster_specs::error::closest;

/// A word that names something says something: a script's variable may be empty.
pub fn not_empty(what: &str, given: &str) -> Result<(), Fail> {
    if given.is_empty() {
        return Err(Fail::usage(format!("the {what} is empty")));
    }
    Ok(())
}

/// `42` or `42_3`?
fn is_id(text: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('_') {
        Some((parent, index)) => digits(parent) && digits(index),
        None => digits(text),
    }
}

/// The job with this id, or the newest one with this name; of an array its first task.
pub async fn job(client: &Client, given: &str) -> Result<Job, Fail> {
    if is_id(given) {
        return match client.job(given).await {
            Err(e) if e.is_not_found() => Err(no_job(client, given, e).await),
            other => Ok(other?),
        };
    }
    if let Err(e) = given.parse::<Label>() {
        return Err(Fail::usage(e)
            .hint("a job is named by its id, like 42 or 42_3, or by its name: `muster ps -a`"));
    }
    let query = JobsQuery { name: Some(given.into()), limit: Some(1), ..JobsQuery::default() };
    let found = client.jobs(&query).await?;
    match found.items.into_iter().find(|j| j.name == given) {
        // A list says less of each job than the job itself does.
        Some(job) => match job.array {
            // The newest of an array is its last task; its name means what its id means.
            Some(array) => match client.job(&array.parent.to_string()).await {
                Err(e) if e.is_not_found() => Ok(client.job(&job.id).await?),
                first => Ok(first?),
            },
            None => Ok(client.job(&job.id).await?),
        },
        None => {
            let fail = Fail::new(NOT_FOUND, format!("there is no job called `{given}`"));
            if let Some(hint) = task_hint(client, given).await {
                return Err(fail.hint(hint));
            }
            let known = client.jobs(&JobsQuery { limit: Some(200), ..JobsQuery::default() }).await;
            let names: Vec<String> =
                known.map(|l| l.items.into_iter().map(|j| j.name).collect()).unwrap_or_default();
            Err(did_you_mean(fail, given, &names, "`muster ps -a` lists the jobs"))
        }
    }
}

/// `sweep_2`, where `sweep` is an array: its tasks go by its number.
async fn task_hint(client: &Client, given: &str) -> Option<String> {
    let (name, index) = given.rsplit_once('_')?;
    if name.is_empty() || index.is_empty() || !index.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let query = JobsQuery { name: Some(name.into()), limit: Some(1), ..JobsQuery::default() };
    let found = client.jobs(&query).await.ok()?;
    let array = found.items.into_iter().find(|j| j.name == name)?.array?;
    // An array need not have a task of this index.
    let task = client.job(&format!("{}_{index}", array.parent)).await.ok()?;
    Some(format!("task {index} of array `{name}` is {}", task.id))
}

/// The array that is meant: its plain id or its name was given, not one of its tasks.
#[must_use]
pub fn array(job: &Job, given: &str) -> Option<ArrayTask> {
    job.array.filter(|a| !is_id(given) || given == a.parent.to_string())
}

/// The tasks of an array in a state, as lists of jobs are asked for it; `task` is any of them.
pub async fn tasks_in(
    client: &Client,
    state: &str,
    task: &Job,
    array: ArrayTask,
) -> Result<Vec<Job>, Fail> {
    let query = JobsQuery {
        state: Some(state.into()),
        project: Some(task.project.clone()),
        name: Some(task.name.clone()),
        ..JobsQuery::default()
    };
    let same = client.jobs_up_to(&query, usize::MAX).await?.items.into_iter();
    Ok(same.filter(|j| j.array.is_some_and(|a| a.parent == array.parent)).collect())
}

/// Every job the user means: an array's id stands for all of its tasks.
pub async fn jobs(client: &Client, given: &str) -> Result<Vec<Job>, Fail> {
    let first = job(client, given).await?;
    let Some(array) = array(&first, given) else {
        return Ok(vec![first]);
    };
    let mut tasks = Vec::new();
    for n in 0..u64::from(array.count) {
        match client.job(&(array.parent.0 + n).to_string()).await {
            Ok(job) => tasks.push(job),
            // Tasks that ended long ago may have left the working state.
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(tasks)
}

async fn no_job(client: &Client, given: &str, e: ClientError) -> Fail {
    let mut fail = Fail::from(e);
    if fail.hint.is_none() {
        let newest = client.jobs(&JobsQuery { limit: Some(1), ..JobsQuery::default() }).await;
        fail.hint = Some(match newest.ok().and_then(|l| l.items.into_iter().next()) {
            Some(j) if j.id != given => {
                format!("the newest job is {} ({}); `muster ps -a` lists all", j.id, j.name)
            }
            _ => "`muster ps -a` lists the jobs".into(),
        });
    }
    fail
}

/// Turns "no such node" into one that names the likeliest node.
pub async fn with_node_hint(client: &Client, given: &str, e: ClientError) -> Fail {
    if !e.is_not_found() {
        return e.into();
    }
    let fail = Fail::from(e);
    let nodes = client.all_nodes(None).await.unwrap_or_default();
    let names: Vec<String> = nodes.into_iter().map(|n| n.name).collect();
    did_you_mean(fail, given, &names, "`muster nodes` lists the nodes")
}

/// An empty list about a node says nothing when there is no such node: then that is the answer.
pub async fn known_node(client: &Client, given: Option<&str>) -> Result<(), Fail> {
    let Some(given) = given else { return Ok(()) };
    match client.node(given).await {
        Ok(_) => Ok(()),
        Err(e) => Err(with_node_hint(client, given, e).await),
    }
}

/// Where several nodes are given: all of them are there. A wrong name among them is the answer
/// before anything was done to the others.
pub async fn known_nodes(client: &Client, given: &[String]) -> Result<(), Fail> {
    if given.len() > 1 {
        for name in given {
            known_node(client, Some(name.as_str())).await?;
        }
    }
    Ok(())
}

fn did_you_mean(mut fail: Fail, given: &str, known: &[String], otherwise: &str) -> Fail {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    fail.hint = Some(match closest(given, &known) {
        Some(near) => format!("did you mean `{near}`? {otherwise}"),
        None => otherwise.into(),
    });
    fail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinguished_from_names() {
        for id in ["42", "42_3"] {
            assert!(is_id(id), "{id}");
        }
        for name in ["", "_", "42_", "_3", "train", "4a", "42_3_1", "42.1"] {
            assert!(!is_id(name), "{name}");
        }
    }

    #[tokio::test]
    async fn what_no_job_can_be_called_is_wrong_usage() {
        // Nobody is asked.
        let client = Client::new("http://127.0.0.1:1", None).expect("a good address");
        for given in ["", "-1", "a b", "42_"] {
            let e = job(&client, given).await.expect_err(given);
            assert_eq!(e.code, crate::fail::USAGE, "{given}");
            assert!(e.message.contains(&format!("`{given}` is not a valid name")), "{}", e.message);
        }
    }

    #[test]
    fn the_likeliest_name_is_offered() {
        let known = ["hgx-0001".to_owned(), "hgx-0002".to_owned()];
        let f = did_you_mean(Fail::new(3, "no"), "hgx-001", &known, "list");
        assert!(f.hint.is_some_and(|h| h.contains("did you mean `hgx-000")));
    }
}
