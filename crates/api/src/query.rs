//! What may stand behind the `?` of an address.

use crate::Timestamp;
use muster_model::job::JobState;
use serde::{Deserialize, Serialize};

/// `POST /v1/jobs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct SubmitQuery {
    /// Only show what would happen.
    pub dry_run: bool,
}

/// `PUT /v1/reservations/{name}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct SetReservationQuery {
    /// Only say which nodes it would cover, which jobs it would stop and which nodes take no work now.
    pub dry_run: bool,
    /// Refuse with 409 where another reservation has that name; without it that one is replaced.
    pub create: bool,
}

/// `PUT /v1/policy`, `PUT /v1/quotas` and `PUT /v1/routing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct SetDocumentQuery {
    /// Only check it: the answer says what it would be, and nothing is changed.
    pub dry_run: bool,
}

/// `POST /v1/jobs/ID/requeue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct RequeueQuery {
    /// Every task of an array, not only those that failed or were cancelled.
    pub all: bool,
}

/// `GET /v1/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct JobsQuery {
    /// Only jobs in this state; several are separated by commas; `active` means not yet ended, `held` queued and held.
    pub state: Option<String>,
    /// Only this project's.
    pub project: Option<String>,
    /// Only this user's.
    pub user: Option<String>,
    /// Only jobs with this name.
    pub name: Option<String>,
    /// Only jobs whose name begins with this.
    pub prefix: Option<String>,
    /// Only jobs that ask for this SKU, or have GPUs of it now.
    pub sku: Option<String>,
    /// Only jobs with this tag: `KEY=VALUE`, or `KEY` with any value.
    pub tag: Option<String>,
    /// Only jobs that are queued and held (`true`), or all others (`false`); both when absent.
    pub held: Option<bool>,
    /// Of the jobs that have ended, those that ended last, latest first: one page, without a cursor.
    pub last_ended: bool,
    /// Order: `id`, `name`, `project`, `user`, `state`, `gpus`, `priority`, `submitted`, `started` or `duration`
    /// (from the first start to the end, or until now); with `-` before it the largest or newest first. Jobs
    /// without such a value come last. Newest first when absent.
    pub sort: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct NodesQuery {
    /// Only nodes in this state (as in `state`); several are separated by commas.
    pub state: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/faults`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct FaultsQuery {
    /// Only this node's.
    pub node: Option<String>,
    /// Only faults of this code, such as `xid-79`.
    pub code: Option<String>,
    /// Only faults that interrupted this job: its number.
    pub job: Option<u64>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct EventsQuery {
    /// Only events after this one: a sequence number, or the cursor of a page.
    pub after: Option<String>,
    /// Only events before this one, newest first: a sequence number, or the cursor of a page.
    pub before: Option<String>,
    /// Which events come first.
    pub order: EventOrder,
    /// Only events of this moment or later.
    pub from: Option<Timestamp>,
    /// Only events before this moment.
    pub to: Option<Timestamp>,
    /// Only events of this kind; several are separated by commas; `node_*` means all that begin so.
    pub kind: Option<String>,
    /// Only what this actor caused: `user:ann`, or `ann`.
    pub actor: Option<String>,
    /// Only events about this: `job:42`, `node:hgx-01`, `project:nlp`, `finding:7`, `gpu:hgx-01/3`, …
    pub object: Option<String>,
    /// Only events with this text somewhere in them, in capital or small letters; at most 200 characters.
    pub text: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// Which events come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventOrder {
    /// The oldest.
    #[default]
    Oldest,
    /// The newest.
    Newest,
}

impl EventOrder {
    /// The word in a query.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EventOrder::Oldest => "oldest",
            EventOrder::Newest => "newest",
        }
    }
}

/// `GET /v1/jobs/{id}/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct LogsQuery {
    /// Only this rank's.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u64>, maximum = 4294967295u64))]
    pub rank: Option<u32>,
    /// This attempt's; the newest when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u64>, maximum = 4294967295u64))]
    pub attempt: Option<u32>,
    /// Stay and send what comes, until the job has ended.
    pub follow: bool,
    /// Only the last so many lines of each rank.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u64>, maximum = 4294967295u64))]
    pub tail: Option<u32>,
    /// When each piece came (`at`); in plain text before each line.
    pub timestamps: bool,
    /// Only output of this moment or later; output whose time is not known is left out.
    pub since: Option<Timestamp>,
}

/// `…?project=`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct ProjectQuery {
    /// The project; the caller's own when absent.
    pub project: Option<String>,
}

