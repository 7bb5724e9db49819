//! Which commands of Slurm a script calls.

use crate::parsed::Note;

/// Commands that the nodes do not have, and what the author should know instead.
const COMMANDS: [(&str, &str); 8] = [
    (
        "srun",
        "the script runs once for every rank already, so `srun` would start everything again; call \
         the program itself",
    ),
    (
        "scontrol",
        "the nodes have no `scontrol`, and the script would fail: the first node is in MASTER_ADDR, \
         its port in MASTER_PORT, all nodes are in SLURM_JOB_NODELIST",
    ),
    ("sbatch", "the nodes have no `sbatch`, and the script would fail: use `muster submit`"),
    ("scancel", "the nodes have no `scancel`, and the script would fail: use `muster cancel`"),
    ("squeue", "the nodes have no `squeue`, and the script would fail: use `muster ps`"),
    ("sacct", "the nodes have no `sacct`, and the script would fail: use `muster report job`"),
    ("sstat", "the nodes have no `sstat`, and the script would fail: use `muster report job`"),
    ("sbcast", "the nodes have no `sbcast`, and the script would fail: use `volumes`"),
];

/// Words before a command that do not change which it is.
const BEFORE: [&str; 15] = [
    "{", "!", "if", "then", "elif", "else", "while", "until", "do", "exec", "time", "env", "eval",
    "command", "nohup",
];

/// A note on each command of Slurm that is called after the header, at the first line that calls it.
pub(super) fn notes(text: &str, header: u32) -> impl Iterator<Item = Note> {
    COMMANDS.iter().filter_map(move |(program, message)| {
        let mut lines = (1u32..).zip(text.lines()).skip(header as usize);
        let (line, _) = lines.find(|(_, l)| commands(l).any(|c| c == *program))?;
        Some(Note { line, message: (*message).into() })
    })
}

/// The commands of a line, also those in `$(…)`, in backticks and after `|`. It is no shell: what is
/// in quotes is read in the same way.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with('#') { "" } else { line };
    let code = code.split(" #").next().unwrap_or(code);
    code.split([';', '&', '|', '(', ')', '`']).filter_map(|part| {
        let goes_before = |w: &&str| BEFORE.contains(w) || w.contains('=') || w.starts_with('-');
        let word = part.split_whitespace().find(|w| !goes_before(w))?;
        Some(word.rsplit('/').next().unwrap_or(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_wherever_a_shell_would_run_it() {
        for line in [
            "srun python train.py",
            "  exec srun python",
            "FOO=1 srun python",
            "cd /work && srun python",
            "nodes=( $( srun hostname ) )",
            "ip=$(srun --nodes=1 -w \"$head\" hostname --ip-address)",
            "x=`srun hostname`",
            "time /usr/bin/srun a",
            "if srun a; then",
        ] {
            assert!(commands(line).any(|c| c == "srun"), "{line}");
        }
        for line in ["# srun a", "echo srun", "python train.py # srun a", "srun_all=1", "./srun.sh"]
        {
            assert!(!commands(line).any(|c| c == "srun"), "{line}");
        }
    }

    #[test]
    fn the_usual_preamble_of_torchrun_is_noted() {
        let text = "#!/bin/bash\n#SBATCH -N 2\n\
                    nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\n\
                    export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n\
                    srun torchrun train.py\n";
        let found: Vec<(u32, bool)> =
            notes(text, 2).map(|n| (n.line, n.message.contains("MASTER_ADDR"))).collect();
        assert_eq!(found, [(5, false), (3, true)]);
    }
}
