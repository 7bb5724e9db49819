use super::*;
use crate::clock::ClockStep;
use crate::event::Record;
use crate::ids::{AttemptKey, Epoch, JobId, Seq};
use crate::units::{Span, Time};

/// As the log has them since its first version.
fn written() -> Vec<(Event, &'static str)> {
    let leader =
        |first_job| Event::LeaderChanged { epoch: Epoch(2), server: "s".into(), first_job };
    let step = |node: Option<&str>| {
        let node = node.map(|n| n.parse().unwrap());
        let (before, after) = (Time(7), Time(2));
        Event::ClockStepped(ClockStep { node, by_ms: -5, since_boot: Span(9), before, after })
    };
    let key = AttemptKey { job: JobId(4), attempt: 1 };
    vec![
        (leader(None), r#""kind":"leader_changed","data":{"epoch":2,"server":"s"}"#),
        (
            leader(Some(JobId(9))),
            r#""kind":"leader_changed","data":{"epoch":2,"server":"s","first_job":9}"#,
        ),
        (
            Event::JobReleased { job: JobId(4), decided: false },
            r#""kind":"job_released","data":{"job":4}"#,
        ),
        (
            Event::JobReleased { job: JobId(4), decided: true },
            r#""kind":"job_released","data":{"job":4,"decided":true}"#,
        ),
        (
            Event::AttemptStarted { key, deadline: None },
            r#""kind":"attempt_started","data":{"key":{"job":4,"attempt":1},"deadline":null}"#,
        ),
        (
            step(None),
            r#""kind":"clock_stepped","data":{"by_ms":-5,"since_boot":"9ms","before":7,"after":2}"#,
        ),
        (
            step(Some("n1")),
            r#""kind":"clock_stepped","data":{"node":"n1","by_ms":-5,"since_boot":"9ms","before":7,"after":2}"#,
        ),
    ]
}

#[test]
fn kind_and_data_stand_beside_each_other() {
    for (event, text) in written() {
        let alone = serde_json::to_vec(&event).unwrap();
        assert_eq!(String::from_utf8(alone).unwrap(), format!("{{{text}}}"));
        let mut record = Record {
            seq: Seq(3),
            at: Time(5),
            v: 1,
            org: "o".into(),
            project: None,
            actor: "a".into(),
            key: None,
            event,
        };
        let line = |r: &Record| String::from_utf8(r.to_json().unwrap()).unwrap();
        let short = format!(r#"{{"seq":3,"at":5,"v":1,"org":"o","actor":"a",{text}}}"#);
        assert_eq!(line(&record), short);
        record.project = Some("p".parse().unwrap());
        record.key = Some(crate::command::IdempotencyKey {
            key: "k".into(),
            fingerprint: "f".into(),
            keep_until: Time(8),
        });
        let key = r#"{"key":"k","fingerprint":"f","keep_until":8}"#;
        let whole = format!(
            r#"{{"seq":3,"at":5,"v":1,"org":"o","project":"p","actor":"a","key":{key},{text}}}"#
        );
        assert_eq!(line(&record), whole);
    }
}
