//! Programs that others wrote, started by this one.

use std::ffi::OsStr;
use std::process::Command;

/// What every variable for this program itself begins with.
const OWN: &[u8] = b"MUSTER_";

/// A program of others, without the variables that are for this one: some are secrets, such as a
/// join token, an API token or the address of a store. What it is to have all the same is set
/// afterwards.
#[must_use]
pub fn foreign(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(OWN) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "not-for-others";

    /// Not a test of its own: what the test below runs in a process that has tokens.
    #[test]
    #[ignore = "runs inside a_program_of_others_gets_no_secret"]
    fn child_with_secrets() {
        let out = foreign("env").env("MUSTER_NODE", "n1").output().expect("it runs");
        print!("{}", String::from_utf8_lossy(&out.stdout));
    }

    #[test]
    fn a_program_of_others_gets_no_secret() {
        let own = std::env::current_exe().expect("this test");
        let out = Command::new(own)
            .args(["--exact", "program::tests::child_with_secrets", "--ignored", "--nocapture"])
            .env("MUSTER_JOIN", SECRET)
            .env("MUSTER_TOKEN", SECRET)
            .env("OTHER", "stays")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("OTHER=stays") && said.contains("MUSTER_NODE=n1"), "{said}");
        assert!(!said.contains(SECRET), "{said}");
    }
}
