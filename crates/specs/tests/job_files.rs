//! Job files that are wrong, and what their authors read.

use muster_model::spec::JobSpec;
use muster_model::topology::Level;
use muster_specs::job;
use proptest::prelude::*;

fn error(origin: &str, text: &str) -> String {
    match job::parse(text, origin) {
        Ok(p) => panic!("should be refused: {p:?}"),
        Err(e) => e.to_string(),
    }
}

fn yaml(text: &str) -> String {
    error("job.yaml", text)
}

fn script(text: &str) -> String {
    error("job.sh", text)
}

#[test]
fn the_full_example_is_accepted() {
    let text = r#"
kind: Job
name: llama-70b-sft
project: research
gang: {nodes: 8, gpus_per_node: 8, ranks_per_node: 1, cpus_per_node: 64, memory_per_node: 512GiB, sku: h100-sxm}
topology: {required: leaf, preferred: nvlink}
run: {script: "torchrun train.py", image: null, env: {LR: "3e-4"}, workdir: /workspace}
time_limit: 24h
priority: normal
tier: on-demand
checkpoint: {dir: /ckpt/llama, request: {signal: SIGUSR1}, grace: 120s, interval: auto}
retries: {infrastructure: 20, application: 0}
on_partition: {stop_after: 5m}
after: [prepare-data:ok]
array: 0-9
volumes: [{from: /data/corpus, at: /data, read_only: true}]
secrets: [wandb-key]
simulate: null
tags: {team: nlp, experiment: "42"}
"#;
    let spec = job::parse(text, "job.yaml").unwrap().spec;
    assert_eq!(spec.gang.nodes, Some(8));
    assert_eq!(spec.run.env["LR"], "3e-4");
    let json = serde_json::to_string_pretty(&spec).unwrap();
    assert_eq!(job::parse(&json, "job.json").unwrap().spec, spec);
}

#[test]
fn on_partition_may_be_a_word() {
    let p = job::parse("run: {script: a}\non_partition: continue\n", "j").unwrap();
    assert_eq!(p.spec.on_partition, Some(muster_model::spec::OnPartition::Continue));
}

#[test]
fn unknown_fields_get_a_suggestion() {
    assert_eq!(
        yaml("name: a\ngang:\n  nods: 2\nrun: {script: x}\n"),
        "job.yaml:3:3: gang.nods: unknown field `nods`\n  hint: did you mean `nodes`?"
    );
    assert_eq!(
        error("j.json", "{\n  \"name\": \"a\",\n  \"gang\": {\"nods\": 2}\n}"),
        "j.json:3:12: gang.nods: unknown field `nods`\n  hint: did you mean `nodes`?"
    );
}

#[test]
fn wrong_words_and_numbers_are_pointed_at() {
    assert_eq!(
        yaml("name: a\npriority: hihg\n"),
        "job.yaml:2:11: priority: `hihg` is not one of low, normal, high, critical\n  \
         hint: did you mean `high`?"
    );
    for (text, place) in [
        ("gang:\n  nodes: -1\n", "job.yaml:2:10: gang.nodes: "),
        ("gang:\n  nodes: 99999999999999999999\n", "job.yaml:2:10: gang.nodes: "),
        ("gang: {nodes: two}\n", "job.yaml:1:15: gang.nodes: "),
        ("name: a\ntime_limit: 5 parsecs\n", "job.yaml:2:13: time_limit: "),
        ("name: ''\n", "job.yaml:1:7: name: "),
        ("volumes: [{from: /a}]\n", "job.yaml:1:12: `at` is missing here"),
        ("retries: 3\n", "job.yaml:1:10: retries: expected fields here"),
        ("hold: yes\n", "job.yaml:1:7: hold: this is neither `true` nor `false`"),
    ] {
        let e = yaml(text);
        assert!(e.starts_with(place), "{e:?} should start with {place:?}");
    }
    for (text, want) in [
        ("{\"gang\": {\"nodes\": -1}}", "j.json:1:21: gang.nodes: invalid value"),
        ("{\"priority\": \"hihg\"}", "did you mean `high`?"),
        ("{\"checkpoint\": {}}", "j.json:1:17: `dir` is missing here"),
    ] {
        let e = error("j.json", text);
        assert!(e.contains(want), "{e:?} should contain {want:?}");
    }
}

#[test]
fn malformed_text_has_line_and_column() {
    let e = yaml("name: a\ngang: {nodes: 2\nrun: [\n");
    assert!(e.starts_with("job.yaml:"), "{e}");
    assert!(e.split(':').nth(1).unwrap().parse::<u32>().is_ok(), "{e}");
    let e = error("j.json", "{\"name\": \"a\",\n \"gang\": {,}}");
    assert!(e.starts_with("j.json:2:11: "), "{e}");
}

