//! Scripts as people have them, unchanged, and the jobs they must become. Beside each script stands
//! the expected spec, and the expected notes (`LINE: part of the text`).

use muster_model::spec::JobSpec;
use muster_specs::job;

macro_rules! script {
    ($($test:ident = $file:literal, $notes:expr;)*) => {$(
        #[test]
        fn $test() {
            let text = include_str!(concat!("sbatch/", $file, ".sh"));
            let expected = include_str!(concat!("sbatch/", $file, ".yaml"));
            becomes(concat!($file, ".sh"), text, expected, $notes);
        }
    )*};
}

fn becomes(origin: &str, text: &str, expected: &str, notes: &str) {
    let parsed = job::parse(text, origin).unwrap_or_else(|e| panic!("{e}"));
    let mut want: JobSpec = serde_saphyr::from_str(expected).unwrap();
    want.run.script = Some(text.into());
    assert_eq!(parsed.spec, want);
    let wanted: Vec<(u32, &str)> = notes
        .lines()
        .map(|l| l.split_once(": ").map(|(n, t)| (n.parse().unwrap(), t)).unwrap())
        .collect();
    let shown: Vec<String> = parsed.notes.iter().map(ToString::to_string).collect();
    assert_eq!(parsed.notes.len(), wanted.len(), "{shown:#?}");
    for (note, (line, part)) in parsed.notes.iter().zip(wanted) {
        assert_eq!(note.line, line, "{note}");
        assert!(note.message.contains(part), "{note} should contain {part:?}");
    }
}

script! {
    a_torchrun_script_keeps_one_rank_a_node = "01-torchrun-two-nodes",
        include_str!("sbatch/01-torchrun-two-nodes.notes");
    tasks_per_node_become_ranks = "02-one-rank-per-gpu",
        include_str!("sbatch/02-one-rank-per-gpu.notes");
    an_array_keeps_its_indices = "03-array-sweep", include_str!("sbatch/03-array-sweep.notes");
    dependencies_keep_their_conditions = "04-after-others",
        include_str!("sbatch/04-after-others.notes");
    a_signal_asks_for_a_checkpoint_when_there_is_a_place_for_it = "05-checkpoint-signal",
        include_str!("sbatch/05-checkpoint-signal.notes");
    a_cpu_job_needs_no_gpu = "06-mpi-cpu", include_str!("sbatch/06-mpi-cpu.notes");
    disabled_and_late_directives_have_no_effect = "07-disabled-lines",
        include_str!("sbatch/07-disabled-lines.notes");
    glued_and_short_options_are_read = "08-glued-options",
        include_str!("sbatch/08-glued-options.notes");
    our_own_directives_win = "09-both-directives",
        include_str!("sbatch/09-both-directives.notes");
    memory_of_zero_and_node_lists_are_noted = "10-single-gpu-notebook",
        include_str!("sbatch/10-single-gpu-notebook.notes");
}

fn read(directives: &str) -> muster_specs::Parsed {
    job::parse(&format!("#!/bin/sh\n{directives}true\n"), "j.sh").unwrap_or_else(|e| panic!("{e}"))
}

fn notes(directives: &str) -> Vec<String> {
    read(directives).notes.iter().map(ToString::to_string).collect()
}

#[test]
fn an_option_that_another_overrules_is_named_with_its_line() {
    for (directives, line, words) in [
        ("#SBATCH -N 2\n#SBATCH --nodes=4\n", 2, "`--nodes` is overruled by `--nodes` on line 3"),
        ("#SBATCH --qos=high\n#SBATCH -q low\n", 2, "`--qos` is overruled by `--qos` on line 3"),
        ("#SBATCH --gres=gpu:2\n#SBATCH --gpus-per-node=4\n", 2, "`--gres` is overruled"),
        ("#SBATCH --no-requeue\n#SBATCH --requeue\n", 2, "`--no-requeue` is overruled"),
        (
            "#SBATCH -N 2 --ntasks-per-node=8\n#SBATCH --ntasks=10\n",
            3,
            "`--ntasks` is overruled by `--ntasks-per-node`: 16 tasks in all",
        ),
        (
            "#SBATCH -N 2 --gpus-per-node=8\n#SBATCH --gpus=8\n",
            3,
            "`--gpus` is overruled by `--gpus-per-node`: 16 GPUs in all",
        ),
        (
            "#SBATCH --gpus-per-node=8 --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n",
            3,
            "`--gpus-per-task` is overruled by `--gpus-per-node`: 8 GPUs for 4 tasks on a node",
        ),
        (
            "#SBATCH --gpus-per-node=8 --ntasks-per-node=4\n#SBATCH --ntasks-per-gpu=1\n",
            3,
            "`--ntasks-per-gpu` is overruled by `--ntasks-per-node`: 4 tasks for 8 GPUs on a node",
        ),
        (
            "#SBATCH --gpus-per-node=8 --cpus-per-task=4\n#SBATCH --cpus-per-gpu=4\n",
            3,
            "`--cpus-per-gpu` is overruled by `--cpus-per-task`: 4 processors on a node",
        ),
        (
            "#SBATCH --mem=64G\n#SBATCH --mem-per-cpu=1G\n",
            3,
            "`--mem-per-cpu` is overruled by `--mem`: 64GiB on a node",
        ),
        ("#SBATCH -N 2\n#SBATCH --cpus-per-gpu=4\n", 3, "no #SBATCH line asks for GPUs"),
        ("#SBATCH -N 2\n#SBATCH --mem-per-gpu=4G\n", 3, "no #SBATCH line asks for GPUs"),
        ("#SBATCH -t 10\n#MUSTER --time 1h\n", 2, "`--time` is overruled by `--time` of #MUSTER"),
    ] {
        let all = notes(directives);
        assert_eq!(all.len(), 1, "{directives}: {all:?}");
        let begins = format!("line {line}: ");
        assert!(all[0].starts_with(&begins) && all[0].contains(words), "{directives}: {all:?}");
    }
}

