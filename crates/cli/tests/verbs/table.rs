//! Every verb with something that is wrong, over, another's, empty or missing: what it says, how
//! it ends, and that nothing came of it. A verb without a row fails.

use super::{is, job, lasting};
use crate::minutes::cluster::{Cluster, until};
use clap::Command;
use std::collections::BTreeSet;

/// Verbs that name nothing of a site: only a flag can be wrong, which `args.rs` tries with all.
const NAME_NOTHING: &str = "
    up; server; agent check; agent inventory; agent metrics; agent qualify; agent drill;
    gameday list; history metrics; doctor; completions; export prometheus-rules;
    export grafana; store check; store export; store import; store backup; store restore;
    store accept-loss; sim replay; sim sweep
";

/// Verbs to which nothing is another's: what is done here alone, and what says itself that it cannot be done.
const NOTHING_FOREIGN: &str = "
    topology check; quota check; gameday run; sim run; sim compare
";

/// Verbs that take a name and have no row for what is not there, with an empty name: of what they make, and of
/// files and nodes.
const EMPTY_NAMES: &[&str] = &[
    "breakers release {empty}",
    "sim sweep {empty} --set nodes=1,2",
    "store export {empty}",
    "store import {empty}",
    "store backup {empty}",
    "store restore {empty}",
    "project create {empty}",
    "secret set {empty} --value x",
    "completions {empty}",
];

/// What no site has.
const MISSING: &[&str] = &["4242", "999999", "nope", "nosuch", "no-such", "nonsense"];

/// Jobs that are over.
const OVER: &[&str] = &["{failed}", "{cancelled}", "{array}"];

