//! Every verb with something that is wrong, over, another's, empty or missing: what it says, how
//! it ends, and that nothing came of it. A verb without a row fails.

use super::{is, job, lasting};
use crate::minutes::cluster::{Cluster, until};
use clap::Command;
use std::collections::BTreeSet;

/// Verbs that name nothing of a site: only a flag can be wrong, which `args.rs` tries with all.
const NAME_NOTHING: &str = "
    up; server; agent check; agent inventory; agent metrics; agent qualify; agent drill; top;
    defrag; health; readiness; slo rules; failure-modes; gameday list; power; history metrics; whoami; doctor;
    completions; export prometheus-rules; export grafana; store check; store export; store import;
    store backup; store restore; store accept-loss; sim run; sim replay; sim compare; sim sweep
";

/// What is typed, the exit code, and what is said. `{…}` stands for what the test has made.
const ROWS: &[(&str, i32, &str)] = &[
    // Work.
    ("run --gpus 9 -- true", 5, "no node of this fleet has more than 8 GPUs"),
    ("run --project nope -- true", 3, "no project nope"),
    ("submit no-such-file.yaml", 2, "no-such-file.yaml"),
    ("submit --memory 4096 -- true", 2, "write a unit, such as 4096MiB"),
    ("submit --memory 9TiB -- true", 5, "memory a node"),
    ("submit --gpus 1 --sku h100 -- true", 5, "ask for SKU h100-sxm"),
    ("submit --after 4242 -- true", 3, "4242"),
    ("submit --secret nope -- true", 3, "has no secret nope"),
    ("submit --dry-run --gpus 9 -- true", 5, "can never start"),
    ("submit --dry-run --after 4242 -- true", 3, "4242"),
    ("submit --dry-run --after {failed}:ok -- true", 5, "did not end as required: it failed"),
    ("submit --after {failed}:ok -- true", 5, "it would be cancelled at once"),
    ("submit --dry-run --after {running}:any -- true", 0, "waits for job {running}"),
    ("whatif --from nope.jsonl --change spares=1", 2, "--from live, server, or a log"),
    ("whatif submit --gpus 9 -- true", 0, "can never start"),
    ("ps --state sleeping", 2, "is not a state"),
    ("ps --state held", 0, "held"),
    ("ps --state held,running", 0, "running"),
    ("ps --project nope", 3, "no project nope"),
    ("get job 4242", 3, "4242"),
    ("get jobs --project nope", 3, "no project nope"),
    ("get token nope", 3, "nope"),
    ("get faults nope", 3, "no node nope"),
    ("get policy x", 2, "has no name"),
    ("describe job 4242", 3, "4242"),
    ("describe job {held} --token {eve}", 3, "no job {held}"),
    ("describe node nope", 3, "no node nope"),
    ("logs 4242", 3, "4242"),
    ("logs {failed} --rank 99", 3, "rank 0 only"),
    ("logs {held} --rank 99", 3, "rank 0 only"),
    ("logs {failed} --attempt 9", 3, "has had 1 attempt"),
    ("logs {failed} --token {eve}", 3, "no job {failed}"),
    ("logs {failed} --since yesterday", 2, "--since: `yesterday` is not a time"),
    ("logs {failed}", 0, "printed nothing"),
    ("logs {running}", 0, "simulated workload"),
    ("logs {failed} --since 2999-01-01T00:00:00Z", 0, "is in the future"),
    ("logs {held}", 0, "has not started yet"),
    ("logs {array}", 0, "this is task {array}_0"),
    ("logs array", 0, "this is task {array}_0"),
    ("cancel 4242", 3, "4242"),
    ("cancel -- -1", 2, "`-1` is not a valid name"),
    ("cancel {running} nosuch", 3, "no job called `nosuch`"),
    ("cancel {failed}", 5, "job {failed} ended (failed) at "),
    ("cancel {cancelled}", 0, "was cancelled already"),
    ("cancel {array}", 0, "was cancelled already"),
    ("cancel {held} --token {eve}", 3, "no job {held}"),
    ("hold 4242", 3, "4242"),
    ("hold {held} 4242", 3, "4242"),
    ("hold {held} --token {eve}", 3, "no job {held}"),
    ("hold {failed}", 5, "job {failed} has failed: only a waiting job can be held"),
    ("hold {held}", 0, "is held already"),
    ("release 4242", 3, "4242"),
    ("release {held} --token {eve}", 3, "no job {held}"),
    ("release {running}", 0, "is not held: it is running"),
    ("release {failed}", 5, "nothing to release"),
    ("release {array}", 0, "no task of array {array} is held"),
    ("requeue 4242", 3, "4242"),
    ("requeue {held}", 0, "is queued already"),
    ("requeue {failed} --token {eve}", 3, "no job {failed}"),
    ("checkpoint 4242", 3, "4242"),
    ("checkpoint {running} --token {eve}", 3, "no job {running}"),
    ("checkpoint {failed}", 5, "only a running job"),
    ("wait 4242", 3, "4242"),
    ("wait {failed} --token {eve}", 3, "no job {failed}"),
    ("wait {failed}", 7, "failed"),
    ("update 4242 --time 2h", 3, "4242"),
    ("update {held} 4242 --time 2h", 3, "4242"),
    ("update {held} --time 2h --token {eve}", 3, "no job {held}"),
    ("update {failed} --time 2h", 5, "only a job that waits or runs"),
    ("update {failed} --priority low", 5, "only a waiting job"),
    ("update {held} --priority normal", 0, "asks for that already"),
    ("explain 4242", 3, "4242"),
    ("explain {held} --token {eve}", 3, "no job {held}"),
    ("explain {failed}", 0, "failed"),
    ("report job 4242", 3, "4242"),
    ("report job {failed} --token {eve}", 3, "no job {failed}"),
    ("report fleet --days x", 2, "--days"),
    ("report weekly --back x", 2, "--back"),
    ("report monthly --back x", 2, "--back"),
    // The fleet.
    ("nodes --project nope", 3, "no project nope"),
    ("nodes --state odd", 2, "is not a state of a node"),
    ("nodes --state ready,lost", 0, "{node}"),
    ("node cordon {node} nope", 3, "no node nope"),
    ("node cordon nope", 3, "no node nope"),
    ("node cordon {node} --token {eve}", 4, ""),
    ("node uncordon nope", 3, "no node nope"),
    ("node drain {node} nope", 3, "no node nope"),
    ("node drain nope", 3, "no node nope"),
    ("node drain {node} --token {eve}", 4, ""),
    ("node undrain nope", 3, "no node nope"),
    ("node retire nope", 3, "no node nope"),
    ("node reconcile nope", 3, "no node nope"),
    ("node mark nope --role spare", 3, "no node nope"),
    ("node repaired nope", 3, "no node nope"),
    ("node return nope --reason x", 3, "no node nope"),
    ("node exclude-gpu nope 1 --reason x", 3, "no node nope"),
    ("node exclude-gpu {node} --reason x", 2, "no GPU is named"),
    ("node inject nope crash", 3, "no node nope"),
    ("node inject {node} nosuch", 2, "the order is `muster node inject KIND NODE`"),
    ("node inject crash {node} --gpu 3", 2, "`crash` takes no --gpu"),
    ("node inject xid {node} --gpu 0 --code 99999", 2, "--code"),
    ("node qualify {node} nope", 3, "no node nope"),
    ("node qualify nope", 3, "no node nope"),
    ("node mig nope --gpu 0 --profiles 3g.40gb", 3, "no node nope"),
    ("node replace {node}", 5, "not supported yet"),
    ("topology apply nope.yaml", 2, "nope.yaml"),
    ("topology check nope.yaml", 2, "nope.yaml"),
    ("quota apply nope.yaml", 2, "nope.yaml"),
    ("quota apply nope.yaml --dry-run", 2, "nope.yaml"),
    ("quota check nope.yaml", 2, "nope.yaml"),
    ("policy show", 0, "preemption"),
    ("policy apply nope.yaml", 2, "nope.yaml"),
    ("reserve", 0, "muster reservation create NAME"),
    ("reservation list", 0, "no reservations"),
    ("reservation create x --gpus 8 --length 1h", 2, "--project NAME"),
    ("reservation create x --gpus 8 --length 1h --dry-run", 2, "--project NAME"),
    ("reservation apply nope.yaml", 2, "nope.yaml"),
    ("reservation delete nope", 3, "no reservation nope"),
    ("history node nope", 3, "no node nope"),
    ("history node {node} --gpu 99", 3, "no such GPU"),
    ("history node {node} --metric warmth", 2, "warmth"),
    ("history node {node} --since x", 2, "--since"),
    ("history node {node} --token {eve}", 4, ""),
    ("history job 4242", 3, "4242"),
    ("history job nosuch", 3, "no job called `nosuch`"),
    ("history job held", 0, "nothing was sampled"),
    ("history job {failed} --token {eve}", 3, "no job {failed}"),
    ("events --after x", 2, ""),
    ("events --job 4242", 3, "no job 4242"),
    ("events -f --job 4242", 3, "no job 4242"),
    ("events --since yesterday", 2, "--since"),
    ("events --until yesterday", 2, "--until"),
    ("events --since 1h --until 2h", 2, "not before"),
    ("events --kind No", 2, "no kind of event"),
    ("events --kind bogus", 2, "no event `bogus`"),
    ("events --kind node_lots", 2, "did you mean `node_lost`"),
    ("events --object 42", 2, "nothing that events are about"),
    ("events --object nope", 3, "no node nope"),
    ("events --object foo:1", 3, "no event is about foo:1"),
    ("events --object finding:999999", 3, "no event is about finding:999999"),
    ("events --object job:4242", 3, "no job 4242"),
    ("events -f --object nope", 3, "no node nope"),
    ("events -f --object foo:1", 3, "nothing of a site is called `foo`"),
    ("events --object node:{node} --actor nobody", 0, ""),
    ("events --object job:{held} --kind job_submitted", 0, "job {held}"),
    ("events --since 1h --actor nobody", 0, ""),
    ("search nosuchthing", 0, "nothing matches"),
    ("search held --token {eve}", 0, "nothing matches"),
    ("search {held}", 0, "held"),
    ("search {node} --limit 0", 2, "--limit"),
    ("search {node} --limit 101", 2, "--limit"),
    ("search {node} --job {failed}", 2, "--logs"),
    ("search --logs", 2, "TEXT"),
    ("search --logs ***", 2, "no word"),
    ("search --logs ***", 2, "such as `NCCL WARN`"),
    ("search --logs \"open", 2, "quotation mark"),
    ("search --logs x --since yesterday", 2, "--since"),
    ("search --logs x --job 4242", 3, "4242"),
    ("search --logs x --project nope", 3, "no project nope"),
    ("search --logs x --job {failed} --token {eve}", 3, "no job {failed}"),
    ("fabric test --nodes nope", 3, "no node nope"),
    ("fabric show 999999", 3, "no such test"),
    ("faults --node nope", 3, "no node nope"),
    ("findings --node nope", 3, "no node nope"),
    ("findings close 999999 --reason x", 3, "no finding 999999"),
    ("incident close 999999 --reason x", 3, "no incident 999999"),
    ("incident note 999999 x", 3, "no incident 999999"),
    ("incident own 999999", 3, "no incident 999999"),
    ("incident record 999999", 3, "no incident 999999"),
    ("incident report 999999", 3, "no incident 999999"),
    ("remediations --node nope", 3, "no node nope"),
    ("remediations approve 999999", 3, "999999"),
    ("remediations deny 999999", 3, "999999"),
    ("remediations undo 999999 --reason x", 3, "999999"),
    ("remediations dry-run --days 0", 2, "--days"),
    ("runbook", 0, "muster runbook show NAME"),
    ("runbook list --for nope", 0, "no runbook serves that"),
    ("runbook show nope", 3, "no runbook nope"),
    ("runbook run nope", 3, "no runbook nope"),
    ("runbook run gpu-off-bus --node nosuch --auto", 3, "no node nosuch"),
    ("runbook runs", 0, "no run is active"),
    ("runbook describe 999999", 3, "no run 999999"),
    ("runbook answer 999999 go --step 1", 3, "no run 999999"),
    ("runbook stop 999999", 3, "no run 999999"),
    ("runbook apply nope.md", 2, "nope.md"),
    ("runbook delete nope", 3, "no runbook nope"),
    ("breakers force nonsense open", 2, "nonsense"),
    ("breakers release node:{node}", 5, "is not forced"),
    ("automation stop --token {eve}", 4, ""),
    ("automation resume --token {eve}", 4, ""),
    ("gameday run nope", 3, "no drill `nope`"),
    // The site.
    ("slo list", 0, ""),
    ("slo show nope", 3, "no objective nope"),
    ("slo apply nope.yaml", 2, "nope.yaml"),
    ("slo delete nope", 3, "no objective nope"),
    ("alerts show nope", 3, "no alert nope"),
    ("alerts ack nope", 3, "no alert nope"),
    ("alerts escalate nope", 3, "no alert nope"),
    ("silence list", 0, "nothing is silenced"),
    ("silence create x --length nonsense", 2, "--length"),
    ("silence create x --length 1h", 2, "--kind '*'"),
    ("silence create x --under rack:nope --length 1h", 3, "has no rack:nope"),
    ("silence end nope", 3, "no silence nope"),
    ("silence end over", 0, "silence over was over already"),
    ("silence end over nope", 3, "no silence nope"),
    ("routing show", 0, ""),
    ("routing apply nope.yaml", 2, "nope.yaml"),
    ("routing apply nope.yaml --dry-run", 2, "nope.yaml"),
    ("token create x --ttl nonsense", 2, "--ttl"),
    ("token create x --token {eve}", 4, ""),
    ("token list", 0, "eve"),
    ("token revoke nope", 3, "no token `nope`"),
    ("token revoke eve nope", 3, "no token `nope`"),
    ("token revoke revoked", 0, "token revoked was revoked already"),
    ("token revoke eve revoked nope", 3, "no token `nope`"),
    ("token revoke twice", 5, "2 tokens are called `twice`"),
    ("secret set path --value x", 2, "PATH"),
    ("secret list --project nope", 3, "no project nope"),
    ("secret delete nope", 3, "no secret nope"),
    ("project create default", 5, "exists already"),
    ("project list", 0, "default"),
    ("whoami --token=", 2, "the token is empty"),
    ("whoami --token nonsense", 4, "set MUSTER_TOKEN"),
];