#[test]
fn options_that_agree_or_add_up_have_no_note() {
    for directives in [
        "#SBATCH -N 2\n#SBATCH --nodes=2\n",
        "#SBATCH --gres=gpu:8\n#SBATCH --gpus-per-node=8\n",
        "#SBATCH --gres=gpu\n#SBATCH --gpus-per-node=1\n",
        "#SBATCH --gres=gpu:h100\n#SBATCH --gpus-per-node=h100:1\n",
        "#SBATCH --gpus-per-node=H100:8\n#SBATCH --gres=gpu:h100:8\n",
        "#SBATCH -N 2 -n 16 --ntasks-per-node=8 --gpus-per-node=8 --gpus=16 --gpus-per-task=1\n",
        "#SBATCH -d afterok:1\n#SBATCH -d afterok:2\n",
        "#SBATCH --nodes=2\n#MUSTER --nodes 2\n",
    ] {
        assert_eq!(notes(directives), [""; 0], "{directives}");
    }
    // What came first leaves nothing behind.
    assert_eq!(read("#SBATCH --no-requeue\n#SBATCH --requeue\n").spec.retries.infrastructure, 20);
}

#[test]
fn what_one_option_does_not_count_follows_from_the_others() {
    let gang = |directives: &str| {
        let gang = read(directives).spec.gang;
        (gang.nodes, gang.gpus_per_node, gang.ranks_per_node)
    };
    assert_eq!(gang("#SBATCH --gpus=16 --gpus-per-node=8\n"), (Some(2), Some(8), Some(1)));
    assert_eq!(gang("#SBATCH --gpus-per-node=8 --gpus-per-task=2\n"), (None, Some(8), Some(4)));
    assert_eq!(gang("#SBATCH -n 8 --ntasks-per-gpu=2\n"), (None, Some(4), Some(8)));
    for (directives, wrong) in [
        ("#SBATCH --gpus=12 --gpus-per-node=8\n", "j.sh:2:9: 12 GPUs are not a number of nodes"),
        ("#SBATCH --gpus-per-node=8 --gpus-per-task=3\n", "8 GPUs are not a number of tasks"),
        ("#SBATCH -n 8 --ntasks-per-gpu=3\n", "8 tasks are not a number of GPUs"),
        ("#SBATCH --ntasks-per-gpu=3\n", "j.sh:2:9: `--ntasks-per-gpu` needs a number of GPUs"),
    ] {
        let e = job::parse(&format!("#!/bin/sh\n{directives}true\n"), "j.sh").unwrap_err();
        assert!(e.to_string().contains(wrong), "{e}");
    }
}

#[test]
fn a_name_that_a_job_cannot_have_becomes_one_that_it_can() {
    for (given, name) in [
        ("\"my job\"", "my-job"),
        ("'eval (v2)'", "eval--v2"),
        ("_x_", "x"),
        ("fine.name", "fine.name"),
    ] {
        let parsed = read(&format!("#SBATCH --job-name={given}\n"));
        assert_eq!(parsed.spec.name.as_ref().map(|n| n.as_str()), Some(name));
        let notes: Vec<String> = parsed.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), usize::from(given != name), "{notes:?}");
        assert!(
            notes.iter().all(|n| n.contains(&format!("the job is called `{name}`"))),
            "{notes:?}"
        );
    }
    let e = job::parse("#!/bin/sh\n#SBATCH -J ***\ntrue\n", "j.sh").unwrap_err();
    assert!(
        e.to_string().starts_with("j.sh:2:9: --job-name: `***` cannot be the name of a job"),
        "{e}"
    );
    assert!(e.to_string().contains("begins and ends with a letter or a digit"), "{e}");
}