/// What is typed, the exit code, and what is said. `{…}` stands for what the test has made.
const ROWS: &[(&str, i32, &str)] = &[
    // Work.
    ("run", 2, "such as 'muster run -- hostname'"),
    ("run true", 2, "'muster run -- true'"),
    ("submit", 2, "such as 'muster submit train.yaml' or 'muster submit --gpus 1 -- python"),
    ("submit python train.py", 2, "'muster submit -- CMD'"),
    ("submit --gpu 2 -- true", 2, "a similar argument exists: '--gpus'"),
    ("run --gpus 9 -- true", 5, "no node of this fleet has more than 8 GPUs"),
    ("run --project nope -- true", 3, "no project nope"),
    ("run --project default --token {eve} -- true", 4, "bound to project other"),
    ("submit no-such-file.yaml", 2, "no-such-file.yaml"),
    ("submit --name= -- true", 2, "--name is empty"),
    ("submit --image= -- true", 2, "--image is empty"),
    ("submit {empty}", 2, "FILE is empty"),
    ("run --project= -- true", 2, "--project is empty"),
    ("submit --memory 4096 -- true", 2, "write a unit, such as 4096MiB"),
    ("submit --memory 9TiB -- true", 5, "memory a node"),
    ("submit --gpus 1 --sku h100 -- true", 5, "ask for SKU h100-sxm"),
    ("submit --after 4242 -- true", 3, "4242"),
    ("submit --after {failed} --token {eve} -- true", 3, "project other has no such job"),
    ("submit --project default --token {eve} -- true", 4, "bound to project other"),
    ("submit --secret nope -- true", 3, "has no secret nope"),
    ("submit --dry-run --gpus 9 -- true", 5, "can never start"),
    ("submit --dry-run --after 4242 -- true", 3, "4242"),
    ("submit --dry-run --after {failed}:ok -- true", 5, "did not end as required: it failed"),
    ("submit --after {failed}:ok -- true", 5, "it would be cancelled at once"),
    ("submit --dry-run --after {running}:any -- true", 0, "waits for job {running}"),
    ("whatif --from nope.jsonl --change spares=1", 2, "--from live, server, or a log"),
    ("whatif --from server --change nodes=+2 --token {eve}", 4, "takes operator"),
    ("whatif submit --gpus 9 -- true", 0, "can never start"),
    ("whatif submit --after 4242 -- true", 3, "4242"),
    ("whatif submit --after {failed} --token {eve} -- true", 3, "project other has no such job"),
    ("whatif submit --after {failed}:ok -- true", 5, "it would be cancelled at once"),
    ("ps --state sleeping", 2, "is not a state"),
    ("ps --state held", 0, "held"),
    ("ps --state held,running", 0, "running"),
    ("ps --project nope", 3, "no project nope"),
    ("ps --user nobody", 0, "no job fits --user nobody"),
    ("ps --all --name nobody", 0, "no job fits --name nobody"),
    ("ps --project default --token {eve}", 4, "bound to project other"),
    ("ps --project=", 2, "--project is empty"),
    ("get job {empty}", 2, "NAME is empty"),
    ("get job 4242", 3, "4242"),
    ("get job {held} --token {eve}", 3, "no job {held}"),
    ("get job {failed}", 0, "rank 0 exited with code 7"),
    ("get node nope", 3, "no node nope"),
    ("get jobs --project default --token {eve}", 4, "bound to project other"),
    ("get jobs --project nope", 3, "no project nope"),
    ("get token nope", 3, "nope"),
    ("get faults nope", 3, "no node nope"),
    ("get events --project nope", 3, "no project nope"),
    ("get projects --project nope", 0, "default"),
    ("get project nope", 3, "no project `nope`"),
    ("get project default --token {eve}", 3, "no project `default`"),
    ("get secret nope", 3, "no secret `nope`"),
    ("get event nope", 2, ""),
    ("get reservation nope", 3, "no reservation nope"),
    ("get reservation nope --token {eve}", 3, "no reservation nope"),
    ("get quota nope", 3, "no quota `nope`"),
    ("get policy nope", 2, "has no name"),
    ("describe node {empty}", 2, "NAME is empty"),
    ("describe job 4242", 3, "4242"),
    ("describe job {held} --token {eve}", 3, "no job {held}"),
    ("describe job {failed}", 0, "rank 0 exited with code 7"),
    ("describe node nope", 3, "no node nope"),
    ("describe node nope --token {eve}", 3, "no node nope"),
    ("describe node {node} --project nope", 3, "no project nope"),
    ("logs 4242", 3, "4242"),
    ("logs {failed} --rank 99", 3, "rank 0 only"),
    ("logs {held} --rank 99", 3, "rank 0 only"),
    ("logs {failed} --attempt 9", 3, "has had 1 attempt"),
    ("logs {failed} --token {eve}", 3, "no job {failed}"),
    ("logs {failed} --project nope", 3, "no project nope"),
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
    ("cancel {held} --project nope", 3, "no project nope"),
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
    ("requeue --all {failed}", 2, "is one job, no array"),
    ("requeue 4242", 3, "4242"),
    ("requeue {held}", 0, "is queued already"),
    ("requeue {failed} --token {eve}", 3, "no job {failed}"),
    ("checkpoint 4242", 3, "4242"),
    ("checkpoint {running} --token {eve}", 3, "no job {running}"),
    ("checkpoint {failed}", 5, "only a running job"),
    ("wait 4242", 3, "4242"),
    ("wait {failed} --token {eve}", 3, "no job {failed}"),
    ("wait {failed}", 7, "failed"),
    ("wait {failed} --timeout 1h", 7, "failed"),
    ("wait {held} --timeout 1s", 124, "is not over after 1s"),
    ("update 4242 --time 2h", 3, "4242"),
    ("update {held} 4242 --time 2h", 3, "4242"),
    ("update {held} --time 2h --token {eve}", 3, "no job {held}"),
    ("update {failed} --time 2h", 5, "only a job that waits or runs"),
    ("update {failed} --priority low", 5, "only a waiting job"),
    ("update {held} --priority normal", 0, "asks for that already"),
    ("explain 4242", 3, "4242"),
    ("explain {held} --token {eve}", 3, "no job {held}"),
    ("explain {held} --project nope", 3, "no project nope"),
    ("explain {failed}", 0, "failed"),
    ("report job 4242", 3, "4242"),
    ("report job {failed} --token {eve}", 3, "no job {failed}"),
    ("report job {failed}", 0, "failed, "),
    ("report job {failed} --project nope", 3, "no project nope"),
    ("report job {failed} --project other", 3, "project other has no job {failed}"),
    ("report job {failed} --project default", 0, "failed, "),
    ("report fleet --days x", 2, "--days"),
    ("report fleet --project nope", 3, "no project nope"),
    ("report fleet --only nope", 3, "no project nope"),
    ("report fleet --only other --project default", 2, "name two projects"),
    ("report fleet --project other", 0, "Project other"),
    ("report fleet --project default --token {eve}", 4, "bound to project other"),
    ("report weekly --back x", 2, "--back"),
    ("report weekly --project nope", 3, "no project nope"),
    ("report weekly --project default", 2, "this report is of the whole site"),
    ("report weekly --token {eve}", 4, "bound to project other"),
    ("report monthly --back x", 2, "--back"),
    ("report monthly --project nope", 3, "no project nope"),
    ("report monthly --project default", 2, "this report is of the whole site"),
    ("report monthly --token {eve}", 4, "bound to project other"),
    // The fleet.
    ("nodes --project nope", 3, "no project nope"),
    ("nodes --project default --token {eve}", 4, "bound to project other"),
    ("nodes --state odd", 2, "is not a state of a node"),
    ("nodes --state ready,lost", 0, "{node}"),
    ("nodes --state lost,retired", 0, "no node fits --state lost,retired"),
    ("node cordon {node} {empty}", 2, "NODE is empty"),
    ("node drain {empty} --reason x", 2, "NODE is empty"),
    ("node cordon {node} nope", 3, "no node nope"),
    ("node cordon nope", 3, "no node nope"),
    ("node cordon {node} --token {eve}", 4, ""),
    ("node uncordon nope", 3, "no node nope"),
    ("node uncordon {node} --token {eve}", 4, "takes operator"),
    ("node drain {node} nope", 3, "no node nope"),
    ("node drain nope", 3, "no node nope"),
    ("node drain {node} --token {eve}", 4, ""),
    ("node undrain nope", 3, "no node nope"),
    ("node undrain {node} --token {eve}", 4, "takes operator"),
    ("node retire nope", 3, "no node nope"),
    ("node retire {node} --token {eve}", 4, "takes operator"),
    ("node reconcile nope", 3, "no node nope"),
    ("node reconcile {node} --token {eve}", 4, "takes operator"),
    ("node mark nope --role spare", 3, "no node nope"),
    ("node mark {node} --role spare --token {eve}", 4, "takes operator"),
    ("node repaired nope", 3, "no node nope"),
    ("node repaired {node} --token {eve}", 4, "takes operator"),
    ("node return nope --reason x", 3, "no node nope"),
    ("node return {node} --reason x --token {eve}", 4, "takes operator"),
    ("node exclude-gpu nope 1 --reason x", 3, "no node nope"),
    ("node exclude-gpu {node} 1 --reason x --token {eve}", 4, "takes operator"),
    ("node exclude-gpu {node} --reason x", 2, "no GPU is named"),
    ("node inject nope crash", 3, "no node nope"),
    ("node inject {node} crash --token {eve}", 4, "takes operator"),
    ("node inject {node} nosuch", 2, "the order is `muster node inject KIND NODE`"),
    ("node inject crash {node} --gpu 3", 2, "`crash` takes no --gpu"),
    ("node inject xid {node} --gpu 0 --code 99999", 2, "--code"),
    ("node qualify {node} nope", 3, "no node nope"),
    ("node qualify nope", 3, "no node nope"),
    ("node qualify {node} --token {eve}", 4, "takes operator"),
    ("node mig nope --gpu 0 --profiles 3g.40gb", 3, "no node nope"),
    ("node mig {node} --gpu 0 --profiles 3g.40gb --token {eve}", 4, "takes operator"),
    ("node replace {node}", 5, "not supported yet"),
    ("node replace nope", 5, "not supported yet"),
    ("node replace {node} --token {eve}", 5, "not supported yet"),
    ("node cordon {node} --project nope", 3, "no project nope"),
    ("topology --depth rack apply site.yaml", 2, "`apply` draws nothing"),
    ("topology apply nope.yaml", 2, "nope.yaml"),
    ("topology apply site.yaml --token {eve}", 4, "takes admin"),
    ("topology check nope.yaml", 2, "nope.yaml"),
    ("topology --token {eve}", 0, "region"),
    ("topology --project nope", 3, "no project nope"),
    ("quota apply nope.yaml", 2, "nope.yaml"),
    ("quota apply quotas.yaml --token {eve}", 4, "takes admin"),
    ("quota apply nope.yaml --dry-run", 2, "nope.yaml"),
    ("quota --project nope", 3, "no project nope"),
    ("quota --project default --token {eve}", 4, "bound to project other"),
    ("quota check nope.yaml", 2, "nope.yaml"),
    ("policy show", 0, "preemption"),
    ("policy show --project nope", 3, "no project nope"),
    ("policy show --token {eve}", 0, "preemption"),
    ("policy apply nope.yaml", 2, "nope.yaml"),
    ("policy apply policy.yaml --token {eve}", 4, "takes admin"),
    ("reserve", 0, "muster reservation create NAME"),
    ("reservation list", 0, "no reservations"),
    ("reservation list --token {eve}", 0, "no reservations"),
    ("reserve --token {eve}", 0, "no reservations"),
    ("reserve --project nope", 3, "no project nope"),
    ("reservation list --project nope", 3, "no project nope"),
    ("reservation create x --nodes 2 --length 1h --maintenance", 3, "--gpus N reserves"),
    ("reservation create x --gpus 8 --length 1h", 2, "--project NAME"),
    ("reservation create x --gpus 8 --length 1h --project nope", 3, "no project nope"),
    ("reservation create x --gpus 8 --length 1h --project other --token {eve}", 4, "operator"),
    ("reservation create x --gpus 8 --length 1h --dry-run", 2, "--project NAME"),
    (
        "reservation create x --gpus 8 --length 1h --maintenance --project default",
        2,
        "nobody's work runs",
    ),
    ("reservation apply nope.yaml", 2, "nope.yaml"),
    ("reservation apply fans.yaml --token {eve}", 4, "takes operator"),
    ("reservation delete nope", 3, "no reservation nope"),
    ("reservation delete nope --token {eve}", 4, "takes operator"),
    ("history node nope", 3, "no node nope"),
    ("history node {node} --gpu 99", 3, "no such GPU"),
    ("history node {node} --metric warmth", 2, "warmth"),
    ("history node {node} --since x", 2, "--since"),
    ("history node {node} --token {eve}", 4, ""),
    ("history job 4242", 3, "4242"),
    ("history job nosuch", 3, "no job called `nosuch`"),
    ("history node {node} --project nope", 3, "no project nope"),
    ("history job held", 0, "nothing was sampled"),
    ("history job {failed} --token {eve}", 3, "no job {failed}"),
    ("history job {failed}", 0, ""),
    ("events -f --limit 5", 2, "--limit"),
    ("events --after x", 2, ""),
    ("events --job 4242", 3, "no job 4242"),
    ("events --job {failed} --token {eve}", 3, "no job {failed}"),
    ("events --job {failed}", 0, "job_failed"),
    ("events --job {array}_1", 0, "job {array}_1"),
    ("events --object job:array", 0, "job {array}_0"),
    ("events --job held", 0, "job {held}"),
    ("events --job 4242_3", 3, "4242_3"),
    ("events -f --job 4242", 3, "no job 4242"),
    ("events --since yesterday", 2, "--since"),
    ("events --since 2999-01-01T00:00:00Z", 0, "is in the future"),
    ("events --project nope", 3, "no project nope"),
    ("events --project default --token {eve}", 4, "bound to project other"),
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
    ("events --since 1h --actor nobody", 0, "no event fits"),
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
    ("search --logs x --since 2999-01-01T00:00:00Z", 0, "is in the future"),
    ("search held --project nope", 3, "no project nope"),
    ("search --logs x --job 4242", 3, "4242"),
    ("search --logs x --job {failed}", 0, "no line of stored output"),
    ("search --logs x --project nope", 3, "no project nope"),
    ("search --logs x --project default --token {eve}", 4, "bound to project other"),
    ("search --logs x --job {failed} --token {eve}", 3, "no job {failed}"),
    ("fabric test --nodes nope", 3, "no node nope"),
    ("fabric test --nodes {node} --token {eve}", 4, "takes operator"),
    ("fabric show 999999", 3, "no such test"),
    ("fabric show 999999 --token {eve}", 4, "takes operator"),
    ("faults --node nope", 3, "no node nope"),
    ("faults --project nope", 3, "no project nope"),
    ("faults --code bogus", 2, "no fault `bogus`"),
    ("faults --code xid-62", 0, "no faults were reported"),
    ("faults --node {node} --token {eve}", 0, "that affected jobs of project other"),
    ("findings 7 --all", 2, "--all"),
    ("findings 7 --limit 5", 2, "--limit"),
    ("findings --node nope", 3, "no node nope"),
    ("findings --kind bogus", 2, "is no failure mode"),
    ("findings --project nope", 3, "no project nope"),
    ("findings --node {node} --token {eve}", 0, "no finding is open about jobs of project other"),
    ("findings close 999999 --reason x", 3, "no finding 999999"),
    ("findings close 999999 --reason x --token {eve}", 4, "takes operator"),
    ("incident 7 --all", 2, "--all"),
    ("incident 999999", 3, "no incident 999999"),
    ("incident 999999 --token {eve}", 4, "bound to project other"),
    ("incident report 7 -o json", 2, "does not go with -o json"),
    ("incident close 999999 --reason x", 3, "no incident 999999"),
    ("incident close 999999 --reason x --token {eve}", 4, "takes operator"),
    ("incident note 999999 x", 3, "no incident 999999"),
    ("incident note 999999 x --token {eve}", 4, "takes operator"),
    ("incident own 999999", 3, "no incident 999999"),
    ("incident own 999999 --token {eve}", 4, "takes operator"),
    ("incident record 999999", 3, "no incident 999999"),
    ("incident record 999999 --token {eve}", 4, "bound to project other"),
    ("incident report 999999", 3, "no incident 999999"),
    ("incident report 999999 --token {eve}", 4, "bound to project other"),
    ("remediations 7 --node {node}", 2, "--node"),
    ("remediations --node nope", 3, "no node nope"),
    ("remediations --project nope", 3, "no project nope"),
    ("remediations --node {node} --token {eve}", 4, "bound to project other"),
    ("remediations approve 999999", 3, "999999"),
    ("remediations approve 999999 --token {eve}", 4, "takes operator"),
    ("remediations deny 999999", 3, "999999"),
    ("remediations deny 999999 --token {eve}", 4, "takes operator"),
    ("remediations undo 999999 --reason x", 3, "999999"),
    ("remediations undo 999999 --reason x --token {eve}", 4, "takes operator"),
    ("remediations dry-run --days 0", 2, "--days"),
    ("remediations dry-run --project nope", 3, "no project nope"),
    ("remediations dry-run --token {eve}", 4, "bound to project other"),
    ("runbook", 0, "muster runbook show NAME"),
    ("runbook --token {eve}", 4, "bound to project other"),
    ("runbook --project nope", 3, "no project nope"),
    ("runbook list --for nope", 0, "no runbook serves that"),
    ("runbook list --token {eve}", 4, "bound to project other"),
    ("runbook show no-spares --text -o json", 2, "does not go with -o json"),
    ("runbook show nope", 3, "no runbook nope"),
    ("runbook show no-spares --token {eve}", 4, "bound to project other"),
    ("runbook run nope", 3, "no runbook nope"),
    ("runbook run no-spares --token {eve}", 4, "bound to project other"),
    ("runbook run gpu-off-bus --node nosuch --auto", 3, "no node nosuch"),
    ("runbook runs", 0, "no run is active"),
    ("runbook runs --node nope", 3, "no node nope"),
    ("runbook runs --token {eve}", 4, "bound to project other"),
    ("runbook describe 999999", 3, "no run 999999"),
    ("runbook describe 999999 --token {eve}", 4, "bound to project other"),
    ("runbook answer 999999 go --step 1", 3, "no run 999999"),
    ("runbook answer 999999 go --step 1 --token {eve}", 4, "bound to project other"),
    ("runbook stop 999999", 3, "no run 999999"),
    ("runbook stop 999999 --token {eve}", 4, "bound to project other"),
    ("runbook apply nope.md", 2, "nope.md"),
    ("runbook apply own.md --token {eve}", 4, "takes operator"),
    ("runbook delete nope", 3, "no runbook nope"),
    ("runbook delete no-spares --token {eve}", 4, "takes operator"),
    ("breakers force nonsense open", 2, "nonsense"),
    ("breakers force node:nope open", 3, "no node nope"),
    ("breakers force leaf:nope open", 3, "no node belongs to leaf:nope"),
    ("breakers force node:{node} open --token {eve}", 4, "takes operator"),
    ("breakers release node:{node}", 5, "is not forced"),
    ("breakers release node:nope", 3, "no node nope"),
    ("breakers release node:{node} --token {eve}", 4, "takes operator"),
    ("automation stop --token {eve}", 4, ""),
    ("automation stop --project nope", 3, "no project nope"),
    ("automation resume --token {eve}", 4, ""),
    ("automation resume --project nope", 3, "no project nope"),
    ("gameday run nope --live --yes --nodes 4", 2, "--nodes"),
    ("gameday run nope", 3, "no drill `nope`"),
    // The site.
    ("slo list", 0, ""),
    ("slo list --project nope", 3, "no project nope"),
    ("slo list --project default --token {eve}", 4, "bound to project other"),
    ("slo show nope", 3, "no objective nope"),
    ("slo show job-success --token {eve}", 3, "no objective job-success"),
    ("slo apply nope.yaml", 2, "nope.yaml"),
    ("slo apply objectives.yaml --token {eve}", 4, "bound to project other"),
    ("slo delete nope", 3, "no objective nope"),
    ("slo delete job-success --token {eve}", 4, "takes admin"),
    ("alerts --project nope", 3, "no project nope"),
    ("alerts --project default --token {eve}", 4, "bound to project other"),
    ("alerts --token {eve}", 0, "no alert is open about project other alone"),
    ("alerts --all show nope", 2, "--all"),
    ("alerts show nope", 3, "no alert nope"),
    ("alerts show nope --token {eve}", 3, "no alert nope"),
    ("alerts ack nope", 3, "no alert nope"),
    ("alerts ack nope --token {eve}", 3, "no alert nope"),
    ("alerts escalate nope", 3, "no alert nope"),
    ("alerts escalate nope --token {eve}", 4, "takes operator"),
    ("silence list", 0, "nothing is silenced"),
    ("silence list --project nope", 3, "no project nope"),
    ("silence list --token {eve}", 4, "bound to project other"),
    ("silence create x --length nonsense", 2, "--length"),
    ("silence create x --length 1h", 2, "--kind '*'"),
    ("silence create x --topic weather --length 1h", 2, "certificate, drift"),
    ("silence create x --kind gpu-fault --length 1h --token {eve}", 4, "takes operator"),
    ("silence create x --under rack:nope --length 1h", 3, "has no rack:nope"),
    ("silence create x --project nope --length 1h", 3, "no project nope"),
    ("silence end nope", 3, "no silence nope"),
    ("silence end over --token {eve}", 4, "bound to project other"),
    ("silence end over", 0, "silence over was over already"),
    ("silence end over nope", 3, "no silence nope"),
    ("routing show", 0, ""),
    ("routing show --project nope", 3, "no project nope"),
    ("routing show --token {eve}", 4, "bound to project other"),
    ("routing apply nope.yaml", 2, "nope.yaml"),
    ("routing apply routing.yaml --token {eve}", 4, "takes operator"),
    ("routing apply nope.yaml --dry-run", 2, "nope.yaml"),
    ("token create x --ttl nonsense", 2, "--ttl"),
    ("token create x --token {eve}", 4, ""),
    ("token create x --join --project default", 2, "has no project"),
    ("token create x --project nope", 3, "no project nope"),
    ("token list", 0, "eve"),
    ("token list --project nope", 3, "no project nope"),
    ("token list --token {eve}", 4, "takes admin"),
    ("token revoke nope", 3, "no token `nope`"),
    ("token revoke twice --token {eve}", 4, "takes admin"),
    ("token revoke eve nope", 3, "no token `nope`"),
    ("token revoke revoked", 0, "token revoked was revoked already"),
    ("token revoke eve revoked nope", 3, "no token `nope`"),
    ("token revoke twice", 5, "2 tokens are called `twice`"),
    ("secret set path --value x", 2, "PATH"),
    ("secret set x --value y --project nope", 3, "no project nope"),
    ("secret set x --value y --project default --token {eve}", 4, "bound to project other"),
    ("secret list", 0, "no secret is set"),
    ("secret list --project nope", 3, "no project nope"),
    ("secret list --project default --token {eve}", 4, "bound to project other"),
    ("secret delete nope", 3, "no secret nope"),
    ("secret delete nope --project default --token {eve}", 4, "bound to project other"),
    ("project create default", 5, "exists already"),
    ("project create another --project nope", 2, "part of no other"),
    ("project create another --token {eve}", 4, "takes admin"),
    ("project list", 0, "default"),
    ("project list --project nope", 0, "there is no project nope"),
    ("project list --token {eve}", 0, "other"),
    ("slo rules --project nope", 3, "no project nope"),
    ("slo rules -o json", 2, "does not go with -o json"),
    ("slo rules --token {eve}", 4, "bound to project other"),
    ("defrag --token {eve}", 4, "bound to project other"),
    ("defrag --project nope", 3, "no project nope"),
    ("sim run nope.toml", 2, "cannot read nope.toml"),
    ("sim compare nope.toml nope.toml", 2, "cannot read nope.toml"),
    ("failure-modes --token {eve}", 0, "others are not shown to this token"),
    ("failure-modes --project nope", 3, "no project nope"),
    ("failure-modes --markdown -o json", 2, "does not go with -o json"),
    ("whoami --token=", 2, "--token is empty"),
    ("whoami --token nonsense", 4, "set MUSTER_TOKEN"),
    ("whoami --token {eve}", 0, "project other"),
    ("whoami --project nope", 3, "no project nope"),
    ("health --server=", 2, "--server is empty"),
    ("health --project nope", 3, "no project nope"),
    ("health nope", 2, "unexpected argument 'nope'"),
    ("health --token nonsense", 4, "set MUSTER_TOKEN"),
    ("health --token {eve}", 0, "Nodes:"),
    ("readiness nope", 2, "unexpected argument 'nope'"),
    ("readiness --token {eve}", 4, "bound to project other"),
    ("power --by nope", 2, "node, rack, feed"),
    ("power --token {eve}", 4, "takes operator"),
    ("top --once --view nope", 2, "use fleet, queue, incidents, or job:ID"),
    ("top --once --project nope", 3, "no project nope"),
    ("top --once --size 1x1", 2, "from 20x5 to 500x500"),
    ("top --once --view job:4242", 3, "no job 4242"),
    ("top --once --view job:{failed}", 0, "failed"),
    ("top --once --view job:{held} --token {eve}", 3, "no job {held}"),
];

