//! Every verb with a project that is not there: by flag, by environment and by the settings. A verb that is not
//! listed here fails.

use super::table::{leaves, verb_of, verbs_in};
use super::{refuses, says, write};
use crate::minutes::cluster::Cluster;
use std::collections::BTreeSet;

/// What is typed without a project; with one that is not there it is refused.
const REFUSED: &str = "
    run -- true; submit -- true; ps; top --once; get jobs; get job 7; get secrets; get events;
    describe job 7; describe node n1; logs 7; cancel 7; hold 7; release 7; requeue 7; checkpoint 7;
    wait 7; update 7 --time 2h; explain 7; report job 7; report fleet; report weekly;
    report monthly; whatif submit -- true; whatif --from live --change spares=1;
    whatif --from server --change spares=1; nodes; node cordon n1; node uncordon n1; node drain n1;
    node undrain n1; node retire n1; node reconcile n1; node mark n1 --role spare; node repaired n1;
    node return n1 --reason x; node exclude-gpu n1 1 --reason x; node inject crash n1;
    node qualify n1; node mig n1 --gpu 0 --profiles 3g.40gb; node replace n1; topology;
    topology apply x.yaml; quota; quota apply x.yaml; policy show; policy apply x.yaml;
    reservation; reservation list; reservation apply x.yaml; reservation delete x;
    reservation create x --gpus 8 --length 1h; reservation create x --gpus 8 --length 1h --maintenance;
    defrag; events; search x; fabric test --nodes n1; fabric show; faults; health; findings;
    findings close 7 --reason x; incident; incident note 7 x; incident own 7;
    incident close 7 --reason x; incident record 7; incident report 7; remediations;
    remediations approve 7; remediations deny 7; remediations undo 7 --reason x;
    remediations dry-run; runbook; runbook list; runbook show x; runbook run x; runbook runs;
    runbook describe 7; runbook answer 7 go --step 1; runbook stop 7; runbook apply x.md;
    runbook delete x; breakers; breakers force node:n1 open; breakers release node:n1;
    automation stop; automation resume; readiness; slo; slo list; slo show x; slo apply x.yaml;
    slo delete x; slo rules; alerts; alerts show x; alerts ack x; alerts escalate x; silence;
    silence list; silence create x --kind gpu-fault --length 1h; silence end x; routing show;
    routing apply x.yaml; failure-modes; gameday run gpu-off-bus --live --yes; token create x;
    token create x --join; token list; token revoke x; secret set x --value y; secret list;
    secret delete x; power; history node n1; history job 7; history metrics; whoami
";

/// Whoever looks which projects there are may have a wrong one set: these answer, and note it.
const NOTED: &str = "project list; get projects; get project default";

/// Verbs that say it in their own way: one checks it, one may make the very project.
const OTHERWISE: &str = "doctor; project create";

/// Verbs that ask no server which projects there are: what is done here alone, and what starts one.
const NOT_ASKED: &str = "
    up; server; agent check; agent inventory; agent metrics; agent qualify; agent drill;
    topology check; quota check; gameday list; store check; store export; store import;
    store backup; store restore; store accept-loss; sim run; sim replay; sim compare; sim sweep;
    export prometheus-rules; export grafana; completions
";

#[test]
fn every_verb_is_listed_with_what_it_does_about_a_project_that_is_not_there() {
    let tree = muster_cli::command();
    let mut all = BTreeSet::new();
    leaves(&tree, "", &mut all);
    let lists = [REFUSED, NOTED, OTHERWISE, NOT_ASKED];
    let listed: BTreeSet<String> =
        lists.iter().flat_map(|l| verbs_in(l)).map(|line| verb_of(&tree, &line)).collect();
    let without: Vec<&String> = all.difference(&listed).collect();
    assert!(without.is_empty(), "verbs that no list has: {without:?}");
    let alone: Vec<String> = [OTHERWISE, NOT_ASKED].iter().flat_map(|l| verbs_in(l)).collect();
    let gone: Vec<&String> = alone.iter().filter(|v| !all.contains(*v)).collect();
    assert!(gone.is_empty(), "no such verbs any more: {gone:?}");
}

/// The words of a line with a project, which comes before the program to run.
fn with_project<'a>(line: &'a str, project: &'a str) -> Vec<&'a str> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "--").unwrap_or(words.len());
    words.splice(at..at, ["--project", project]);
    words
}

#[test]
fn a_project_that_is_not_there_is_refused_by_every_verb_that_asks_a_server() {
    let c = Cluster::start(1);
    for line in verbs_in(REFUSED) {
        let said = c.muster(&with_project(&line, "nope"));
        refuses(&said, 3, &["there is no project nope", "known projects: default"]);
        assert_eq!(said.stdout, "", "`muster {line}` answers all the same");
    }
    refuses(&c.muster(&with_project("topology", "defualt")), 3, &["did you mean `default`?"]);
    for line in verbs_in(NOTED) {
        let said = c.muster(&with_project(&line, "nope"));
        says(&said, &["default"]);
        refuses(&said, 0, &["note: there is no project nope"]);
    }
    let made = c.muster(&["project", "create", "made", "--project", "nope"]);
    refuses(&made, 2, &["part of no other"]);
    says(&c.muster(&["explain", "xid", "79", "--project", "nope"]), &["79"]);

    // The environment is no different, but for who makes the project that it names.
    let set = |words: &[&str]| {
        let out = c.command().env("MUSTER_PROJECT", "made").args(words).output().expect("it ran");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (out.status.code(), text(out.stdout) + &text(out.stderr))
    };
    let (code, said) = set(&["whoami"]);
    assert!(code == Some(3) && said.contains("there is no project made"), "{said}");
    let (code, said) = set(&["project", "create", "made"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = set(&["whoami"]);
    assert_eq!(code, Some(0), "{said}");

    // The settings say where new things go: what makes or reads them there refuses, the rest answers.
    write(&c, "muster.toml", "project = \"gone\"\n");
    for line in ["submit -- true", "secret list", "get secrets", "secret delete x"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        refuses(&c.muster(&words), 3, &["there is no project gone"]);
    }
    c.muster(&["topology"]).code(0);
    let doctor = c.muster(&["doctor"]);
    doctor.code(1);
    assert!(doctor.stdout.contains("there is no project gone"), "{doctor:?}");
}
