use super::*;
use muster_model::alert::Topic;
use proptest::prelude::*;
use std::collections::BTreeSet;

const T0: Time = Time(1_800_000_000_000);

fn at(secs: u64) -> Time {
    T0 + Span::secs(secs)
}

fn routing(extra: &str) -> Routing {
    let text = format!(
        r#"{{"receivers":[
            {{"name":"pager","by":{{"webhook":{{"url":"http://p"}}}}}},
            {{"name":"am","by":{{"alertmanager":{{"url":"http://am"}}}}}},
            {{"name":"boss","by":{{"slack":{{"url_secret":"s"}}}}}},
            {{"name":"mute","resolved":false,"by":{{"webhook":{{"url":"http://m"}}}}}}],
          "routes":[{extra}]}}"#
    );
    let routing: Routing = serde_json::from_str(&text).unwrap();
    assert_eq!(routing.check(), Ok(()));
    routing
}

fn alert(id: &str, urgency: Urgency, loud: Time) -> Alert {
    Alert {
        id: id.to_owned(),
        group: format!("g-{id}"),
        topic: Topic::Finding,
        kind: "gpu-off-bus".to_owned(),
        cause: "node:n1".parse().unwrap(),
        above: vec![],
        urgency,
        state: AlertState::Firing,
        summary: "s".to_owned(),
        owner: String::new(),
        project: None,
        runbook: String::new(),
        link: String::new(),
        members: vec![],
        paged: false,
        objectives: vec![],
        count: 1,
        jobs: 0,
        gpus: 0,
        since: loud,
        raised_at: loud,
        changed_at: loud,
        loud_since: Some(loud),
        silenced: None,
        gone_since: None,
        level: 0,
        acknowledged: None,
        resolved_at: None,
        merged_into: None,
    }
}

fn resolve(a: &mut Alert, at: Time) {
    (a.state, a.resolved_at) = (AlertState::Resolved, Some(at));
}

fn map(alerts: &[Alert]) -> BTreeMap<String, Alert> {
    alerts.iter().map(|a| (a.id.clone(), a.clone())).collect()
}

fn names(letters: &[Notification]) -> Vec<(String, Vec<(String, AlertChange)>)> {
    letters.iter().map(|l| (l.to.to_string(), l.alerts.clone())).collect()
}

fn one(to: &str, id: &str, news: AlertChange) -> (String, Vec<(String, AlertChange)>) {
    (to.to_owned(), vec![(id.to_owned(), news)])
}

#[test]
fn first_news_repeats_and_the_end() {
    let r = routing(r#"{"to":["pager","mute"],"wait":"30s","repeat":"4h"}"#);
    let mut alerts = map(&[alert("a", Urgency::Page, T0)]);
    let mut desk = NotificationState::default();
    assert_eq!(desk.due(at(29), &alerts, &r), vec![]);
    assert_eq!(desk.next_due(&alerts, &r), Some(at(30)));
    let letters = desk.due(at(30), &alerts, &r);
    assert_eq!(
        names(&letters),
        vec![one("mute", "a", AlertChange::Firing), one("pager", "a", AlertChange::Firing)]
    );
    letters.iter().for_each(|l| desk.sent(at(30), l, &alerts));
    assert_eq!(desk.due(at(31), &alerts, &r), vec![]);
    assert_eq!(desk.next_due(&alerts, &r), Some(at(30 + 4 * 3600)));
    let again = desk.due(at(30 + 4 * 3600), &alerts, &r);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|l| l.alerts[0].1 == AlertChange::Still));
    resolve(alerts.get_mut("a").unwrap(), at(100));
    let end = desk.due(at(100), &alerts, &r);
    assert_eq!(names(&end), vec![one("pager", "a", AlertChange::Over)]);
    assert!(!desk.is_settled(&alerts["a"], &r));
    desk.sent(at(101), &end[0], &alerts);
    assert!(desk.is_settled(&alerts["a"], &r));
    assert_eq!((desk.due(at(9_999_999), &alerts, &r), desk.next_due(&alerts, &r)), (vec![], None));
    desk.tidy(&BTreeMap::new(), &r);
    assert_eq!(desk, NotificationState::default());
}