/// Files that would do something if whoever applies them were allowed to.
const FILES: [(&str, &str); 7] = [
    (
        "own.md",
        "---\nname: own\ntitle: Own\ntopics: [test]\nurgency: today\nowner: ops\n---\n\nWords.\n\n\
         ## 1. ask: Is it done?\n\n```muster\nask: Is it done?\nchoice: yes -> end\nchoice: no -> give-up\nassume: yes\n```\n",
    ),
    ("policy.yaml", "kind: Policy\npreemption: {min_run: 0s}\n"),
    (
        "quotas.yaml",
        "kind: Quotas\ntree:\n  - {name: other, projects: [other], gpus: [{nominal: 4}]}\n",
    ),
    (
        "site.yaml",
        "region:\n  - name: eu\n    cluster:\n      - name: c1\n        leaf:\n          \
         - {name: l1, rack: [{name: r1, nodes: \"{node}\"}]}\n",
    ),
    (
        "objectives.yaml",
        "kind: Objectives\nobjectives:\n  - {name: our-wait, owner: ops, \
         sli: {queue_wait: {under: 5m}}, target: 95%, window: 28d}\n",
    ),
    (
        "fans.yaml",
        "kind: Reservation\nname: fans\nover: {nodes: [{node}]}\nstart: now\nlength: 1h\n\
         reason: replace fans\n",
    ),
    (
        "routing.yaml",
        "kind: Routing\nreceivers:\n  - {name: am, by: {alertmanager: \
         {url: http://127.0.0.1:9093}}}\nroutes:\n  - {match: {urgency: page}, to: [am]}\n",
    ),
];

