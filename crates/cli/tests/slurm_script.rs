//! A script with `#SBATCH` lines on a real cluster.

use crate::minutes::cluster::Cluster;

#[test]
fn a_script_of_slurm_finds_what_it_asked_for() {
    let c = Cluster::start(2);
    let names =
        "JOB_NAME CPUS_PER_TASK MEM_PER_NODE JOB_PARTITION JOB_ACCOUNT GPUS_PER_NODE NTASKS";
    let shown: Vec<String> = names.split(' ').map(|n| format!("$SLURM_{n}")).collect();
    let script = c.path("train.sbatch");
    let directives = "#SBATCH --job-name=\"my job\" --gres=gpu:h100:2 --partition=debug\n\
                      #SBATCH --ntasks=2 --cpus-per-task=3 --mem=512M --wait-all-nodes=1\n";
    let text = format!("#!/bin/sh\n{directives}echo \"{}\"\n", shown.join(" "));
    std::fs::write(&script, text).expect("the test's own directory");
    let out = c.muster(&["submit", &script.display().to_string(), "--wait"]);
    out.code(0);
    for note in [
        "the job is called `my-job`",
        "`h100` of `--gres` is the SKU h100-sxm here",
        "all tasks are asked on one node",
    ] {
        assert!(out.stderr.contains(note), "{note}: {out:?}");
    }
    let logs = c.muster(&["logs", out.stdout.trim()]);
    logs.code(0);
    let line = "my-job 3 512 debug default 2 2";
    assert_eq!(logs.stdout.lines().filter(|l| l.ends_with(line)).count(), 2, "{logs:?}");
}
