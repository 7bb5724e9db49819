//! The library of scenarios, and what is said about files that are wrong.

use muster_sim::scenario::{files, parse, read};
use muster_specs::FileError;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn library() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let named = |p: PathBuf| {
        let name = p.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(p).unwrap())
    };
    paths.into_iter().map(named).collect()
}

#[test]
fn the_library_has_no_problem() {
    let all = library();
    let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
    let reserved = [
        "checkpoint-storm",
        "driver-regression",
        "lemon-nodes",
        "llama3-54d",
        "llama3-54d-naive",
        "neocloud-week",
        "nvl72-rack-loss",
        "quota-war",
        "rsc1-year",
        "soak-year",
    ];
    for name in reserved {
        assert!(names.contains(&name), "{name} is in {names:?}");
    }
    for (name, text) in &all {
        let mut s = read(text, name).unwrap_or_else(|e| panic!("{}", all_of(&e)));
        assert_eq!(&s.name, name, "a scenario is called as its file");
        assert!(s.about.trim().len() > 100, "{name} says what it teaches");
        assert!(!s.expect.is_empty(), "{name} expects something");
        assert_eq!(files(&mut s).count(), 0, "{name} needs no other file");
    }
}

#[test]
fn the_scenario_of_the_documentation_is_whole() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```toml\n").expect("a scenario to copy");
    let (text, _) = rest.split_once("```").unwrap();
    let mut s = read(text, "first.toml").unwrap_or_else(|e| panic!("{}", all_of(&e)));
    assert_eq!(files(&mut s).count(), 0, "it needs no other file");
}

#[test]
fn the_naive_site_lives_the_same_job() {
    let all = library();
    let of = |n: &str| {
        let (_, text) = all.iter().find(|(name, _)| name == n).unwrap();
        toml::from_str::<toml::Table>(text).unwrap()
    };
    let (ours, naive) = (of("llama3-54d"), of("llama3-54d-naive"));
    let nodes = |t: &toml::Table| t["fleet"]["nodes"].as_integer().unwrap();
    let spares = ours["fleet"]["spares"].as_integer().unwrap();
    assert_eq!(nodes(&ours), nodes(&naive));
    assert_eq!(naive["workload"][0]["nodes"].as_integer().unwrap(), nodes(&ours) - spares);
    assert_eq!((&ours["failures"], &ours["length"]), (&naive["failures"], &naive["length"]));
}

fn all_of(errors: &[FileError]) -> String {
    errors.iter().map(|e| format!("{e}\n")).collect()
}

/// A file in order; each bad one differs from it in one place.
const GOOD: &str = r#"name = "x"
length = "7d"
[fleet]
kind = "hgx"
nodes = 64
spares = 4
[failures]
preset = "rsc1"
[[workload]]
kind = "train"
name = "a"
nodes = 8
[workload.saving]
every = "30m"
cost = "10s"
[[workload]]
kind = "stream"
name = "b"
per_hour = 2.0
run = { median = "1h", p95 = "4h" }
[operations]
response = "swap"
[expect]
ettr = [0.9, 1.0]
"#;