/// Verbs that have no other verbs under them, as they are typed.
fn leaves(c: &Command, path: &str, out: &mut BTreeSet<String>) {
    for sub in c.get_subcommands().filter(|s| !s.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name()).trim().to_owned();
        if sub.get_subcommands().any(|s| !s.is_hide_set()) {
            leaves(sub, &path, out);
        } else {
            out.insert(path);
        }
    }
}

/// The verb that a line begins with.
fn verb_of(c: &Command, line: &str) -> String {
    let (mut at, mut path) = (c, Vec::new());
    for word in line.split_whitespace() {
        let Some(sub) = at.find_subcommand(word) else { break };
        path.push(sub.get_name());
        at = sub;
    }
    path.join(" ")
}

#[test]
fn every_verb_has_a_row() {
    let tree = muster_cli::command();
    let (mut all, mut tried) = (BTreeSet::new(), BTreeSet::new());
    leaves(&tree, "", &mut all);
    tried.extend(ROWS.iter().map(|(line, ..)| verb_of(&tree, line)));
    let words = |v: &str| v.split_whitespace().collect::<Vec<_>>().join(" ");
    let named: Vec<String> = NAME_NOTHING.split(';').map(words).collect();
    tried.extend(named.iter().cloned());
    let without: Vec<&String> = all.difference(&tried).collect();
    assert!(without.is_empty(), "verbs without a row in ROWS or NAME_NOTHING: {without:?}");
    let gone: Vec<&String> = named.iter().filter(|v| verb_of(&tree, v) != **v).collect();
    assert!(gone.is_empty(), "no such verbs any more: {gone:?}");
}

