//! `muster sim` with the real binary: same seed, same log, whatever the number of threads; what is
//! wrong with a file is reported; a simulated site opens like a real one.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Small enough for a debug build, with every kind of thing that happens.
const TINY: &str = r#"
name = "tiny"
length = "12h"
seed = 1

[fleet]
kind = "hgx"
nodes = 12
spares = 1

[failures]
preset = "llama3"
scale = 150

[[workload]]
kind = "train"
name = "big"
nodes = 8
saving = { every = "10m", cost = "2s", startup = "30s" }

[[workload]]
kind = "stream"
name = "little"
per_hour = 4.0
sizes = [[1, 1], [8, 1]]
run = { median = "30m", p95 = "3h" }
"#;

/// The hash of the tiny scenario's log. It is the same in debug and release builds and on every
/// machine. It changes with what the engine decides or writes: then take the one that the test
/// prints, after a look at why.
const DIGEST: &str = "6aa7281584d8e4c0848a709eec41fe8b92d039f77bcc3f70b68657c8c09f3a7f";

struct SimDir {
    dir: tempfile::TempDir,
}

struct CommandOutput {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl SimDir {
    fn new() -> SimDir {
        let dir = tempfile::Builder::new().prefix("muster-sim-").tempdir().expect("a directory");
        let place = SimDir { dir };
        place.write("tiny.toml", TINY);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the test's own directory");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::muster();
        command
            .env("HOME", self.dir.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .args(args);
        command
    }

    fn muster(&self, args: &[&str]) -> CommandOutput {
        let out = self.command(args).output().expect("the muster binary starts");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        CommandOutput {
            stdout: text(&out.stdout),
            stderr: text(&out.stderr),
            code: out.status.code(),
        }
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let said = self.muster(args);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
        said.stdout
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["-o", "json"]].concat();
        serde_json::from_str(&self.good(&args)).expect("one document")
    }