/// A line of [`GOOD`], what stands there instead (`+` before it: after that line), and a part of
/// what is said about it.
const BAD: &[(usize, &str, &str)] = &[
    // Writing.
    (1, "nmae = \"x\"", "did you mean `name`?"),
    (2, "length = 54d", "`length = \"54d\"`"),
    (2, "length: 7d", "write `length = 7d`"),
    (2, "length =", "write a value after `length =`"),
    (1, "+name = \"y\"", "keep one of them"),
    (3, "[fleet", "tables are written `[fleet]`"),
    (1, "+about = \"never closed", "a quote, a bracket or a brace"),
    // Keys.
    (5, "nodse = 64", "did you mean `nodes`? known here: kind, sku, nodes, gpus_per_node, spares"),
    (5, "+frobnicate = 1", "known here: kind, sku, nodes"),
    (6, "+seed = 3", "`seed` belongs at the top of the file"),
    (12, "+cost = \"5s\"", "`cost` belongs in `workload.saving`"),
    (19, "per_day = 2.0", "known here: kind, name, per_hour"),
    (14, "evry = \"30m\"", "did you mean `every`? known here: every, cost, startup"),
    (20, "run = { median = \"1h\", p99 = \"4h\" }", "did you mean `p95`?"),
    (8, "+cause = []", "did you mean `causes`?"),
    (8, "+lemons = { share = 0.1, facotr = 2 }", "did you mean `factor`?"),
    (22, "+policy.backfill.mod = \"easy\"", "known here: response, detect"),
    (1, "+policy.backfill.reserved_start = 3", "did you mean `reserved_starts`?"),
    (1, "+quotas.tree = [{ name = \"a\", gpu = [] }]", "did you mean `gpus`?"),
    // Kinds and words.
    (4, "kind = \"hgxx\"", "did you mean \"hgx\"? use one of hgx, nvl72, topology, openb"),
    (10, "kind = \"training\"", "did you mean \"train\"?"),
    (8, "preset = \"llama\"", "did you mean \"llama3\"?"),
    (22, "response = \"restart\"", "use one of swap, requeue"),
    (18, "+owner = { tier = \"on_demand\" }", "did you mean \"on-demand\"?"),
    (
        8,
        "+causes = [{ name = \"c\", per_1000_node_days = 1, mode = \"fail_slow\" }]",
        "mode = { fail_slow = 0.5 }",
    ),
    (
        8,
        "+causes = [{ name = \"c\", per_1000_node_days = 1, mode = { fail_stop = 1 } }]",
        "write `mode = \"fail_stop\"`",
    ),
    (
        8,
        "+causes = [{ name = \"c\", per_1000_node_days = 1, mode = { fail_slow = 0.5, flap = \"1s\" } }]",
        "use one of fail_slow, flap",
    ),
    // Types and units.
    (2, "length = 7", "\"7s\", \"7m\", \"7h\" or \"7d\""),
    (2, "length = \"54 days\"", "write \"54d\""),
    (2, "length = \"1y\"", "\"365d\""),
    (2, "length = \"2 months\"", "like \"30d\""),
    (2, "length = \"7D\"", "write \"7d\""),
    (2, "length = \"-7d\"", "at least \"0s\""),
    (2, "length = \"soon\"", "like \"90s\""),
    (15, "cost = 10", "\"10s\""),
    (20, "run = { median = \"1 hour\" }", "write \"1h\""),
    (20, "run = \"1h\"", "write `run = { … }`"),
    (5, "nodes = -1", "use 0 or more"),
    (5, "nodes = \"64\"", "`nodes = 64`"),
    (5, "nodes = 64.0", "write `nodes = 64`"),
    (5, "nodes = 5000000000", "at most 4294967295"),
    (5, "nodes = 99999999999999999999", "at most 4294967295"),
    (19, "per_hour = \"2\"", "`per_hour = 2`"),
    (19, "+fails = \"30%\"", "30% is `fails = 0.3`"),
    (1, "name = 3", "put it in quotes: `name = \"3\"`"),
    (22, "+act_on_precursors = \"yes\"", "`act_on_precursors = true`"),
    (8, "+incidents = { at = \"1d\", name = \"i\" }", "`[[failures.incidents]]`"),
    (18, "+owner = { users = \"ann\" }", "write `users = [\"ann\"]`"),
    (24, "ettr = 0.9", "write `ettr = [least, most]`"),
    (24, "ettr = [0.9]", "two numbers"),
    (1, "+quotas.tree = [{ name = \"a b\" }]", "write it like `team-a`"),
    // What cannot be.
    (1, "name = \"\"", "give it a name"),
    (2, "length = \"0s\"", "like \"7d\""),
    (2, "length = \"4000d\"", "\"3653d\""),
    (5, "nodes = 0", "at least 1"),
    (6, "spares = 64", "fewer than 64"),
    (6, "spares = { share = 99 }", "99% is 0.99"),
    (6, "+sku = \"h300\"", "did you mean \"h100\"?"),
    (6, "+gpus_per_node = 0", "use 1 to 16"),
    (8, "+scale = -1.0", "use 0 or more"),
    (8, "+scale = nan", "use 0 or more"),
    (8, "+scale = 1e6", "1 failure per node and minute"),
    (8, "+lemons = { share = 1.2, factor = 20 }", "1.2% is 0.012"),
    (8, "+causes = [{ name = \"c\", per_1000_node_days = 2e6 }]", "1 failure per node and minute"),
    (
        8,
        "+causes = [{ name = \"c\", per_1000_node_days = 1, mode = { fail_slow = 1.5 } }]",
        "below 1",
    ),
    (8, "+incidents = [{ at = \"8d\", name = \"i\" }]", "lasts 1w"),
    (
        8,
        "+incidents = [{ at = \"1d\", name = \"i\", on = [\"rack99\"], scope = \"rack\" }]",
        "did you mean `rack",
    ),
    (8, "+incidents = [{ at = \"1d\", name = \"i\", lasts = \"1d\" }]", "add `rate_factor`"),
    (8, "+jobs = { per_1000_node_days = 15, up_to_nodes = 0 }", "use 1 or more"),
    (12, "nodes = 61", "at most 60, or 0"),
    (12, "+gpus_per_node = 16", "write `8` or less"),
    (12, "+topology = \"leav\"", "did you mean \"leaf\"?"),
    (12, "+topology = \"rack\"", "the largest has 4"),
    (12, "+elastic = [9, 16]", "let the range include `nodes`"),
    (12, "+at = \"7d\"", "choose a time before"),
    (14, "every = \"5s\"", "longer than \"10s\""),
    (14, "every = \"often\"", "\"auto\", \"never\" or a length"),
    (18, "name = \"a\"", "a name of its own"),
    (18, "name = \"b c\"", "a name like"),
    (18, "+sizes = \"phily\"", "did you mean \"philly\"?"),
    (18, "+sizes = [[8, 0]]", "[[1, 70], [8, 30]]"),
    (18, "+diurnal = -0.5", "between 0 and 1"),
    (18, "+until = \"0s\"", "make it later"),
    (18, "+owner = { tier = \"reserved\" }", "`[[reservations]]`"),
    (19, "per_hour = inf", "use 0 or more"),
    (20, "run = { median = \"4h\", p95 = \"1h\" }", "at least \"4h\""),
    (22, "+remove_lemons_after = 0", "use 2 or more"),
    (24, "ettr = [1.0, 0.9]", "write `[0.9, 1]`"),
    (24, "etrr = [0.9, 1.0]", "did you mean `ettr`?"),
    (24, "wait_s.p96 = [0, 60]", "did you mean `wait_s.p9"),
    (1, "+policy.fair_share.half_life = \"1s\"", "like 168h"),
];

