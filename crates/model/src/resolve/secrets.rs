//! Names of secrets: each becomes a variable of the ranks, unless the name is taken.

use crate::spec::{RunSpec, SpecProblem, problem};
use std::collections::BTreeMap;

/// The variable that a secret of this name becomes.
#[must_use]
pub fn secret_variable(name: &str) -> String {
    name.to_ascii_uppercase().replace(['-', '.'], "_")
}

/// Variables that every rank has before any secret: the platform's, and those of its account.
const TAKEN: &[&str] = &[
    "CUDA_HOME",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "LANG",
    "LC_ALL",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LOGNAME",
    "NODE_RANK",
    "PATH",
    "RANK",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "WORLD_SIZE",
];

/// Does a variable of this name have a meaning of its own? Also what the loader reads (`LD_…`): a
/// secret there would change which code every program runs.
fn is_taken(variable: &str) -> bool {
    let ours = ["MUSTER_", "MASTER_", "SLURM", "LD_"];
    ours.iter().any(|p| variable.starts_with(p)) || TAKEN.contains(&variable)
}

/// Refuses a secret that the ranks would never see as a variable.
///
/// # Errors
/// Which variable it would be, and that its name is taken.
pub fn check_secret(name: &str) -> Result<(), SpecProblem> {
    let variable = secret_variable(name);
    if is_taken(&variable) {
        return Err(problem(
            "secrets",
            format!("secret {name} would be the variable {variable}, which means something else"),
            "choose another name, like one that says whose key it is",
        ));
    }
    Ok(())
}

/// Refuses secrets that a job's own variables, or each other, would hide.
///
/// # Errors
/// The first secret whose variable has another value.
pub fn check_secrets<'a>(
    names: impl IntoIterator<Item = &'a str>,
    run: &RunSpec,
) -> Result<(), SpecProblem> {
    let mut seen = BTreeMap::new();
    for name in names {
        let variable = secret_variable(name);
        if let Some(other) = seen.insert(variable.clone(), name).filter(|other| *other != name) {
            return Err(problem(
                "secrets",
                format!("secrets {other} and {name} would both be the variable {variable}"),
                "leave one of them out",
            ));
        }
        if run.env.contains_key(&variable) {
            return Err(problem(
                "secrets",
                format!("secret {name} would be the variable {variable}, which run.env sets too"),
                "leave one of them out",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_no_rank_would_see_is_refused() {
        for name in ["path", "muster-node", "rank", "ld-preload", "slurm.job.id", "Home"] {
            let p = check_secret(name).unwrap_err();
            assert!(p.message.contains(&secret_variable(name)), "{}", p.message);
        }
        for name in ["wandb-key", "hf.token", "db", "masterkey", "my-path"] {
            assert_eq!(check_secret(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_secret_that_another_value_hides_is_refused() {
        let mut run = RunSpec::default();
        assert!(check_secrets(["a-b", "c", "c"], &run).is_ok());
        assert!(check_secrets(["a-b", "a.b"], &run).is_err());
        run.env.insert("HF_TOKEN".into(), "x".into());
        let p = check_secrets(["hf-token"], &run).unwrap_err();
        assert!(p.message.contains("run.env"), "{}", p.message);
    }
}
