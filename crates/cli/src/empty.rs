//! Refuses arguments that were typed and are empty: the variable of a script may be.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use muster_terminal::fail::Fail;

/// What is wrong where an argument is empty that must not be. `tree` is built only for what is wrong.
pub(crate) fn argument(typed: &ArgMatches, tree: impl FnOnce() -> Command) -> Option<Fail> {
    let mut path = Vec::new();
    let mut at = typed;
    let mut found = Vec::new();
    loop {
        let empty = at.ids().map(clap::Id::as_str).filter(|id| is_empty(at, id));
        found.extend(empty.map(|id| (path.clone(), id.to_owned())));
        let Some((verb, below)) = at.subcommand() else { break };
        path.push(verb.to_owned());
        at = below;
    }
    if found.is_empty() {
        return None;
    }
    let mut tree = tree();
    tree.build();
    found.iter().find_map(|(path, id)| refusal(&tree, path, id))
}

/// Whether one of the values that were typed is empty; the environment may have empty ones.
fn is_empty(typed: &ArgMatches, id: &str) -> bool {
    let values = typed.try_get_raw(id).ok().flatten();
    values.is_some_and(|mut all| all.any(|v| v.is_empty()))
        && typed.value_source(id) == Some(ValueSource::CommandLine)
}

fn refusal(tree: &Command, path: &[String], id: &str) -> Option<Fail> {
    let verb = path.iter().try_fold(tree, |verb, word| verb.find_subcommand(word))?;
    let arg = verb.get_arguments().find(|a| a.get_id() == id)?;
    // What a program is started with is its own; text for people may be missing.
    let may_be = arg.is_last_set() || arg.get_default_values().iter().any(|v| v.is_empty());
    (!may_be).then(|| {
        let fail = Fail::usage(format!("{} is empty", name(arg)));
        match arg.is_required_set() {
            true => fail.hint("if it comes from a variable of a script, that has no value"),
            false => fail.hint("leave it out; if it comes from a variable, that has no value"),
        }
    })
}

/// As it is typed, or as the help has it.
fn name(arg: &Arg) -> String {
    if let Some(long) = arg.get_long() {
        return format!("--{long}");
    }
    let name = arg.get_value_names().and_then(|names| names.first());
    name.map_or_else(|| arg.get_id().to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Option<String> {
        let words = [&["muster"][..], words].concat();
        let typed = crate::command().try_get_matches_from(words).expect("it can be typed");
        argument(&typed, crate::command).map(|f| f.message)
    }

    #[test]
    fn an_empty_argument_is_named() {
        for (words, name) in [
            (&["submit", "--name", "", "--", "true"][..], "--name"),
            (&["submit", "--tag=a=b", "--tag=", "--", "true"][..], "--tag"),
            (&["ps", "--project", ""][..], "--project"),
            (&["--server", "", "health"][..], "--server"),
            (&["health", "--server="][..], "--server"),
            (&["node", "cordon", "hgx-1", ""][..], "NODE"),
            (&["describe", "node", ""][..], "NAME"),
            (&["cancel", ""][..], "JOB"),
            (&["findings", "close", "7", "--reason", ""][..], "--reason"),
        ] {
            assert_eq!(said(words), Some(format!("{name} is empty")), "{words:?}");
        }
    }

    #[test]
    fn what_may_be_empty_is() {
        for words in [
            &["run", "--", "echo", ""][..],
            &["submit", "--", "echo", ""][..],
            &["node", "cordon", "hgx-1", "--reason", ""][..],
            &["ps"][..],
        ] {
            assert_eq!(said(words), None, "{words:?}");
        }
    }
}
