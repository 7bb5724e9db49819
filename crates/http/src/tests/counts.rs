//! What the server counts about its own answers, and how often they are written to the log.

use super::{Site, site};
use muster_model::command::Command;
use muster_model::event::{Event, Record};
use muster_model::ids::Seq;
use muster_model::slo::{IndicatorCount, Objectives, Scope, Sli};
use muster_model::units::{Span, Time};
use muster_server::slo::ServedRequest;
use muster_slo::{Series, TimeRange};
use std::sync::Arc;
use std::time::Duration;

/// What was written to the log, record by record.
async fn indicator_counts(s: &Site) -> Vec<Vec<IndicatorCount>> {
    let counts = |r: Arc<Record>| match &r.event {
        Event::CountsReported { counts } => Some(counts.clone()),
        _ => None,
    };
    s.brain.records(Seq(0), 2048).await.unwrap().into_iter().filter_map(counts).collect()
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a IndicatorCount>) -> (u64, u64) {
    counts.into_iter().fold((0, 0), |(good, total), c| (good + c.good, total + c.total))
}

#[tokio::test]
async fn an_hour_in_which_all_is_well_is_twelve_records_and_a_failure_is_reported_at_once() {
    let s = site().await;
    let api = r#"{"name":"api","sli":"api_availability","target":"99.9%"}"#;
    let api = serde_json::from_str(api).unwrap();
    let objectives = Objectives { defaults: 0, objectives: vec![api], ..Objectives::default() };
    s.brain.system(Command::SetObjectives { objectives: Arc::new(objectives) }).await.unwrap();
    let counter = s.app.counter();
    // A whole hour. The server looks every 20 seconds; it is asked something once a minute.
    let start = Time(s.brain.now().0.div_euclid(3_600_000) * 3_600_000) - Span::hours(2);
    let look = |n: u64| counter.record_due_counts(&s.brain, start + Span::secs(20 * n));
    look(0).await;
    for n in 1..=177 {
        if n % 3 == 1 {
            assert_eq!(s.get(&s.operator, "/v1/jobs").await.status, 200);
        }
        look(n).await;
    }
    let all = indicator_counts(&s).await;
    assert_eq!(all.len(), 12, "{all:?}");
    assert_eq!(sum(all.iter().flatten()), (56, 56), "the last minutes are not reported yet");
    counter.served(ServedRequest { submits: false, status: 503, took: Duration::ZERO });
    look(178).await;
    let all = indicator_counts(&s).await;
    assert_eq!((all.len(), sum(all.iter().flatten())), (13, (59, 60)));
    // Each counts in its own minute, whenever it was written to the log.
    let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
    let lately = |minute| {
        let now = start + Span::mins(minute);
        let reach = TimeRange::Last(Span::mins(5));
        let count = s.brain.read(|state| state.slo.book.ledger.count(&series, reach, now));
        (count.good, count.total)
    };
    assert_eq!([5, 59, 60].map(lately), [(5, 5), (5, 5), (4, 5)]);
}

/// An answer about objectives names the record that it follows from: what was counted up to that record is
/// in it, however short ago somebody else asked.
#[tokio::test(flavor = "multi_thread")]
async fn objectives_are_shown_as_of_the_record_that_the_answer_names() {
    let s = site().await;
    let counter = s.app.counter();
    let bad =
        |slo: &serde_json::Value| slo["total"].as_u64().unwrap() - slo["good"].as_u64().unwrap();
    // From now on it knows what the objectives ask for.
    counter.record_due_counts(&s.brain, s.brain.now()).await;
    for failures in 1..=5 {
        assert_eq!(s.get(&s.admin, "/v1/slos").await.status, 200);
        counter.served(ServedRequest { submits: false, status: 503, took: Duration::ZERO });
        counter.flush_counts(&s.brain).await;
        let known = s.brain.durable();
        let least = [("muster-min-seq", &*known.to_string())];
        let none = serde_json::Value::Null;
        let got = s.call(&s.admin, "GET", "/v1/slos", &none, &least).await;
        assert!(got.header("muster-seq").parse::<u64>().unwrap() >= known.0);
        let all = got.json()["items"].clone();
        let listed = all.as_array().unwrap().iter().find(|o| o["name"] == "api-availability");
        let listed = listed.unwrap();
        assert_eq!(bad(listed), failures);
        let got = s.get(&s.admin, "/v1/slos/api-availability").await;
        assert!(got.header("muster-seq").parse::<u64>().unwrap() >= known.0);
        let one = got.json();
        assert_eq!(bad(&one), failures);
        let charted: u64 = one["chart"].as_array().unwrap().iter().map(bad).sum();
        assert_eq!(charted, failures, "a chart counts each once");
    }
}
