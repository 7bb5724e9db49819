//! Reads a correct command line with the least of clap's tree: a verb that scripts call many times
//! a second does not pay for fifty others, and nobody pays for a help text that is not shown.

use crate::args::Cli;
use crate::cmd;
use clap::{ArgMatches, Args, Command, CommandFactory};
use muster_terminal::args::Global;
use std::ffi::OsString;

/// Gives a verb its flags.
type Augment = fn(Command) -> Command;

/// The verbs that scripts call most.
static VERBS: [(&str, Augment); 8] = [
    ("run", cmd::run::Run::augment_args),
    ("submit", cmd::submit::Submit::augment_args),
    ("ps", cmd::ps::Ps::augment_args),
    ("get", cmd::get::Get::augment_args),
    ("logs", cmd::logs::Logs::augment_args),
    ("cancel", cmd::act::Cancel::augment_args),
    ("wait", cmd::wait::Wait::augment_args),
    ("explain", cmd::explain::Explain::augment_args),
];

/// What was typed. None where it is wrong or asks for help: the whole tree has the words for that.
pub(crate) fn read(words: &[OsString]) -> Option<ArgMatches> {
    let verb = words.get(1).and_then(|word| word.to_str());
    let tree = verb.and_then(alone).unwrap_or_else(Cli::command);
    tree.try_get_matches_from(words).ok()
}

/// The tree with one verb only.
fn alone(verb: &str) -> Option<Command> {
    let (name, augment) = VERBS.iter().find(|(name, _)| *name == verb)?;
    let tree = Global::augment_args(Command::new("muster"));
    Some(tree.subcommand(augment(Command::new(*name))).subcommand_required(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{FromArgMatches, Parser};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_verb_alone_has_the_flags_that_it_has_in_the_whole_tree() {
        let whole = Cli::command();
        let flags = |c: &Command| -> Vec<String> {
            c.get_arguments().map(|a| a.get_id().to_string()).collect()
        };
        for (name, _) in &VERBS {
            let tree = alone(name).expect("a tree");
            let one = tree.find_subcommand(name).expect("the verb");
            let same = whole.find_subcommand(name).expect("a verb of the whole tree");
            assert_eq!(flags(one), flags(same), "{name}");
            assert!(same.get_all_aliases().next().is_none(), "{name}");
            assert_eq!(flags(&tree), flags(&whole), "{name}");
        }
    }

    #[test]
    fn a_line_means_the_same_to_a_verb_alone() {
        for line in [
            "muster run -- hostname",
            "muster run --nodes 2 --gpus 8 --server http://x:1 -- sh -c true",
            "muster submit train.yaml --dry-run -o json",
            "muster submit --array 0-9 --project red -- true",
            "muster ps -o json",
            "muster get jobs",
            "muster logs 42",
            "muster cancel 42 43",
            "muster wait 42",
            "muster explain 42",
            // Not alone: the flag comes first, or it is another verb.
            "muster -o json ps",
            "muster whoami",
        ] {
            let typed = read(&words(line)).unwrap_or_else(|| panic!("{line} is right"));
            let got = Cli::from_arg_matches(&typed).expect("complete");
            let want = Cli::try_parse_from(words(line)).expect("right");
            assert_eq!(format!("{got:?}"), format!("{want:?}"), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_or_asks_for_help_is_left_to_the_whole_tree() {
        for line in [
            "muster",
            "muster --help",
            "muster help run",
            "muster run --help",
            "muster run --version",
            "muster run",
            "muster submit --no-such-flag",
            "muster submti",
        ] {
            assert!(read(&words(line)).is_none(), "{line}");
        }
    }
}
