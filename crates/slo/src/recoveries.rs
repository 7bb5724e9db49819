//! Which recoveries are counted: those from hardware alone, each once, also where it becomes known only after
//! the job runs again that hardware made one necessary.

use muster_model::ids::JobId;
use muster_model::job::{Job, Recovery};
use std::collections::BTreeMap;

/// What was counted of the recoveries that jobs still know.
#[derive(Debug, Clone, Default)]
pub struct CountedRecoveries {
    jobs: BTreeMap<JobId, Vec<Counted>>,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    attempt: u32,
    /// Its first step is counted, too.
    worked: bool,
}

/// What is to be counted of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRecovery {
    /// The recovery.
    pub recovery: Recovery,
    /// All ranks are up again, which was not counted before.
    pub resumed: bool,
    /// It made its first step, which was not counted before.
    pub worked: bool,
}

impl CountedRecoveries {
    /// What is to be counted of a job now: by its verdicts as they are now, and nothing twice.
    pub fn count(&mut self, job: &Job) -> Vec<NewRecovery> {
        let mut counted = self.jobs.remove(&job.id).unwrap_or_default();
        counted.retain(|c| job.recovery_from(c.attempt).is_some());
        let mut new = Vec::new();
        for r in job.recoveries_from_hardware() {
            let known = counted.iter_mut().find(|c| c.attempt == r.attempt);
            let works = r.working_at.is_some();
            let (resumed, worked) = match known {
                None => {
                    counted.push(Counted { attempt: r.attempt, worked: works });
                    (true, works)
                }
                Some(c) => (false, works && !std::mem::replace(&mut c.worked, works)),
            };
            if resumed || worked {
                new.push(NewRecovery { recovery: *r, resumed, worked });
            }
        }
        if !counted.is_empty() {
            self.jobs.insert(job.id, counted);
        }
        new
    }

    /// The job is not known any more.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::job::{PastAttempt, Verdict};
    use muster_model::units::Time;

    fn job() -> Job {
        let text = r#"{"id":1,"name":"j","project":"p","user":"u","spec":{"priority":"high"},"groups":[],
            "payload":1,"depends":[],"state":"running","submitted_at":0,"past":[],"attempts":1,
            "infrastructure_failures":0,"application_failures":0,"version":1}"#;
        serde_json::from_str(text).unwrap()
    }

    fn past(no: u32, verdict: Verdict) -> PastAttempt {
        PastAttempt {
            no,
            nodes: Vec::new(),
            placed_at: Time(0),
            started_at: Some(Time(0)),
            ended_at: Time(10),
            freed_at: None,
            stopped_at: None,
            verdict,
            reason: String::new(),
            findings: Vec::new(),
            stopped_for: None,
        }
    }

    fn recovery(attempt: u32, started_at: Option<Time>) -> Recovery {
        Recovery {
            attempt,
            finding: None,
            fault_at: Time(0),
            found_at: Time(0),
            decided_at: Time(0),
            drained_at: None,
            placed_at: None,
            started_at,
            working_at: None,
            held: None,
        }
    }

    /// Attempts whose recoveries are counted now.
    fn count(counted: &mut CountedRecoveries, job: &Job) -> Vec<(u32, bool, bool)> {
        let all = counted.count(job);
        all.iter().map(|n| (n.recovery.attempt, n.resumed, n.worked)).collect()
    }

    #[test]
    fn a_recovery_that_is_explained_late_counts_once() {
        let (mut j, mut counted) = (job(), CountedRecoveries::default());
        j.past = vec![past(1, Verdict::Unknown)];
        j.recovery = Some(recovery(1, Some(Time(20))));
        assert!(count(&mut counted, &j).is_empty(), "nobody knows what failed it");
        // It runs again when a finding explains it.
        j.past[0].verdict = Verdict::Infrastructure;
        assert_eq!(count(&mut counted, &j), [(1, true, false)]);
        assert!(count(&mut counted, &j).is_empty(), "once");
        j.recovery.as_mut().unwrap().working_at = Some(Time(30));
        assert_eq!(count(&mut counted, &j), [(1, false, true)]);
        assert!(count(&mut counted, &j).is_empty());
        // The next failure has begun: what is over is still known, and counted already.
        j.recovered = j.recovery.replace(recovery(2, None));
        j.past.push(past(2, Verdict::Unknown));
        assert!(count(&mut counted, &j).is_empty());
        j.recovery = Some(recovery(2, Some(Time(50))));
        j.past[1].verdict = Verdict::Infrastructure;
        assert_eq!(count(&mut counted, &j), [(2, true, false)]);
        counted.forget(j.id);
        assert!(counted.jobs.is_empty());
    }

    #[test]
    fn what_the_job_did_itself_and_what_is_not_kept_counts_nowhere() {
        let (mut j, mut counted) = (job(), CountedRecoveries::default());
        j.recovery = Some(recovery(1, Some(Time(20))));
        for verdict in [Verdict::Application, Verdict::Platform, Verdict::Unknown] {
            j.past = vec![past(1, verdict)];
            assert!(count(&mut counted, &j).is_empty(), "{verdict:?}");
        }
        // Of many attempts only the last are kept.
        j.past = vec![past(70, Verdict::Infrastructure)];
        assert!(count(&mut counted, &j).is_empty());
    }
}