/// Verbs that have no other verbs under them, as they are typed.
pub(super) fn leaves(c: &Command, path: &str, out: &mut BTreeSet<String>) {
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
pub(super) fn verb_of(c: &Command, line: &str) -> String {
    let (mut at, mut path) = (c, Vec::new());
    for word in line.split_whitespace() {
        let Some(sub) = at.find_subcommand(word) else { break };
        path.push(sub.get_name());
        at = sub;
    }
    path.join(" ")
}

/// The verbs, or lines, of a list with semicolons.
pub(super) fn verbs_in(list: &str) -> Vec<String> {
    let words = |v: &str| v.split_whitespace().collect::<Vec<_>>().join(" ");
    list.split(';').map(words).filter(|v| !v.is_empty()).collect()
}

/// Verbs with a row that has one of these marks.
fn verbs_with(tree: &Command, marks: &[&str], also: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let lines = ROWS.iter().map(|(line, ..)| *line);
    let fits = |line: &&str| marks.iter().any(|m| line.contains(m)) && also(line);
    lines.filter(fits).map(|line| verb_of(tree, line)).collect()
}

#[test]
fn whatever_names_something_is_tried_with_what_is_missing_anothers_or_over() {
    let tree = muster_cli::command();
    let any = |_: &str| true;
    let all = verbs_with(&tree, &[""], any);
    for (what, exempt, tried) in [
        ("what is not there", "", verbs_with(&tree, MISSING, any)),
        ("what is another's", NOTHING_FOREIGN, verbs_with(&tree, &["{eve}"], any)),
    ] {
        let exempt: BTreeSet<String> = verbs_in(exempt).into_iter().collect();
        let gone: Vec<&String> = exempt.iter().filter(|v| verb_of(&tree, v) != **v).collect();
        assert!(gone.is_empty(), "no such verbs any more: {gone:?}");
        let needless = &exempt & &tried;
        assert!(needless.is_empty(), "verbs with a row for {what} need no exemption: {needless:?}");
        let without = &(&all - &exempt) - &tried;
        assert!(without.is_empty(), "verbs without a row for {what}: {without:?}");
    }
    // What is over may be requeued: another test does that.
    let mut of_jobs = verbs_with(&tree, &["4242"], any);
    of_jobs.remove("requeue");
    let over = verbs_with(&tree, OVER, |line| !line.contains("{eve}"));
    let without = &of_jobs - &over;
    assert!(without.is_empty(), "verbs without a row for a job that is over: {without:?}");
}

/// Does a verb take a name, a file or another word as it stands? What a program is started with is its own.
fn takes_a_name(tree: &Command, verb: &str) -> bool {
    let under = |at: Option<Command>, word: &str| at?.find_subcommand(word).cloned();
    let found = verb.split_whitespace().fold(Some(tree.clone()), under);
    found.is_some_and(|v| v.get_positionals().any(|a| !a.is_last_set()))
}

/// What is typed where every name that no site has is empty; nothing where that is what was typed.
fn emptied(line: &str) -> Option<Vec<String>> {
    let missing = |word: &str| MISSING.contains(&word.split('.').next().unwrap_or(word));
    let is_empty = |word: &str| word == "{empty}" || missing(word);
    let fits = !line.contains("--token") && line.split_whitespace().any(is_empty);
    let word = |word: &str| match word {
        w if is_empty(w) => String::new(),
        "{node}" => "hgx-0001".to_owned(),
        w if w.starts_with('{') => "7".to_owned(),
        w => w.to_owned(),
    };
    fits.then(|| line.split_whitespace().map(word).collect())
}

#[test]
fn an_empty_name_is_refused_by_every_verb_that_takes_one() {
    let tree = muster_cli::command();
    let lines = ROWS.iter().map(|(line, ..)| *line).chain(EMPTY_NAMES.iter().copied());
    // Two flags of it exclude each other, whatever it is called.
    let lines = lines.filter(|line| !line.contains("--live --yes --nodes"));
    let mut tried = BTreeSet::new();
    for line in lines {
        let Some(words) = emptied(line) else { continue };
        let typed: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = muster_cli::refusal(&typed);
        let (code, said) = refused.unwrap_or_else(|| panic!("`muster {line}` with empty names"));
        let named = ["is empty", "a value is required for", "''"];
        assert!(code == 2 && named.iter().any(|n| said.contains(n)), "`{line}`: {code} {said}");
        tried.insert(verb_of(&tree, line));
    }
    let mut all = BTreeSet::new();
    leaves(&tree, "", &mut all);
    let without: Vec<&String> =
        all.iter().filter(|v| takes_a_name(&tree, v) && !tried.contains(*v)).collect();
    assert!(without.is_empty(), "verbs that no row types an empty name to: {without:?}");
}

#[test]
fn every_kind_of_get_is_tried_with_what_is_missing() {
    let tree = muster_cli::command();
    let get = tree.find_subcommand("get").expect("the verb");
    let kind = get.get_arguments().find(|a| a.get_id().as_str() == "kind").expect("its kinds");
    let tried: BTreeSet<&str> = ROWS
        .iter()
        .filter_map(|(line, ..)| line.strip_prefix("get ")?.split_once(' '))
        .filter(|(_, name)| MISSING.contains(name))
        .map(|(kind, _)| kind)
        .collect();
    for value in kind.get_possible_values() {
        let row = value.get_name_and_aliases().any(|name| tried.contains(name));
        assert!(row, "`get {}` without a row for what is not there", value.get_name());
    }
}

#[test]
fn every_verb_has_a_row() {
    let tree = muster_cli::command();
    let (mut all, mut tried) = (BTreeSet::new(), BTreeSet::new());
    leaves(&tree, "", &mut all);
    tried.extend(ROWS.iter().map(|(line, ..)| verb_of(&tree, line)));
    let named = verbs_in(NAME_NOTHING);
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

    for (name, text) in FILES {
        super::write(&c, name, &text.replace("{node}", &node));
    }
    let made: [(&str, &str); 8] = [
        ("{empty}", ""),
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
    let none = c.muster(&["nodes", "--state", "lost"]);
    assert_eq!(none.stdout, "", "no head of a table without rows: {none:?}");
    // Nobody's word is in the log for any of it; what nodes report and the clock decides may be.
    let after = c.json(&["events", "--after", &before, "--limit", "100000"]);
    let events = after["items"].as_array().expect("a list").iter();
    let said: Vec<_> =
        events.filter(|e| e["actor"].as_str().is_some_and(|a| a.starts_with("user:"))).collect();
    assert!(said.is_empty(), "something was done: {said:#?}");
}
