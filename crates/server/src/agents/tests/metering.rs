//! What ranks and GPUs report ends up in the figures of their job.

use super::support::{node, script, site, spec};
use crate::metering::JobMetrics;
use muster_link::messages::{FromAgent, FromServer, ProgressReport, Telemetry};
use muster_metering::Part;
use muster_model::command::Observed;
use muster_model::job::{JobState, SlotEnd};
use muster_model::units::Time;
use std::collections::BTreeMap;

fn row(util: f32, energy: f32) -> FromAgent {
    let gpu = vec![Some(util), Some(600.0), Some(40_960.0), None, Some(energy)];
    FromAgent::Telemetry(Box::new(Telemetry {
        at: Time(5),
        columns: ["util", "power", "mem_used", "sm_active", "energy"].map(String::from).to_vec(),
        gpus: vec![gpu; 8],
        host: BTreeMap::new(),
    }))
}

fn covers(f: &JobMetrics) {
    assert_eq!(f.goodput.time.total(), u128::from(f.goodput.wall.0), "{f:#?}");
}

#[tokio::test]
async fn steps_rows_and_checkpoints_are_reported_with_the_job() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("train")).await;
    let key = s.runs(job, &mut line).await;
    // A row from before it ran, and one of a GPU that it does not hold, are not its.
    let ranks = s.job(job).attempt.as_ref().unwrap().placement.slots[0].clone();
    for n in 1..=3u8 {
        line.say(row(90.0, 1000.0 * f32::from(n))).await;
        for rank in 0..ranks.ranks {
            let stages = [("compute".to_string(), 0.3), ("comm".to_string(), 0.1)].into();
            let report =
                ProgressReport::Step { step: u64::from(n), t: Some(0.4), stages, loss: None };
            line.say(FromAgent::Progress { key, rank, report }).await;
        }
    }
    let report = ProgressReport::Checkpoint {
        state: "done".into(),
        step: Some(3),
        path: None,
        bytes: None,
        blocked_s: Some(0.001),
    };
    line.say(FromAgent::Progress { key, rank: 0, report }).await;
    s.until(|st| st.jobs[&job].checkpoint.is_some()).await;
    let f = s.agents.metering().job_metrics(&s.job(job)).await;
    covers(&f);
    let used = f.used.clone().expect("rows were reported");
    assert!(used.whole, "this server was there from its beginning");
    assert_eq!((used.attempt, used.what.gpus), (1, ranks.gpus.len()));
    assert_eq!(used.what.rows, 3 * u64::from(ranks.gpus.len()));
    assert_eq!((used.what.util, used.what.sm), (Some(900), None));
    assert_eq!((used.what.power_mw, used.what.memory_peak), (Some(600_000), Some(40_960)));
    assert_eq!(used.what.energy_j, Some(2000 * u64::from(ranks.gpus.len())));
    let pace = f.pace.expect("steps were reported").what;
    assert_eq!((pace.step, pace.ranks, pace.step_us), (3, ranks.ranks, Some(400_000)));
    assert_eq!(pace.stages[0], ("compute".to_string(), 300_000));
    assert_eq!(f.goodput.attempts[0].checkpoints, 1);
    // The same, rank beside rank in time.
    let bins = muster_metering::Bins::until(s.brain.now());
    let (no, recent) = s.agents.metering().recent(job, None).expect("it was heard");
    assert_eq!((no, recent.placement.slots.len(), recent.checkpoints.len()), (1, 1, 1));
    let steps = recent.track.line(0, bins).expect("its steps");
    assert_eq!(muster_metering::track::mean(&steps), Some(400.0));
    assert_eq!(recent.track.ranks().count(), usize::try_from(ranks.ranks).unwrap());

    // It ends well: what was reported of it is still known.
    line.say(FromAgent::Report { key, observed: Observed::Ended(SlotEnd::Ok), ago: None }).await;
    s.until(|st| st.jobs[&job].state == JobState::Succeeded).await;
    let f = s.agents.metering().job_metrics(&s.job(job)).await;
    covers(&f);
    assert_eq!((f.goodput.time.get(Part::Lost), f.goodput.interruptions), (0, 0));
    assert_eq!(f.goodput.verdicts, BTreeMap::from([("success", 1)]));
    assert_eq!(f.used.map(|u| u.what.rows), Some(used.what.rows));
}

#[tokio::test]
async fn a_lost_attempt_is_read_from_the_log() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("train")).await;
    let key = s.runs(job, &mut line).await;
    let fault = SlotEnd::fault("a GPU fell off the bus");
    line.say(FromAgent::Report { key, observed: Observed::Ended(fault), ago: None }).await;
    s.until(|st| !st.jobs[&job].past.is_empty()).await;
    let f = s.agents.metering().job_metrics(&s.job(job)).await;
    covers(&f);
    assert_eq!((f.goodput.interruptions, f.goodput.complete), (1, true));
    assert!(f.goodput.attempts[0].time.get(Part::Productive) == 0, "{f:#?}");
    assert!(f.used.is_none() && f.pace.is_none());
    // Its node does not count while nothing of it runs there.
    line.say(row(90.0, 1.0)).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    let f = s.agents.metering().job_metrics(&s.job(job)).await;
    covers(&f);
    assert!(f.used.is_none() && s.agents.telemetry(&node("n1")).is_some());
}