/// `GET /v1/findings`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct FindingsQuery {
    /// Only open ones (`true`) or closed ones (`false`); all when absent.
    pub open: Option<bool>,
    /// Only findings on this node.
    pub node: Option<String>,
    /// Only findings of this failure mode, such as `gpu-off-bus`.
    pub kind: Option<String>,
    /// Only findings at least so bad: `info`, `warning`, `degraded` or `critical`.
    pub severity: Option<String>,
    /// Only findings that interrupted this job or are about it: its number.
    pub job: Option<u64>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/incidents`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct IncidentsQuery {
    /// Only open ones (`true`) or closed ones (`false`); all when absent.
    pub open: Option<bool>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/alerts`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct AlertsQuery {
    /// Only open ones (`true`) or those that are over (`false`); all when absent.
    pub open: Option<bool>,
    /// Only `page` or `ticket`.
    pub urgency: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/slos/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct SloQuery {
    /// The chart's hours, at most 2160; the objective's window when absent.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 2160))]
    pub hours: Option<u32>,
}

/// `GET /v1/remediations`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct RemediationsQuery {
    /// Only active ones (`true`) or ended ones (`false`); all when absent.
    pub open: Option<bool>,
    /// Only this node's.
    pub node: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/runbook-runs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct RunsQuery {
    /// Only active ones (`true`) or ended ones (`false`); all when absent.
    pub open: Option<bool>,
    /// Only of this runbook.
    pub runbook: Option<String>,
    /// Only about this node.
    pub node: Option<String>,
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// `GET /v1/nodes/{name}/timeline`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct TimelineQuery {
    /// At most so many.
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// Most words of a filter.
const MAX_WORDS: usize = 64;

/// The states that are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobStates {
    states: Vec<JobState>,
    /// Also those that are queued and held, whether or not `states` has the queued ones.
    held: bool,
}

impl JobStates {
    /// Is a job in this state, held or not, among what is asked for?
    #[must_use]
    pub fn fits(&self, state: JobState, held: bool) -> bool {
        self.states.contains(&state) || (self.held && held && state == JobState::Queued)
    }
}

impl JobsQuery {
    /// The states that are asked for, to be found out once and not for every job; an error names
    /// the word that is no state.
    pub fn states(&self) -> Result<JobStates, String> {
        let Some(words) = &self.state else {
            return Ok(JobStates { states: JobState::ALL.to_vec(), held: true });
        };
        let mut wanted = JobStates::default();
        for (n, word) in words.split(',').map(str::trim).enumerate() {
            if n == MAX_WORDS {
                return Err(format!("more than {MAX_WORDS} states are named: name each once"));
            }
            // What lists print for a queued job that is held.
            if word == "held" {
                wanted.held = true;
                continue;
            }
            let known = wanted.states.len();
            wanted.states.extend(JobState::ALL.iter().filter(|s| match word {
                "active" => !s.is_final(),
                "ended" => s.is_final(),
                _ => s.word() == word,
            }));
            if wanted.states.len() == known {
                let given: String = word.chars().take(40).flat_map(char::escape_debug).collect();
                return Err(format!(
                    "`{given}` is not a state: use queued, held, starting, running, stopping, \
                     succeeded, failed, cancelled, active or ended"
                ));
            }
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_chosen_by_word_and_a_wrong_word_is_named() {
        let q = |s: &str| JobsQuery { state: Some(s.into()), ..JobsQuery::default() };
        let active = q("active").states().unwrap();
        assert!(active.fits(JobState::Queued, false) && !active.fits(JobState::Failed, false));
        let two = q("failed, queued").states().unwrap();
        assert_eq!(two.states, [JobState::Failed, JobState::Queued]);
        assert!(two.fits(JobState::Queued, true), "one that is held is queued all the same");
        let held = q("held,running").states().unwrap();
        assert!(held.fits(JobState::Queued, true) && held.fits(JobState::Running, false));
        assert!(!held.fits(JobState::Queued, false) && !held.fits(JobState::Failed, true));
        assert!(q("failing").states().unwrap_err().contains("failing"));
        assert!(q("queued,").states().is_err());
        assert_eq!(JobsQuery::default().states().unwrap().states, JobState::ALL);
        assert!(q(&["queued"; 65].join(",")).states().unwrap_err().contains("more than 64"));
    }
}