    #[track_caller]
    fn bad(&self, args: &[&str]) -> String {
        let said = self.muster(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert_eq!(said.stdout, "");
        said.stderr
    }
}

/// Without what the machine has to do with.
fn timeless(mut v: Value) -> Value {
    fn strip(v: &mut Value) {
        if let Value::Object(map) = v {
            map.remove("wall_s");
            map.remove("peak_rss_bytes");
        }
        match v {
            Value::Object(map) => map.values_mut().for_each(strip),
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut v);
    v
}

#[test]
fn the_same_seed_gives_the_same_log_in_every_build() {
    let p = SimDir::new();
    let first = p.json(&["sim", "run", "tiny.toml"]);
    assert!(first["interruptions"].as_u64() > Some(0), "something must happen: {first:#}");
    assert!(first["wall_s"].as_f64() > Some(0.0));
    assert!(first["peak_rss_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(timeless(first.clone()), timeless(p.json(&["sim", "run", "tiny.toml"])));
    let other = p.json(&["sim", "run", "tiny.toml", "--seed", "2"]);
    assert_eq!(other["seed"], 2);
    assert_ne!(first["log_digest"], other["log_digest"]);
    assert_eq!(first["log_digest"], DIGEST, "what the engine does has changed, or the build does");
}

#[test]
fn a_run_is_shown_to_people_and_written_as_a_page() {
    let p = SimDir::new();
    let said = p.muster(&["sim", "run", "tiny.toml", "--report", "tiny.html"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for part in ["tiny: 12 nodes, 96 GPUs, 1 spare", "ETTR", "productive", "CAUSE", "log "] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert!(said.stderr.contains("wrote tiny.html"), "no bar without a terminal: {}", said.stderr);
    let page = std::fs::read_to_string(p.path("tiny.html")).expect("the page");
    assert!(page.contains("muster sim run tiny.toml --report tiny.html"));
    assert!(p.good(&["sim", "run", "tiny.toml", "-o", "yaml"]).contains("log_digest: "));
}

#[test]
fn a_run_that_is_not_as_expected_ends_with_1_and_says_where() {
    let p = SimDir::new();
    let expect = "\n[expect]\ninterruptions = [0, 100000]\nspares = ";
    p.write("met.toml", &format!("{TINY}{expect}[1, 1]\n"));
    assert!(p.good(&["sim", "run", "met.toml"]).contains("all 2 met"));
    p.write("missed.toml", &format!("{TINY}{expect}[5, 9]\n"));
    let said = p.muster(&["sim", "run", "missed.toml", "-o", "json"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("not as expected: spares"), "{}", said.stderr);
    let outcome: Value = serde_json::from_str(&said.stdout).expect("one document");
    assert_eq!(outcome["spares"], 1);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let p = SimDir::new();
    let on = |threads: &str| {
        let args = ["sim", "sweep", "tiny.toml", "--set", "fleet.spares=0,2"];
        p.json(&[&args[..], &["--seeds", "2", "--threads", threads]].concat())
    };
    let one = timeless(on("1"));
    assert_eq!(one, timeless(on("2")));
    assert_eq!(one["points"].as_array().map(Vec::len), Some(2));
    assert_eq!(one["points"][1]["set"]["fleet.spares"], 2);
    assert_eq!(one["points"][1]["runs"][0]["spares"], 2);
    assert_eq!(one["points"][0]["figures"]["ettr"]["runs"], 2);
    assert_eq!(one["seeds"], serde_json::json!([1, 2]));
}

#[test]
fn a_sweep_is_a_table_and_a_page() {
    let p = SimDir::new();
    p.write("points.txt", "# two\nfailures.scale=1\nfailures.scale=300 operations.detect=60s\n");
    let args = ["sim", "sweep", "tiny.toml", "--list", "points.txt", "--seeds", "2"];
    let text = p.good(&[&args[..], &["--report", "sweep.html"]].concat());
    assert!(text.starts_with("tiny (tiny.toml): 2 points with 2 seeds each\n"), "{text}");
    assert!(text.contains("failures.scale=300 operations.detect=60s"), "{text}");
    assert!(text.contains(" ± "), "{text}");
    let page = std::fs::read_to_string(p.path("sweep.html")).expect("the page");
    assert!(page.contains("failures.scale=300 operations.detect=60s"));
}

#[test]
fn two_scenarios_are_compared_seed_by_seed() {
    let p = SimDir::new();
    p.write("calm.toml", &TINY.replace("scale = 150", "scale = 0"));
    let c = p.json(&["sim", "compare", "tiny.toml", "calm.toml", "--seeds", "3"]);
    assert_eq!(c["runs"].as_array().map(Vec::len), Some(6));
    assert_eq!(c["differences"]["interruptions"]["pairs"], 3);
    assert!(c["differences"]["interruptions"]["mean"].as_f64() < Some(0.0), "{c:#}");
    assert_eq!(c["b"]["interruptions"], 0.0);
    assert!(c["a"]["ettr"].as_f64() < c["b"]["ettr"].as_f64(), "{c:#}");
    // A scenario does not differ from itself, to the last digit.
    let same = p.json(&["sim", "compare", "tiny.toml", "tiny.toml", "--seeds", "2"]);
    let differences = same["differences"].as_object().expect("differences");
    for (name, d) in differences {
        assert_eq!((&d["mean"], &d["low"], &d["high"]), (&0.0.into(), &0.0.into(), &0.0.into()));
        assert_eq!(d["verdict"], "no_difference_seen", "{name}");
    }
    assert_eq!(same["runs"][0]["log_digest"], same["runs"][1]["log_digest"]);
}

#[test]
fn what_is_wrong_is_reported_before_anything_runs() {
    let p = SimDir::new();
    let said = p.bad(&["sim", "run", "nowhere.toml"]);
    assert!(said.contains("nowhere.toml") && said.contains("hint: "), "{said}");
    p.write("typo.toml", &TINY.replace("spares = 1", "spars = 1"));
    let said = p.bad(&["sim", "run", "typo.toml"]);
    assert!(said.contains("typo.toml:9:1: ") && said.contains("`spares`"), "{said}");
    p.write("two.toml", &TINY.replace("nodes = 12", "nodes = 0").replace("\"12h\"", "\"0s\""));
    let said = p.bad(&["sim", "run", "two.toml"]);
    assert!(said.contains("two.toml:3:") && said.contains("two.toml:8:"), "{said}");
    let said = p.bad(&["sim", "sweep", "tiny.toml", "--set", "fleet.spars=1"]);
    assert!(said.contains("did you mean `spares`?"), "{said}");
    p.bad(&["sim", "sweep", "tiny.toml"]);
    p.bad(&["sim", "compare", "tiny.toml", "tiny.toml", "--seeds", "0"]);
    p.bad(&["sim", "run", "tiny.toml", "--report", "no/such/place.html"]);
    p.bad(&["sim", "run", "tiny.toml", "--log", "tiny.toml"]);
    assert_eq!(std::fs::read_to_string(p.path("tiny.toml")).expect("still there"), TINY);
}

#[test]
fn a_simulated_site_opens_like_a_real_one() {
    let p = SimDir::new();
    let lived = p.json(&["sim", "run", "tiny.toml", "--log", "site.jsonl"]);
    let mut left: Vec<_> = std::fs::read_dir(p.dir.path())
        .expect("the directory")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    left.sort();
    assert_eq!(left, ["site.jsonl", "tiny.toml"], "nothing else is left behind");
    std::fs::create_dir(p.path("data")).expect("a directory");
    let store = ["--store", "sqlite:data/muster.db"];
    let done = p.json(&[&["store", "import", "site.jsonl"], &store[..]].concat());
    assert_eq!(done["entries"], lived["records"]);
    let checked = p.json(&[&["store", "check"], &store[..]].concat());
    assert_eq!(checked["ok"], true, "{checked:#}");

    let any = "127.0.0.1:0";
    let args = ["server", "--data-dir", "data", "--listen", any, "--link-listen", any];
    let mut child = p.command(&args).stdout(Stdio::piped()).spawn().expect("the server starts");
    let out = child.stdout.take().expect("it was asked for");
    let _server = crate::Running(child);
    let url = BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .find_map(|l| l.strip_prefix("muster ready at ").map(str::to_owned))
        .expect("the server serves");
    let token = std::fs::read_to_string(p.path("data/admin.token")).expect("its token");
    let at = ["--server", &url, "--token", token.trim()];
    let jobs = p.good(&[&["ps", "-a"], &at[..]].concat());
    assert!(jobs.contains("big") && jobs.contains("little"), "{jobs}");
    let nodes = p.json(&[&["get", "nodes"], &at[..]].concat());
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(12), "{nodes:#}");
}