/// The file with one line changed, and the number of the line that is then the cause.
fn changed(line: usize, with: &str) -> (String, usize) {
    let mut lines: Vec<&str> = GOOD.lines().collect();
    match with.strip_prefix('+') {
        Some(more) => {
            lines.insert(line, more);
            (lines.join("\n") + "\n", line + 1)
        }
        None => {
            lines[line - 1] = with;
            (lines.join("\n") + "\n", line)
        }
    }
}

#[test]
fn every_slip_is_reported_with_its_line_and_how_to_fix_it() {
    assert!(read(GOOD, "good.toml").is_ok(), "{:?}", read(GOOD, "good.toml"));
    let mut wrong = Vec::new();
    for (line, with, says) in BAD {
        let (text, wrong_line) = changed(*line, with);
        let Err(errors) = read(&text, "bad.toml") else {
            wrong.push(format!("{with} was accepted"));
            continue;
        };
        let right = errors.iter().any(|e| {
            let hint = e.hint.as_deref().unwrap_or_default();
            e.line == u32::try_from(wrong_line).ok() && e.column.is_some() && hint.contains(says)
        });
        if !right {
            wrong.push(format!("`{with}` in line {wrong_line}, `{says}`:\n{}", all_of(&errors)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_missing_is_reported_where_it_belongs() {
    let without = |n: usize| {
        let mut lines: Vec<&str> = GOOD.lines().collect();
        lines.remove(n - 1);
        parse(&lines.join("\n"), "f.toml").unwrap_err()
    };
    let reported = |e: FileError| (e.line, e.message, e.hint.unwrap_or_default());
    let (line, message, hint) = reported(without(2));
    assert_eq!((line, message.as_str()), (Some(1), "`length` is missing in the scenario"));
    assert_eq!(hint, "add `length = \"24h\"`");
    let (line, message, hint) = reported(without(5));
    assert_eq!((line, message.as_str()), (Some(3), "`nodes` is missing in a fleet of kind hgx"));
    assert_eq!(hint, "add `nodes = 8`");
    let (line, _, hint) = reported(without(19));
    assert_eq!((line, hint.as_str()), (Some(16), "add `per_hour = 0.5`"));
    let (line, _, hint) = reported(without(20));
    assert_eq!((line, hint.as_str()), (Some(16), "add `run = { median = \"24h\" }`"));
    let (line, _, hint) = reported(without(10));
    assert_eq!(line, Some(9));
    assert!(hint.contains("kind = \"train\""), "{hint}");
    let (line, message, _) = reported(parse("name = 'x'\nlength = '1d'\n", "f").unwrap_err());
    assert_eq!((line, message.as_str()), (Some(1), "`fleet` is missing in the scenario"));
    let (line, message, _) = reported(parse("", "f").unwrap_err());
    assert_eq!((line, message.as_str()), (Some(1), "the file is empty"));
}

#[test]
fn errors_read_like_a_compilers() {
    let (text, _) = changed(5, "nodse = 64");
    let e = parse(&text, "site.toml").unwrap_err().to_string();
    assert!(e.starts_with("site.toml:5:1: fleet.nodse: unknown key `nodse` in a fleet"), "{e}");
    let (text, _) = changed(20, "run = { median = \"4h\", p95 = \"1h\" }");
    let e = read(&text, "site.toml").unwrap_err()[0].to_string();
    assert!(e.starts_with("site.toml:20:24: workload[1].run.p95: the 95th percentile, 1h"), "{e}");
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = GOOD
        .replace("spares = 4", "spares = 99")
        .replace("per_hour = 2.0", "per_hour = -2.0")
        .replace("ettr", "goodness");
    let errors = read(&text, "f").unwrap_err();
    let lines: Vec<Option<u32>> = errors.iter().map(|e| e.line).collect();
    // Without a node that is no spare the job of line 12 does not fit either.
    assert_eq!(lines, [6, 12, 19, 24].map(Some), "{}", all_of(&errors));
}

#[test]
fn owners_must_hang_on_the_quota_tree() {
    let base = "name = 'x'\nlength = '1d'\nfleet = { kind = 'hgx', nodes = 8 }\n\
        quotas.tree = [{ name = 'lab', projects = ['nlp'] }]\n\
        [[workload]]\nkind = 'serve'\nname = 's'\nreplicas = 1\nowner.project = 'PROJECT'\n";
    assert!(read(&base.replace("PROJECT", "nlp"), "f").is_ok());
    let e = read(&base.replace("PROJECT", "nlq"), "f").unwrap_err();
    assert_eq!((e[0].line, e[0].hint.as_deref()), (Some(9), Some("did you mean `nlp`?")));
    let too_many = base.replace("PROJECT", "nlp").replace("replicas = 1", "replicas = 65");
    let e = read(&too_many, "f").unwrap_err();
    assert_eq!((e[0].line, e[0].hint.as_deref()), (Some(8), Some("at most 64 in all")));
    let twice = base
        .replace("'PROJECT'", "'nlp'")
        .replace("tree = [{", "tree = [{ name = 'other', projects = ['nlp'] }, {");
    assert_eq!(read(&twice, "f").unwrap_err()[0].line, Some(4));
}

#[test]
fn reservations_must_be_over_something_that_is_there() {
    let of = |over: &str, start: &str| {
        let text = format!(
            "name = 'x'\nlength = '1d'\nfleet = {{ kind = 'hgx', nodes = 8 }}\n[[reservations]]\n\
            name = 'r'\nlength = '1h'\nstart = {start}\nover = {over}\n"
        );
        read(&text, "f").map_err(|e| (e[0].line.unwrap(), e[0].hint.clone().unwrap_or_default()))
    };
    assert!(of("{ gpus = { count = 64 } }", "'2h'").is_ok());
    assert!(of("{ domain = { level = 'rack', path = 'rack01' } }", "7200000").is_ok());
    assert_eq!(of("{ gpus = { count = 65 } }", "'2h'"), Err((8, "at most 64".into())));
    assert_eq!(of("{ nodes = ['hgx-0099'] }", "'2h'"), Err((8, "did you mean `hgx-0001`?".into())));
    let (line, hint) = of("{ racks = 3 }", "'2h'").unwrap_err();
    assert_eq!((line, hint.contains("known here: nodes, gpus, domain")), (8, true), "{hint}");
    let (line, hint) = of("{ gpus = { count = 8 } }", "'1d'").unwrap_err();
    assert_eq!((line, hint.contains("before that")), (7, true), "{hint}");
    assert_eq!(of("{ gpus = { count = 8 } }", "-5").unwrap_err().0, 7);
}

/// What a mutation puts into a file.
const BITS: &[&str] = &[
    "",
    "0",
    "-1",
    "nan",
    "inf",
    "1e400",
    "99999999999999999999",
    "\"",
    "'''",
    "[",
    "]]",
    "{",
    "}",
    "=",
    "\n",
    "#",
    "[[workload]]",
    "kind = \"trace\"\n",
    "\"54 days\"",
    "é",
    "\u{0}",
    "true",
    "[fleet]\n",
    ".",
    ",",
    "_",
    "1979-05-27",
    "0x7fffffff",
    "seed = 1\n",
    "\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_panics_and_every_error_has_a_line(
        pick in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..12, prop::sample::select(BITS)), 1..4),
    ) {
        let all = library();
        let mut text = pick.get(&all).1.clone();
        for (at, length, with) in cuts {
            let mut from = at.index(text.len().max(1)).min(text.len());
            let mut to = (from + length).min(text.len());
            while !text.is_char_boundary(from) { from -= 1; }
            while !text.is_char_boundary(to) { to += 1; }
            text.replace_range(from..to, with);
        }
        if let Err(errors) = read(&text, "mutant.toml") {
            prop_assert!(!errors.is_empty());
            for e in &errors {
                prop_assert!(e.line.is_some_and(|l| l as usize <= text.lines().count().max(1) + 1), "{e}");
                prop_assert!(!e.message.is_empty() && e.hint.is_some(), "{e}");
            }
        }
    }

    #[test]
    fn what_the_walk_lets_through_serde_can_read(
        pick in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            "0", "-1", "1.5", "\"\"", "\"1h\"", "\"x\"", "true", "[]", "[1]", "[1, 2]", "[[1, 2]]",
            "{}", "{ share = 0.5 }", "{ median = \"1h\" }", "{ flap = \"1s\" }", "1979-05-27", "nan",
        ]),
    ) {
        let all = library();
        let text = &pick.get(&all).1;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let keys: Vec<usize> = lines.iter().enumerate()
            .filter(|(_, l)| l.contains(" = ") && !l.starts_with('#'))
            .map(|(i, _)| i).collect();
        let at = *line.get(&keys);
        let key = lines[at].split(" = ").next().unwrap_or_default().to_owned();
        lines[at] = format!("{key} = {value}");
        if let Err(e) = parse(&lines.join("\n"), "mutant.toml") {
            // What the walk finds comes with a hint; what serde would find behind it does not.
            prop_assert!(e.hint.is_some(), "{e}");
        }
    }
}
