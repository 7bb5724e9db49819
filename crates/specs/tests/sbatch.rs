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
    a_signal_asks_for_a_checkpoint_when_there_is_a_place_for_it = "05-checkpoint-signal", "";
    a_cpu_job_needs_no_gpu = "06-mpi-cpu", include_str!("sbatch/06-mpi-cpu.notes");
    disabled_and_late_directives_have_no_effect = "07-disabled-lines",
        include_str!("sbatch/07-disabled-lines.notes");
    glued_and_short_options_are_read = "08-glued-options",
        include_str!("sbatch/08-glued-options.notes");
    our_own_directives_win = "09-both-directives", "";
    memory_of_zero_and_node_lists_are_noted = "10-single-gpu-notebook",
        include_str!("sbatch/10-single-gpu-notebook.notes");
}