#[test]
fn keys_given_twice_are_refused() {
    let e = yaml("name: a\nrun:\n  script: x\nname: b\n");
    assert!(e.starts_with("job.yaml:4:1: `name` is given twice"), "{e}");
    let e = yaml("run:\n  script: x\n  env: {A: 1, A: 2}\n");
    assert!(e.contains("`A` is given twice"), "{e}");
    let e =
        error("j.json", "{\"run\": {\"script\": \"x\", \"env\": {\"A\": \"1\", \"A\": \"2\"}}}");
    assert!(e.contains("`A` is given twice"), "{e}");
}

#[test]
fn one_job_a_file() {
    let e = yaml("run: {script: a}\n---\nrun: {script: b}\n");
    assert!(e.contains("one job a file"), "{e}");
}

#[test]
fn problems_of_the_spec_point_at_their_field() {
    assert_eq!(
        yaml("gang:\n  gpus_per_node: 8\n  nodes: 0\nrun:\n  script: x\n"),
        "job.yaml:3:3: gang.nodes: 0 is too few\n  hint: use at least 1"
    );
    let e = yaml("run:\n  script: x\n  env:\n    RANK: 1\n");
    assert!(e.starts_with("job.yaml:4:5: run.env.RANK: "), "{e}");
    let e = yaml("name: a\nrun:\n  script: x\n  image: --b\n");
    assert!(e.starts_with("job.yaml:4:3: run.image: "), "{e}");
    assert_eq!(
        yaml("simulate: {run: 1h}\nrun:\n  command: [python, train.py]\n"),
        "job.yaml:3:3: run.command: a job with `simulate` starts no process, so this would never run\n  \
         hint: remove `simulate` to run it, or remove `run.command`"
    );
    let e = yaml("name: a\ngang: {nodes: 2}\n");
    assert!(e.starts_with("job.yaml: run: nothing to run"), "{e}");
    let e =
        yaml("run: {script: x}\nvolumes:\n  - {from: /a, at: /b}\n  - from: /a\n    at: /proc\n");
    assert!(e.starts_with("job.yaml:5:5: volumes[1].at: "), "{e}");
}

#[test]
fn text_that_is_no_job_says_so() {
    assert!(yaml("").contains("the file is empty"));
    assert!(yaml("python train.py\n").contains("neither a spec nor a script"));
    assert!(yaml("a\0b").starts_with("job.yaml:1:2: the file contains a NUL byte"));
    assert!(yaml(&" ".repeat(job::MAX_FILE + 1)).contains("more than"));
}

#[test]
fn alias_bombs_are_refused_quickly() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let refs = vec![format!("*a{}", i - 1); 9].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
    }
    text.push_str("tags: *a11\n");
    assert!(job::parse(&text, "job.yaml").is_err());
    assert!(job::parse(&format!("tags: {}", "[".repeat(100_000)), "job.yaml").is_err());
    assert!(job::parse(&format!("{{\"tags\": {}", "[".repeat(100_000)), "j.json").is_err());
}