#[test]
fn no_verb_says_that_it_did_what_it_did_not() {
    let c = Cluster::start(2);
    c.muster(&["project", "create", "other"]).code(0);
    let eve = c.muster(&["token", "create", "eve", "--role", "user", "--project", "other"]);
    eve.code(0);
    for _ in 0..2 {
        c.muster(&["token", "create", "twice", "--role", "viewer"]).code(0);
    }
    c.muster(&["token", "create", "revoked"]).code(0);
    c.muster(&["token", "revoke", "revoked"]).code(0);
    c.muster(&["silence", "create", "over", "--kind", "gpu-fault", "--length", "1h"]).code(0);
    c.muster(&["silence", "end", "over"]).code(0);
    let failed = c.submit(&["--name", "failed", "--", "sh", "-c", "exit 7"]);
    c.muster(&["wait", &failed]).code(7);
    let held = c.submit(&["--name", "held", "--hold", "--", "true"]);
    let cancelled = c.submit(&["--name", "cancelled", "--hold", "--", "true"]);
    let array = c.submit(&["--name", "array", "--hold", "--array", "0-1", "--", "true"]);
    for id in [&cancelled, &array] {
        c.muster(&["cancel", id]).code(0);
    }
    assert_eq!(job(&c, &array)["state"], "cancelled");
    let running = lasting(&c, "running", 1, &[]);
    until("the job runs", || is(&c, &running, "running"));
    let nodes = c.json(&["get", "nodes"]);
    let node = nodes["items"][0]["name"].as_str().expect("a name").to_owned();
    let last = |list: &serde_json::Value| {
        list["items"].as_array().and_then(|a| a.last()).map(|e| e["seq"].to_string())
    };
    let before = last(&c.json(&["events", "--limit", "100000"])).expect("a log");

    let made: [(&str, &str); 7] = [
        ("{eve}", eve.stdout.trim()),
        ("{failed}", &failed),
        ("{held}", &held),
        ("{cancelled}", &cancelled),
        ("{array}", &array),
        ("{running}", &running),
        ("{node}", &node),
    ];
    let fill = |text: &str| made.iter().fold(text.to_owned(), |t, (name, is)| t.replace(*name, is));
    for &(line, code, words) in ROWS {
        let words = fill(words);
        let args: Vec<String> = line.split_whitespace().map(fill).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let out = c.muster(&args);
        out.code(code);
        assert!(
            out.stdout.contains(&words) || out.stderr.contains(&words),
            "`{words}` in what `muster {line}` said: {out:#?}"
        );
        // A hint is for whoever typed the command.
        assert!(!out.stderr.contains("/v1/") && !out.stderr.contains("panicked"), "{out:#?}");
    }
    // Nobody's word is in the log for any of it; what nodes report and the clock decides may be.
    let after = c.json(&["events", "--after", &before, "--limit", "100000"]);
    let events = after["items"].as_array().expect("a list").iter();
    let said: Vec<_> =
        events.filter(|e| e["actor"].as_str().is_some_and(|a| a.starts_with("user:"))).collect();
    assert!(said.is_empty(), "something was done: {said:#?}");
}
