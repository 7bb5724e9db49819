use super::*;
use crate::spec::SpecProblem;
use proptest::prelude::*;

fn objective(text: &str) -> Objective {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_cause_has_a_word_for_people_and_a_name_in_the_api() {
    assert_eq!(Cause::Room.word(), "capacity");
    assert_eq!(serde_json::to_string(&Cause::Room).unwrap(), "\"room\"");
}

#[test]
fn shares_read_as_people_write_them() {
    for (text, ppm) in [("99.9%", 999_000), ("99%", 990_000), ("0.0001%", 1), ("100%", 1_000_000)] {
        assert_eq!(text.parse::<Ppm>().unwrap(), Ppm(ppm));
        assert_eq!(Ppm(ppm).to_string(), text);
    }
    assert_eq!("99.90 %".parse::<Ppm>().unwrap(), Ppm(999_000));
    assert_eq!("99.900000%".parse::<Ppm>().unwrap(), Ppm(999_000));
    assert_eq!(Ppm::from_share("0.9995"), Some(Ppm(999_500)));
    assert_eq!(Ppm::from_share("1"), Some(Ppm::ONE));
    for bad in ["", "%", "99.9", "101%", "-1%", "99.99999%", "9 9%", "1e2%", "9999%", ".5%", "5.%"]
    {
        assert!(bad.parse::<Ppm>().is_err(), "{bad:?}");
    }
}

#[test]
fn an_objective_is_written_shortly() {
    let o = objective(
        r#"{"name":"q","sli":{"queue_wait":{"under":"5m","class":"high"}},"target":"95%"}"#,
    );
    assert_eq!(o.sli.to_string(), "queue wait under 5m (high)");
    assert_eq!(o.window, Window::Rolling(Span::hours(672)));
    assert_eq!(o.check(), Ok(()));
    let back = serde_json::to_string(&o).unwrap();
    assert!(back.contains(r#""window":"28d""#), "{back}");
    assert_eq!(objective(&back), o);
    let n = objective(r#"{"name":"n","sli":"node_availability","target":"99%","window":"month"}"#);
    assert_eq!((n.sli, n.window), (Sli::NodeAvailability, Window::Month));
}

#[test]
fn mistakes_are_named_with_their_field() {
    let base =
        r#"{"name":"n","sli":SLI,"target":"TARGET","window":"WINDOW","scope":SCOPE,"burn":BURN}"#;
    let with = |sli: &str, target: &str, window: &str, scope: &str, burn: &str| {
        let text = base.replace("SLI", sli).replace("TARGET", target).replace("WINDOW", window);
        objective(&text.replace("SCOPE", scope).replace("BURN", burn)).check()
    };
    let field = |r: Result<(), SpecProblem>| r.unwrap_err().field;
    let av = "\"node_availability\"";
    let rule = |s: &str| format!("[{{{s},\"urgency\":\"page\"}}]");
    assert_eq!(with(av, "99%", "28d", "{}", "[]"), Ok(()));
    assert_eq!(field(with(av, "100%", "28d", "{}", "[]")), "target");
    assert_eq!(field(with(av, "0%", "28d", "{}", "[]")), "target");
    assert_eq!(field(with(av, "99%", "90m", "{}", "[]")), "window");
    assert_eq!(field(with(av, "99%", "91d", "{}", "[]")), "window");
    assert_eq!(field(with(av, "99%", "1d", "{\"project\":\"p\"}", "[]")), "scope.project");
    let api = "{\"api_latency\":{\"under\":\"1s\"}}";
    assert_eq!(field(with(api, "99%", "1d", "{\"pool\":\"p\"}", "[]")), "scope.pool");
    let wait = "{\"queue_wait\":{\"under\":\"0s\"}}";
    assert_eq!(field(with(wait, "99%", "1d", "{}", "[]")), "sli.queue_wait.under");
    for (rule_text, want) in [
        (r#""factor":2,"long":"90s","short":"1m""#, "burn[0].long"),
        (r#""factor":2,"long":"1h","short":"2h""#, "burn[0].short"),
        (r#""factor":2,"long":"5m","short":"5m""#, "burn[0].short"),
        (r#""factor":2,"long":"8h30m","short":"1h""#, "burn[0].long"),
        (r#""factor":2,"long":"1h","short":"5m","for":"7h""#, "burn[0].for"),
        (r#""factor":2,"long":"1d","short":"5m","for":"5m""#, "burn[0].for"),
        (r#""factor":0,"long":"1h","short":"5m""#, "burn[0].factor"),
        (r#""factor":"100x","long":"1h","short":"5m""#, "burn[0].factor"),
    ] {
        assert_eq!(field(with(av, "99%", "1d", "{}", &rule(rule_text))), want, "{rule_text}");
    }
    let two = Objectives {
        objectives: vec![
            objective(r#"{"name":"a","sli":"goodput","target":"90%"}"#),
            objective(r#"{"name":"a","sli":"goodput","target":"90%"}"#),
        ],
        ..Objectives::default()
    };
    assert_eq!(two.check().unwrap_err().field, "objectives[1].name");
    let newer = Objectives { defaults: 99, ..Objectives::default() };
    assert_eq!(newer.check().unwrap_err().field, "defaults");
}

#[test]
fn factors_read_as_people_write_them() {
    for (text, n) in
        [("14.4", 14_400), ("2", 2000), ("\"0.5x\"", 500), ("\"6\"", 6000), ("1.000", 1000)]
    {
        assert_eq!(serde_json::from_str::<Factor>(text).unwrap(), Factor(n), "{text}");
    }
    assert_eq!(serde_json::to_string(&Factor(14_400)).unwrap(), "\"14.4x\"");
    for bad in ["-1", "\"x\"", "\"1.2345x\"", "1e300", "9999999", "\"\"", "true"] {
        assert!(serde_json::from_str::<Factor>(bad).is_err(), "{bad}");
    }
}

#[test]
fn unknown_words_are_refused() {
    for bad in [
        r#"{"name":"n","sli":"cow","target":"99%"}"#,
        r#"{"name":"n","sli":{"queue_wait":{"over":"5m"}},"target":"99%"}"#,
        r#"{"name":"n","sli":"goodput","target":0.99}"#,
        r#"{"name":"n","sli":"goodput","target":"99%","window":"year"}"#,
        r#"{"name":"n","sli":"goodput","target":"99%","gates":["cows"]}"#,
    ] {
        assert!(serde_json::from_str::<Objective>(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn shares_survive_text(ppm in 0u32..=1_000_000) {
        prop_assert_eq!(Ppm(ppm).to_string().parse::<Ppm>().unwrap(), Ppm(ppm));
    }

    #[test]
    fn no_text_panics(s in "\\PC{0,20}") {
        let _ = s.parse::<Ppm>();
        let _ = Ppm::from_share(&s);
    }
}
