use super::*;

fn skip(kind: Kind) -> Skip {
    Skip { kind, test: "muster-x a_test".into(), why: "nft is missing:\n\tinstall it".into() }
}

/// A file of one test's own, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let file = std::env::temp_dir().join(format!("muster-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        Scratch(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_missing_component_fails_only_where_all_are_required() {
    let scratch = Scratch::new("required");
    let file = Some(scratch.0.as_path());
    let fails = |kind, required: bool| {
        let fails = required && must_run(kind, false, true);
        std::panic::catch_unwind(|| report_skip(&skip(kind), fails, file))
            .err()
            .map(|e| e.downcast_ref::<String>().expect("words").clone())
    };
    assert_eq!(fails(Kind::Component, false), None);
    let said = fails(Kind::Component, true).expect("a failure");
    assert!(said.contains("muster-x a_test") && said.contains("nft is missing"), "{said}");
    // What the machine cannot do, nobody can install.
    assert_eq!(fails(Kind::Machine, true), None);
    assert_eq!(fails(Kind::Data, true), None);
    let text = std::fs::read_to_string(&scratch.0).unwrap();
    let kinds: Vec<Kind> = text.lines().map(|l| Skip::parse(l).expect("a skip").kind).collect();
    assert_eq!(kinds, [Kind::Component, Kind::Machine, Kind::Data]);
}

#[test]
fn what_guards_tenants_fails_where_root_cannot_run_it() {
    assert!(must_run(Kind::Machine, true, true));
    assert!(!must_run(Kind::Machine, true, false), "only root can isolate");
    assert!(!must_run(Kind::Machine, false, true));
    assert!(vital(true, "x"));
    let said = std::panic::catch_unwind(|| report_skip(&skip(Kind::Machine), true, None));
    assert!(said.is_err());
}

#[test]
fn a_skip_that_cannot_be_written_down_is_a_failure() {
    let nowhere = Some(Path::new("/nonexistent/skips"));
    assert!(
        std::panic::catch_unwind(|| report_skip(&skip(Kind::Machine), false, nowhere)).is_err()
    );
}

#[test]
fn a_line_says_what_was_skipped_and_is_one_line() {
    for kind in Kind::ALL {
        let line = skip(kind).line();
        assert_eq!(line, format!("{}\tmuster-x a_test\tnft is missing: install it", kind.word()));
        assert_eq!(Skip::parse(&line).expect("a skip").kind, kind);
    }
    for bad in ["", "machine", "machine\tx", "gremlin\tx\ty"] {
        assert_eq!(Skip::parse(bad), None, "{bad}");
    }
}

#[test]
fn variables_that_say_no_require_nothing() {
    for no in ["", "0", "false", "FALSE", " "] {
        assert!(!is_yes(no), "{no:?}");
    }
    for yes in ["1", "true", "yes"] {
        assert!(is_yes(yes), "{yes:?}");
    }
}

#[test]
fn what_is_there_is_not_skipped() {
    assert!(program("sh", "dash") && component(true, "x", "y"));
    assert!(machine(true, "x") && data(true, "x"));
    assert_eq!(which("no-such-program-anywhere"), None);
    assert!(!is_static(Path::new("/nonexistent/busybox")));
}

#[test]
fn a_skip_names_its_test() {
    let of = |args: &[&str]| asked_for(args.iter().map(ToString::to_string));
    assert_eq!(of(&["--exact", "a::b", "--nocapture"]).as_deref(), Some("a::b"));
    assert_eq!(of(&["a::b", "--exact"]).as_deref(), Some("a::b"));
    assert_eq!(of(&["a::b"]), None, "a part of a name is not a name");
    assert_eq!(of(&["a", "b", "--exact"]), None);
    assert!(test_name(Location::caller()).contains("a_skip_names_its_test"));
}

#[test]
fn a_program_that_fails_is_reported_with_all_that_it_printed() {
    let shell = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    };
    assert_eq!(succeeds(&mut shell("echo fine")).stdout, b"fine\n");
    let fails = std::panic::catch_unwind(|| succeeds(&mut shell("echo one; echo two >&2; exit 3")));
    let said = fails.expect_err("a failure").downcast_ref::<String>().expect("words").clone();
    for part in ["exit 3", "exit status: 3", "stdout: one", "stderr: two"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let fails = std::panic::catch_unwind(|| succeeds(&mut Command::new("/nonexistent/program")));
    let said = fails.expect_err("a failure").downcast_ref::<String>().expect("words").clone();
    assert!(said.contains("/nonexistent/program") && said.contains("cannot be started"), "{said}");
}
