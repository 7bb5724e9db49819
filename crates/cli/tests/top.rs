//! `muster top` against a real site: every view as plain text, and on a real terminal that is
//! as it was afterwards.

use crate::minutes::cluster::{Cluster, until};
use std::process::{Command, Stdio};

/// One picture: it fits 80x24 and holds nothing but characters.
#[track_caller]
fn once(c: &Cluster, more: &[&str]) -> String {
    let out = c.muster(&[&["top", "--once"], more].concat());
    out.code(0);
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(lines.len(), 24, "{}", out.stdout);
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{}", out.stdout);
    assert!(!out.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", out.stdout);
    out.stdout
}

#[test]
fn every_view_of_a_real_site_is_reported_as_text() {
    let c = Cluster::start_to_crash(8);
    let train = "for i in 1 2 3 4 5 6 7 8 9; do echo \"step $i\"; \
        echo \"{\\\"step\\\":$i,\\\"t\\\":0.1}\" >> \"$MUSTER_REPORT\"; sleep 0.1; done; sleep 600";
    let gang = ["--name", "train", "--nodes", "2", "--gpus", "8", "--ranks-per-node", "1"];
    let id = c.submit(&[&gang[..], &["--", "sh", "-c", train]].concat());
    let evil = ["--name", "big", "--nodes", "8", "--gpus", "8", "--ranks-per-node", "1"];
    let waits = c.submit(&[&evil[..], &["--", "sleep", "600"]].concat());
    until("it runs and said something", || {
        let shown = once(&c, &["--view", &format!("job:{id}")]);
        shown.contains("running") && shown.contains("step 9")
    });
    let shown = once(&c, &["--view", "job:train"]);
    for part in ["[4 Job", "2 nodes, 16 GPUs", "goodput", "Ranks on 2 nodes", "rank 0"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let fleet = once(&c, &[]);
    for part in
        ["[1 Fleet]", "Nodes      8  in service 8", "GPUs      64", "allocated 16", "free 48"]
    {
        assert!(fleet.contains(part), "{part} in {fleet}");
    }
    assert!(fleet.contains("##"), "two nodes are full: {fleet}");
    let queue = once(&c, &["--view", "queue"]);
    assert!(queue.contains("1 run on 16 GPUs, 1 wait for 64"), "{queue}");
    let line = queue.lines().find(|l| l[1..].starts_with(&format!("{waits} "))).expect("it waits");
    assert!(line.contains("queued") && line.contains("8x8"), "{queue}");
    assert!(once(&c, &["--view", "incidents"]).contains("The site: "), "no trouble yet");

    // A node is lost: the map, the list of what is wrong and the job report it.
    let job = c.json(&["get", "job", &id]);
    let node = job["attempt"]["slots"][0]["node"].as_str().expect("a node").to_owned();
    c.muster(&["node", "inject", "crash", &node, "--down", "10m"]).code(0);
    until("the node is missed", || once(&c, &[]).contains(&format!("{node} lost")));
    until("something is wrong", || {
        once(&c, &["--view", "incidents"]).contains(&format!("node:{node}"))
    });
    until("its attempt is reported with why it ended", || {
        let shown = once(&c, &["--view", &format!("job:{id}")]);
        shown.contains("Attempts that are over (1)")
    });

    // A tenant sees the fleet, and no job of others.
    c.muster(&["project", "create", "other"]).code(0);
    let made = c.json(&["token", "create", "ann", "--project", "other", "--role", "user"]);
    let token = made["secret"].as_str().expect("it is shown once").to_owned();
    let shown = once(&c, &["--token", &token, "--view", "queue"]);
    assert!(shown.contains("ann (user, project other)") && !shown.contains("train"), "{shown}");
    assert!(once(&c, &["--token", &token]).contains("Nodes      8"));
    c.muster(&["--token", &token, "top", "--once", "--view", &format!("job:{id}")]).code(3);

    // What makes no sense is said, and nothing is drawn.
    for (more, part) in [
        (&["top"][..], "needs a terminal"),
        (&["top", "--once", "-o", "json"], "for people"),
        (&["top", "--once", "--view", "job"], "job:ID"),
        (&["top", "--once", "--size", "3x3"], "80x24"),
        (&["top", "--size", "80x24"], "--once"),
    ] {
        let out = c.muster(more);
        out.code(2);
        assert!(out.stderr.contains(part) && out.stdout.is_empty(), "{more:?}: {out:?}");
    }
    c.muster(&["--token", "wrong", "top", "--once"]).code(4);
}

/// What a terminal of 80x24 got, from the command to the shell's next words.
fn on_a_terminal(c: &Cluster, command: &str, typed: &str) -> Option<String> {
    if !muster_testkit::program("script", "bsdutils") {
        return None;
    }
    let file = c.path("typescript");
    // Whoever types looks into it, and must not find what was there the last time.
    let _ = std::fs::remove_file(&file);
    let muster = env!("CARGO_BIN_EXE_muster");
    let shell = format!(
        "stty rows 24 cols 80; {}; echo \"code $?\"; stty -a; echo over",
        command.replace("muster", muster)
    );
    let input = format!("{typed} | script -qfec '{shell}' {} > /dev/null", file.display());
    let status = Command::new("sh")
        .args(["-c", &input])
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .env("MUSTER_SERVER", format!("http://{}", c.listen()))
        .env("MUSTER_TOKEN", &c.token)
        .env("HOME", c.path(""))
        .env("SHOWN", &file)
        .env("PID_FILE", c.path("pid"))
        .stdin(Stdio::null())
        .status()
        .expect("a shell");
    let got = std::fs::read(&file).unwrap_or_default();
    let got = String::from_utf8_lossy(&got).into_owned();
    assert!(status.success(), "{status}: {got}");
    Some(got)
}

/// Whoever types waits until this was shown; not for ever, so that the test ends.
fn seen(what: &str) -> String {
    format!(
        "n=0; until grep -aq '{what}' \"$SHOWN\" 2> /dev/null || [ $n -gt 3000 ]; \
         do n=$((n + 1)); sleep 0.1; done"
    )
}

#[test]
fn a_terminal_is_as_it_was_after_keys_and_signals() {
    let c = Cluster::start(4);
    let leaves = |said: &str, code: &str| {
        let (entered, left) = (said.find("\x1b[?1049h"), said.rfind("\x1b[?1049l"));
        assert!(entered.is_some() && left > entered, "{said:?}");
        let after = &said[left.expect("it left")..];
        assert!(after.contains(code), "{after:?}");
        let mode = |word: &str| after.split_whitespace().any(|w| w.trim_end_matches(';') == word);
        assert!(mode("icanon") && mode("echo") && mode("isig"), "{after:?}");
    };
    // A busy machine takes its time to start it, and to end it.
    let (up, drawn, over) = (seen("1049h"), seen("38;5;"), seen("^over"));
    // Keys that come before the first picture are not lost; `q` ends it.
    let typed = format!("({up}; printf 2; {drawn}; printf '3?'; sleep 1; printf q; {over})");
    let Some(said) = on_a_terminal(&c, "muster top", &typed) else { return };
    leaves(&said, "code 0");
    assert!(said.contains("\x1b[38;5;"), "it has colours: {said:?}");
    // SIGTERM.
    let term = r#"NO_COLOR=1 sh -c "echo \$\$ > \$PID_FILE; exec muster top""#;
    let typed = format!("({up}; sleep 1; kill -TERM $(cat \"$PID_FILE\"); {over})");
    let Some(said) = on_a_terminal(&c, term, &typed) else { return };
    leaves(&said, "code 143");
    assert!(!said.contains("\x1b[38;5;"), "it has none: {said:?}");
}