#[test]
fn tasks_without_nodes_are_on_one_node_with_a_note() {
    let on_one = "line 2: all tasks are asked on one node: add --nodes for more";
    assert_eq!(notes("#SBATCH --ntasks=16 --gpus-per-task=1\n"), [on_one]);
    assert_eq!(
        notes("#SBATCH --ntasks=1\n#SBATCH --wait-all-nodes=1\n").len(),
        1,
        "that of line 3"
    );
    assert_eq!(notes("#SBATCH --ntasks=16 --gpus=16\n").len(), 1, "one is enough");
}

#[test]
fn a_type_of_gpu_is_the_only_sku_that_begins_with_it() {
    let skus = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let one = skus(&["a100-sxm", "h100-sxm", "h1000"]);
    let parsed = read("#SBATCH --gres=gpu:H100:8\n");
    let mut spec = parsed.spec.clone();
    let note = parsed.name_sku(&mut spec, &one, "j.sh").unwrap().unwrap();
    assert_eq!(note.to_string(), "line 2: `h100` of `--gres` is the SKU h100-sxm here");
    assert_eq!(spec.gang.sku.as_deref(), Some("h100-sxm"));
    // A SKU of that very name, and a type that nothing begins with, stay as they are.
    for known in [skus(&["h100", "h100-sxm"]), skus(&["h200-sxm"]), skus(&[])] {
        let mut spec = parsed.spec.clone();
        assert_eq!(parsed.name_sku(&mut spec, &known, "j.sh"), Ok(None));
        assert_eq!(spec, parsed.spec);
    }
    let several = skus(&["h100-sxm", "h100-pcie"]);
    let e = parsed.name_sku(&mut parsed.spec.clone(), &several, "j.sh").unwrap_err().to_string();
    assert!(e.starts_with("j.sh:2: --gres: `h100` may be h100-pcie or h100-sxm here\n"), "{e}");
    assert!(e.contains("`--sku 'h100-pcie|h100-sxm'`"), "{e}");
    // What overrules the type is no type.
    let flag = read("#SBATCH --gres=gpu:h100:8\n");
    let mut spec = flag.spec.clone();
    muster_specs::flags::apply(&mut spec, "sku", Some("h100-pcie")).unwrap();
    let ours = read("#SBATCH --gres=gpu:h100:8\n#MUSTER --sku h200\n");
    assert_eq!((flag.gpu_type(&spec), ours.gpu_type(&ours.spec)), (None, None));
}

#[test]
fn a_project_from_the_environment_is_not_called_a_flag() {
    let parsed = read("#SBATCH --account=lab\n#SBATCH -t 10\n");
    let mut spec = parsed.spec.clone();
    for (flag, value) in [("project", "team"), ("time", "1h")] {
        muster_specs::flags::apply(&mut spec, flag, Some(value)).unwrap();
    }
    let notes = parsed.overruled(&spec, |flag| (flag == "project").then_some("MUSTER_PROJECT"));
    assert_eq!(
        notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "line 2: `--account` is overruled by `MUSTER_PROJECT` of the environment",
            "line 3: `--time` is overruled by `--time` of the command line",
        ]
    );
}

#[test]
fn flags_on_the_command_line_overrule_with_a_note_too() {
    let parsed = read("#SBATCH -N 2 --gpus=16\n#SBATCH --cpus-per-gpu=4\n#SBATCH -t 10\n");
    let over = |flags: &[(&str, &str)]| {
        let mut spec = parsed.spec.clone();
        for &(flag, value) in flags {
            muster_specs::flags::apply(&mut spec, flag, Some(value)).unwrap();
        }
        parsed.overruled(&spec, |_| None).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(over(&[("name", "x"), ("time", "10m")]), [""; 0]);
    assert_eq!(
        over(&[("nodes", "4")]),
        [
            "line 2: `--nodes` is overruled by `--nodes` of the command line",
            "line 2: `--gpus` is overruled by `--nodes` of the command line, and is counted \
             without it",
        ]
    );
    assert_eq!(
        over(&[("gpus", "4"), ("time", "1h")]),
        [
            "line 4: `--time` is overruled by `--time` of the command line",
            "line 2: `--gpus` is overruled by `--gpus` of the command line",
            "line 3: `--cpus-per-gpu` is overruled by `--gpus` of the command line, and is counted \
             without it",
        ]
    );
}
