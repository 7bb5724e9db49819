//! The verbs of `muster`: argument parsing and printing.

mod args;
mod cmd;
mod dispatch;
mod empty;
mod known_project;
mod lean;
mod overview;
mod unknown_project;
mod usage_error;

use clap::{ArgMatches, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// What may be typed, as clap knows it: for tests that go through every verb.
#[must_use]
pub fn command() -> clap::Command {
    overview::command()
}

/// The exit code and the message where these words are refused before anything is done: for tests that go through
/// every verb.
#[must_use]
pub fn refusal(words: &[&str]) -> Option<(i32, String)> {
    let words = [&["muster"][..], words].concat();
    match command().try_get_matches_from(words) {
        Ok(typed) => {
            empty::argument(&typed, command).map(|fail| (i32::from(fail.code), fail.message))
        }
        Err(e) => Some((e.exit_code(), e.to_string())),
    }
}

/// Does what the arguments of this process say.
#[must_use]
pub fn main() -> ExitCode {
    // Ranks are started through this binary; nothing else may happen before.
    let first = std::env::args_os().nth(1);
    if first.as_ref().is_some_and(|a| a == muster_agent::shim::SHIM_ARG) {
        muster_agent::shim::main();
    }
    // So is work on GPUs, which may crash or hang.
    if first.is_some_and(|a| a == muster_machine::child::ARG) {
        muster_machine::child::main();
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let typed = lean::read(&words).unwrap_or_else(|| read_whole(&words));
    let terminal = muster_terminal::output::is_terminal_err();
    if let Some(fail) = empty::argument(&typed, command) {
        eprint!("{}", fail.render(terminal));
        return ExitCode::from(fail.code);
    }
    let cli = args::Cli::from_arg_matches(&typed).unwrap_or_else(|e| e.exit());
    match dispatch::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(fail) => {
            eprint!("{}", fail.render(terminal));
            ExitCode::from(fail.code)
        }
    }
}

/// Reads what was typed with every verb and the overview at hand: for help, and for what is wrong.
fn read_whole(words: &[OsString]) -> ArgMatches {
    let mut tree = command();
    tree.try_get_matches_from_mut(words).unwrap_or_else(|e| {
        let words = words.iter().map(|word| word.to_string_lossy().into_owned());
        tree.build();
        usage_error::reword(e, &tree, &words.collect::<Vec<_>>()).exit()
    })
}