#[test]
fn an_alert_that_somebody_escalates_is_owed_to_the_next_step_at_once() {
    let r = routing(
        r#"{"to":["pager"],"escalate":[{"after":"15m","to":["boss"]},{"after":"1h","to":["mute"]}]}"#,
    );
    let desk = NotificationState::default();
    let mut a = alert("a", Urgency::Page, T0);
    let to = |a: &Alert| -> BTreeSet<String> {
        let letters = desk.due(at(60), &map(std::slice::from_ref(a)), &r);
        letters.iter().map(|l| l.to.to_string()).filter(|n| n != "pager").collect()
    };
    assert_eq!(to(&a), BTreeSet::new());
    (a.level, a.changed_at) = (1, at(50));
    assert_eq!(to(&a), BTreeSet::from(["boss".to_owned()]));
    a.level = 2;
    assert_eq!(to(&a), BTreeSet::from(["boss".to_owned(), "mute".to_owned()]));
    a.state = AlertState::Acknowledged;
    assert_eq!(to(&a), BTreeSet::new());
}

#[test]
fn what_was_never_announced_is_never_over() {
    let r = routing(r#"{"to":["pager"],"wait":"30s"}"#);
    let desk = NotificationState::default();
    let mut short = alert("a", Urgency::Page, T0);
    resolve(&mut short, at(20));
    let mut merged = alert("b", Urgency::Page, T0);
    resolve(&mut merged, at(50));
    merged.merged_into = Some("g".to_owned());
    let mut silenced = alert("c", Urgency::Page, T0);
    silenced.loud_since = None;
    resolve(&mut silenced, at(5000));
    for a in [short, merged, silenced] {
        assert!(desk.is_settled(&a, &r), "{}", a.id);
        assert_eq!(desk.due(at(100_000), &map(&[a]), &r), vec![]);
    }
}

#[test]
fn a_new_receiver_gets_nothing_of_what_was_over_before_it_was_named() {
    let r = routing(r#"{"to":["pager"],"wait":"30s"}"#);
    let mut old = alert("a", Urgency::Page, T0);
    resolve(&mut old, at(100));
    let open = alert("b", Urgency::Page, at(50));
    let mut later = alert("c", Urgency::Page, at(300));
    resolve(&mut later, at(400));
    let alerts = map(&[old.clone(), open, later]);
    let mut desk = NotificationState::default();
    desk.rerouted(at(200), &Routing::default(), &r);
    desk.tidy(&alerts, &r);
    // What goes on is news to it, and what ends while it is away.
    let all = vec![("b".to_owned(), AlertChange::Firing), ("c".to_owned(), AlertChange::Firing)];
    let reported = names(&desk.due(at(500), &alerts, &r));
    assert_eq!(reported.into_iter().flat_map(|(_, a)| a).collect::<Vec<_>>(), all);
    assert!(desk.is_settled(&old, &r));
    // The same for the desk of the server that sends, which remembers for itself.
    let mut copy = NotificationState::default();
    assert!(!copy.is_settled(&old, &r));
    copy.copy_receivers_from(&desk);
    assert!(copy.is_settled(&old, &r));
    // One that was named before is owed it all the same: it was away.
    let mut kept = NotificationState::default();
    kept.rerouted(at(200), &r, &r);
    assert!(!kept.is_settled(&old, &r));
}

#[test]
fn worse_is_reported_at_once_and_an_answer_ends_the_reminders() {
    let r = routing(r#"{"to":["pager","am"],"wait":"0s","repeat":"1h"}"#);
    let mut alerts = map(&[alert("a", Urgency::Ticket, T0)]);
    let mut desk = NotificationState::default();
    let send = |desk: &mut NotificationState, t: Time, alerts: &BTreeMap<String, Alert>| {
        let letters = desk.due(t, alerts, &r);
        letters.iter().for_each(|l| desk.sent(t, l, alerts));
        names(&letters)
    };
    assert_eq!(send(&mut desk, at(0), &alerts).len(), 2);
    let a = alerts.get_mut("a").unwrap();
    (a.urgency, a.changed_at) = (Urgency::Page, at(10));
    assert_eq!(
        send(&mut desk, at(10), &alerts),
        vec![one("am", "a", AlertChange::Worse), one("pager", "a", AlertChange::Worse)]
    );
    alerts.get_mut("a").unwrap().state = AlertState::Acknowledged;
    // An Alertmanager would take it for over.
    assert_eq!(send(&mut desk, at(70), &alerts), vec![one("am", "a", AlertChange::Still)]);
    assert_eq!(send(&mut desk, at(100_000), &alerts), vec![one("am", "a", AlertChange::Still)]);
    // A silence takes away every reminder.
    alerts.get_mut("a").unwrap().loud_since = None;
    assert_eq!(send(&mut desk, at(200_000), &alerts), vec![]);
}

#[test]
fn others_are_notified_when_nobody_answers() {
    let r = routing(r#"{"to":["pager"],"wait":"0s","escalate":[{"after":"15m","to":["boss"]}]}"#);
    let mut alerts = map(&[alert("a", Urgency::Page, T0)]);
    let mut desk = NotificationState::default();
    for l in desk.due(at(0), &alerts, &r) {
        desk.sent(at(0), &l, &alerts);
    }
    assert_eq!(desk.due(at(899), &alerts, &r), vec![]);
    let late = desk.due(at(900), &alerts, &r);
    assert_eq!(names(&late), vec![one("boss", "a", AlertChange::Firing)]);
    alerts.get_mut("a").unwrap().state = AlertState::Acknowledged;
    assert_eq!(desk.due(at(900), &alerts, &r), vec![]);
    alerts.get_mut("a").unwrap().state = AlertState::Firing;
    desk.sent(at(900), &late[0], &alerts);
    resolve(alerts.get_mut("a").unwrap(), at(1000));
    assert_eq!(desk.due(at(1000), &alerts, &r).len(), 2);
}

#[test]
fn messages_are_bundled_as_the_route_says() {
    let r = routing(r#"{"to":["pager"],"wait":"0s","group_by":["urgency"]}"#);
    let all: Vec<Alert> = (0..250)
        .map(|n| {
            alert(&format!("{n:03}"), if n % 5 == 0 { Urgency::Page } else { Urgency::Ticket }, T0)
        })
        .collect();
    let letters = NotificationState::default().due(at(0), &map(&all), &r);
    let sizes: Vec<usize> = letters.iter().map(|l| l.alerts.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 250);
    assert_eq!(sizes.len(), 3, "50 pages, 200 tickets in parts of 100: {sizes:?}");
}

#[test]
fn a_receiver_that_is_away_for_weeks_gets_everything() {
    let r = routing(r#"{"to":["pager"],"wait":"30s"}"#);
    let mut desk = NotificationState::default();
    let mut alerts = BTreeMap::new();
    let (pager, mut tries): (Label, u64) = ("pager".parse().unwrap(), 0);
    let mut now = T0;
    let back = T0 + Span::hours(21 * 24);
    // An alert every three hours, over after ten minutes.
    let mut heard: Vec<(String, AlertChange)> = Vec::new();
    for hour in (0..(22 * 24)).step_by(3) {
        let begins = T0 + Span::hours(hour);
        let mut a = alert(&format!("{hour:04}"), Urgency::Page, begins);
        while let Some(t) = desk.next_due(&alerts, &r).filter(|t| *t < begins) {
            now = now.max(t);
            for l in desk.due(now, &alerts, &r) {
                if now < back {
                    desk.failed(now, &pager, "connection refused");
                    tries += 1;
                    break;
                }
                heard.extend(l.alerts.clone());
                desk.sent(now, &l, &alerts);
            }
            alerts.retain(|_, a| !desk.is_settled(a, &r));
            if now < back && hour == 399 {
                let b = &desk.backlog(now, &alerts, &r)[0];
                assert_eq!((b.alerts, b.oldest), (133, Some(at(30))));
                assert_eq!(b.line.error, "connection refused");
                assert_eq!(b.line.down_since, Some(at(30)));
            }
        }
        resolve(&mut a, begins + Span::mins(10));
        alerts.insert(a.id.clone(), a);
    }
    // Not more often than every five minutes once it was away for long.
    assert!(tries < 21 * 24 * 12 + 20, "{tries}");
    assert!(tries > 21 * 24 * 11, "{tries}");
    let of = |n: AlertChange| {
        heard.iter().filter(|(_, m)| *m == n).map(|(id, _)| id.clone()).collect::<Vec<_>>()
    };
    let (first, over) = (of(AlertChange::Firing), of(AlertChange::Over));
    // The last one was raised after the clock stood still.
    assert_eq!(first.len(), 22 * 8 - 1);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len(), "each once");
    assert_eq!(over.iter().collect::<BTreeSet<_>>(), first.iter().collect());
    assert_eq!(desk.backlog(now, &BTreeMap::new(), &r)[0].alerts, 0);
}

#[test]
fn a_snapshot_is_read_back() {
    let r = routing(r#"{"to":["pager","am"],"wait":"0s"}"#);
    let alerts = map(&[alert("a", Urgency::Page, T0)]);
    let mut desk = NotificationState::default();
    for l in desk.due(at(1), &alerts, &r).iter().take(1) {
        desk.sent(at(1), l, &alerts);
    }
    desk.failed(at(2), &"pager".parse().unwrap(), "no");
    let text = serde_json::to_string(&desk).unwrap();
    assert_eq!(serde_json::from_str::<NotificationState>(&text).unwrap(), desk);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    // Alerts of any length, and receivers that fail at any time: whoever is named by the route is
    // notified of each alert that lasted, of its end after its beginning, and of nothing else.
    #[test]
    fn everybody_is_notified_at_least_once(
        lives in prop::collection::vec((0u64..5000, 1u64..3000), 1..20),
        down in prop::collection::vec((0u64..3, 0u64..8000, 1u64..4000), 0..8),
        wait in prop::sample::select(vec![0u64, 30, 120]),
    ) {
        let r = routing(&format!(r#"{{"to":["pager","am","mute"],"wait":"{wait}s","repeat":"10m"}}"#));
        let who = ["pager", "am", "mute"];
        let mut desk = NotificationState::default();
        let mut alerts: BTreeMap<String, Alert> = BTreeMap::new();
        let mut reported: BTreeMap<(String, String), Vec<AlertChange>> = BTreeMap::new();
        for now in (0..16_000u64).step_by(10) {
            for (n, (begin, length)) in lives.iter().enumerate() {
                let (id, begin) = (format!("{n:02}"), begin / 10 * 10);
                let end = begin + length.div_ceil(10) * 10;
                if now == begin {
                    alerts.insert(id.clone(), alert(&id, Urgency::Page, at(begin)));
                } else if now == end && let Some(a) = alerts.get_mut(&id) {
                    resolve(a, at(end));
                }
            }
            // What was sent may bring what is next.
            loop {
                let letters = desk.due(at(now), &alerts, &r);
                if letters.is_empty() {
                    break;
                }
                let mut failed = BTreeSet::new();
                for l in letters {
                    let i = who.iter().position(|w| *w == l.to.as_str()).unwrap() as u64;
                    if down.iter().any(|(w, from, len)| *w == i && now >= *from && now < from + len) {
                        if failed.insert(l.to.clone()) {
                            desk.failed(at(now), &l.to, "away");
                        }
                        continue;
                    }
                    for (id, news) in &l.alerts {
                        reported.entry((l.to.to_string(), id.clone())).or_default().push(*news);
                    }
                    desk.sent(at(now), &l, &alerts);
                }
            }
            alerts.retain(|_, a| !desk.is_settled(a, &r));
        }
        prop_assert!(alerts.is_empty());
        for (n, (_, length)) in lives.iter().enumerate() {
            let lasted = length.div_ceil(10) * 10 >= wait;
            for w in who {
                let got = reported.get(&(w.to_owned(), format!("{n:02}")));
                prop_assert_eq!(got.is_some(), lasted);
                if let Some(got) = got {
                    prop_assert_eq!(got[0], AlertChange::Firing);
                    let ends = got.iter().filter(|n| **n == AlertChange::Over).count();
                    prop_assert_eq!(ends, usize::from(w != "mute"));
                    let firsts = got.iter().filter(|n| **n == AlertChange::Firing).count();
                    prop_assert_eq!(firsts, 1);
                    let last = *got.last().unwrap();
                    prop_assert!(w == "mute" || last == AlertChange::Over);
                }
            }
        }
    }
}
