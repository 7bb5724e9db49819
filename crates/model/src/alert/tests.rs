use super::*;
use proptest::prelude::*;

#[test]
fn stars_stand_for_anything() {
    for (p, t) in [
        ("*", ""),
        ("gpu-*", "gpu-off-bus"),
        ("*bus", "gpu-off-bus"),
        ("a*b*c", "aXbYbc"),
        ("", ""),
    ] {
        assert!(fits(p, t), "{p} {t}");
    }
    for (p, t) in [("", "a"), ("gpu", "gpu-off"), ("a*b", "ac"), ("node:n1", "node:n10")] {
        assert!(!fits(p, t), "{p} {t}");
    }
}

#[test]
fn a_matcher_looks_at_all_that_it_names() {
    let entity: Entity = "gpu:n1/3".parse().unwrap();
    let above: Vec<Entity> = vec!["node:n1".parse().unwrap(), "rack:eu/r7".parse().unwrap()];
    let seen = MatcherInput {
        urgency: Urgency::Page,
        topic: Topic::Finding,
        kind: "gpu-off-bus",
        entity: &entity,
        above: &above,
        owner: "hw",
        project: None,
    };
    let m = |text: &str| serde_json::from_str::<Matcher>(text).unwrap().fits(&seen);
    assert!(m("{}"));
    assert!(m(r#"{"under":"rack:eu/r7","kind":"gpu-*","urgency":"page"}"#));
    assert!(m(r#"{"under":"gpu:n1/*"}"#));
    assert!(!m(r#"{"entity":"rack:eu/r7"}"#));
    assert!(!m(r#"{"under":"rack:eu/r7","urgency":"ticket"}"#));
    assert!(!m(r#"{"project":"a*"}"#));
}

#[test]
fn a_silence_comes_again() {
    let s: Silence = serde_json::from_str(
        r#"{"name":"night","match":{"kind":"x"},"start":1000,"length":"10s","every":"1m"}"#,
    )
    .unwrap();
    assert_eq!(s.check(), Ok(()));
    for (t, want) in [(0, false), (1000, true), (10_999, true), (11_000, false), (61_000, true)] {
        assert_eq!(s.holds(Time(t)), want, "{t}");
    }
    let all = Silence { matcher: Matcher::default(), ..s.clone() };
    assert_eq!(all.check().unwrap_err().field, "match");
    let none = Silence { length: Span(0), ..s };
    assert_eq!(none.check().unwrap_err().field, "length");
}

#[test]
fn mistakes_in_routing_are_named() {
    let base = r#"{"receivers":[{"name":"am","by":{"alertmanager":{"url":"URL"}}},
        {"name":"m","by":{"smtp":{"server":"h:25","from":"FROM","to":["a@b"]}}}],
        "routes":[{"to":["TO"],"repeat":"REPEAT","escalate":[{"after":"15m","to":["m"]},{"after":"AFTER","to":["m"]}]}]}"#;
    let good = [
        ("URL", "http://am:9093"),
        ("FROM", "x@y"),
        ("TO", "am"),
        ("REPEAT", "4h"),
        ("AFTER", "1h"),
    ];
    let with = |changed: (&str, &str)| {
        let fill = |t: String, (k, v): &(&str, &str)| {
            t.replace(
                &format!("\"{k}\""),
                &format!("\"{}\"", if *k == changed.0 { changed.1 } else { v }),
            )
        };
        let text = good.iter().fold(base.to_owned(), fill);
        serde_json::from_str::<Routing>(&text).unwrap().check()
    };
    assert_eq!(with(("", "")), Ok(()));
    for (change, want) in [
        (("URL", "ftp://x"), "receivers[0].by.alertmanager.url"),
        (("URL", "http://am/\\u202etxt"), "receivers[0].by.alertmanager.url"),
        (("URL", "http://am/\\u0009x"), "receivers[0].by.alertmanager.url"),
        (("FROM", "a\\nb@c"), "receivers[1].by.smtp.from"),
        (("TO", "nobody"), "routes[0].to"),
        (("REPEAT", "1s"), "routes[0].repeat"),
        (("AFTER", "5m"), "routes[0].escalate[1].after"),
    ] {
        assert_eq!(with(change).unwrap_err().field, want);
    }
    let nobody = r#"{"receivers":[],"routes":[{"to":[],"escalate":[{"after":"15m","to":[]}]}]}"#;
    let nobody = serde_json::from_str::<Routing>(nobody).unwrap().check().unwrap_err();
    assert_eq!(nobody.field, "routes[0].escalate[0].to");
}

proptest! {
    #[test]
    fn a_text_fits_itself_and_its_beginning(t in "[a-c]{0,8}", n in 0usize..8) {
        prop_assert!(fits(&t, &t));
        let start: String = t.chars().take(n).collect();
        let pattern = format!("{start}*");
        prop_assert!(fits(&pattern, &t));
    }
}