#[test]
fn bad_directives_are_pointed_at() {
    assert_eq!(
        script("#!/bin/sh\n#SBATCH --nodes=2 --ntask=4\ntrue\n"),
        "job.sh:2:19: unknown option `--ntask`\n  hint: did you mean `--ntasks`?"
    );
    assert_eq!(
        script("#!/bin/sh\n#MUSTER --nodes 2 --gpu 8\ntrue\n"),
        "job.sh:2:19: unknown flag `--gpu`\n  hint: did you mean `--gpus`?"
    );
    assert_eq!(
        script("#!/bin/sh\n#SBATCH --time=tomorrow\ntrue\n"),
        "job.sh:2:9: --time: `tomorrow` is not a time\n  \
         hint: write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"
    );
    for (text, part) in [
        ("#SBATCH --nodes=two\n", "job.sh:1:9: --nodes: `two` is not a whole number"),
        ("#SBATCH --nodes\n", "job.sh:1:9: `--nodes` lacks its value"),
        ("#SBATCH -N 3 -n 8\n", "job.sh:1:14: 8 tasks cannot be shared evenly among 3 nodes"),
        ("#SBATCH -N 0 -n 8\n", "cannot be shared evenly among 0 nodes"),
        ("#SBATCH --dependency=singleton\n", "`singleton` is not supported yet"),
        ("#SBATCH -d 'afterok:1?afterok:2'\n", "not supported yet"),
        ("#SBATCH --array=0-9%2\n", "job.sh:1:9: array: a limit on tasks at a time (`%N`)"),
        ("#SBATCH --gres=gpu:H100!:1\n", "job.sh:1:9: gang.sku: "),
        ("#SBATCH --container-image=-x\n", "job.sh:1:9: run.image: "),
        ("#SBATCH -z\n", "job.sh:1:9: unknown option `-z`"),
        ("#SBATCH nodes\n", "job.sh:1:9: `nodes` is not an option"),
        ("#SBATCH --comment='open\n", "job.sh:1:19: a quote is never closed"),
        ("#SBATCH --mem=lots\n", "`lots` is not an amount of memory"),
        ("#SBATCH --frobnicate\n", "unknown option `--frobnicate`"),
        ("#SBATCH --requeue=1\n", "`--requeue` takes no value"),
        ("#MUSTER nodes 2\n", "job.sh:1:9: `nodes` is not a flag"),
        ("#MUSTER --nodes\n", "job.sh:1:9: --nodes: its value is missing"),
        ("#MUSTER --nodes 0\n", "job.sh:1:9: gang.nodes: 0 is too few"),
        ("#MUSTER --mig 3g\n", "job.sh:1:9: gang.mig: "),
        ("#MUSTER --gpus 1 --mig 3g.40gb\n", "job.sh:1:18: gang.mig: "),
        ("#MUSTER --gpu-milli 1000\n", "job.sh:1:9: gang.gpu_milli: 1000 thousandths are a whole"),
        ("#MUSTER --nodes 4 --segment 3\n", "job.sh:1:19: topology.segment: "),
        ("#MUSTER --elastic 1-2\n", "job.sh:1:9: elastic: "),
        ("#MUSTER --elastic 4-2 --checkpoint-dir /c\n", "job.sh:1:9: elastic.min_nodes: "),
        ("#MUSTER --topology rack --spread rack\n", "job.sh:1:25: topology.spread: "),
        ("#MUSTER --env RANK=1\n", "job.sh:1:9: run.env.RANK: "),
    ] {
        let e = script(&format!("{text}true\n"));
        assert!(e.contains(part), "{e:?} should contain {part:?}");
    }
}

#[test]
fn a_plain_script_runs_as_it_is() {
    let p = job::parse("#!/usr/bin/env python3\nprint(1)\n", "dir/hello.py").unwrap();
    assert_eq!(p.spec.name.unwrap().as_str(), "hello");
    assert_eq!(p.spec.gang, JobSpec::default().gang);
    assert!(p.notes.is_empty());
    let p = job::parse("#!/bin/sh\ntrue\n", "-").unwrap();
    assert_eq!(p.spec.name, None);
}

#[test]
fn one_switch_is_one_leaf() {
    let read = |line: &str| {
        job::parse(&format!("#!/bin/sh\n#SBATCH {line}\ntrue\n"), "j.sh").unwrap().spec.topology
    };
    assert_eq!(read("--switches=1").required, Some(Level::Leaf));
    let wish = read("--switches=1@10:00");
    assert_eq!((wish.required, wish.preferred), (None, Some(Level::Leaf)));
    assert_eq!(read("--switches=2").preferred, Some(Level::Leaf));
}

#[test]
fn windows_line_ends_are_refused_in_scripts() {
    let e = script("#!/bin/sh\r\ntrue\r\n");
    assert!(e.starts_with("job.sh:1:10: the script has Windows line ends"), "{e}");
}

#[test]
fn a_yaml_comment_is_not_a_directive() {
    assert!(job::parse("# SBATCH is what we used before\nrun: {script: a}\n", "j.yaml").is_ok());
}

proptest! {
    #[test]
    fn no_text_panics(s in "\\PC{0,200}", yamlish in "([a-z]{1,8}: ?[\\[{\\]}&*a-z0-9-]{0,6}\n?){0,8}") {
        let _ = job::parse(&s, "f");
        let _ = job::parse(&yamlish, "f.yaml");
        let _ = job::parse(&format!("{{\"{s}"), "f.json");
    }

    #[test]
    fn no_directive_panics(
        option in "(--?[a-zA-Z-]{1,16}|-N|-n|--mem|--gres|--array|-d|--signal|--time|-c)",
        value in "\\PC{0,20}",
        n in any::<u32>(),
    ) {
        for mark in ["#SBATCH", "#MUSTER"] {
            for line in [format!("{option}={value}"), format!("{option} {n}"), format!("{option}{n}")] {
                let _ = job::parse(&format!("{mark} {line}\n{mark} -N 3 -c {n} --gpus {n}\ntrue\n"), "f");
            }
        }
    }
}
