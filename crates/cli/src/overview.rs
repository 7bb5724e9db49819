//! `muster --help`: every verb on one line, in groups. clap knows one flat list of verbs only, so
//! this text is made from its tree.

use crate::args::Cli;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// Which verb belongs where. A verb that is in no group fails a test.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Common", &["run", "submit", "ps", "logs", "describe", "explain", "cancel", "top"]),
    ("Work", &["get", "wait", "update", "hold", "release", "requeue", "checkpoint"]),
    ("Fleet", &["nodes", "node", "topology", "fabric", "power"]),
    (
        "Health",
        &[
            "health",
            "faults",
            "findings",
            "incident",
            "remediations",
            "runbook",
            "breakers",
            "automation",
            "failure-modes",
            "gameday",
        ],
    ),
    ("Capacity", &["quota", "policy", "reservation", "defrag", "whatif", "sim"]),
    (
        "Observe",
        &["search", "events", "history", "report", "slo", "alerts", "silence", "routing", "export"],
    ),
    (
        "Admin",
        &[
            "up",
            "server",
            "agent",
            "store",
            "project",
            "token",
            "secret",
            "whoami",
            "readiness",
            "doctor",
            "completions",
        ],
    ),
];

/// What may be typed, with the overview as the help of `muster` itself.
pub(crate) fn command() -> Command {
    let tree = Cli::command();
    let template = template(&tree);
    tree.help_template(template)
}

/// The overview, for clap to fill in.
fn template(tree: &Command) -> String {
    let header = tree.get_styles().get_header();
    let literal = tree.get_styles().get_literal();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let mut section = |title: &str, width: usize, lines: &[(String, String)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for (name, about) in lines {
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
    };
    let names = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    for (title, verbs) in GROUPS {
        let found = verbs.iter().filter_map(|v| tree.find_subcommand(v));
        section(title, width, &found.map(verb_line).collect::<Vec<_>>());
    }
    let mut options: Vec<_> = tree.get_arguments().map(option_line).collect();
    // clap adds these two when it parses.
    options.push(("-h, --help".to_owned(), "Print help".to_owned()));
    options.push(("-V, --version".to_owned(), "Print version".to_owned()));
    let width = options.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    section("Options", width, &options);
    // What comes after the help begins with an empty line.
    text.truncate(text.trim_end().len());
    text + "{after-help}"
}

fn verb_line(verb: &Command) -> (String, String) {
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    (verb.get_name().to_owned(), about)
}

fn option_line(arg: &Arg) -> (String, String) {
    let short = arg.get_short().map_or("    ".to_owned(), |s| format!("-{s}, "));
    let long = arg.get_long().unwrap_or_default();
    let value = arg.get_value_names().and_then(|names| names.first());
    let value = value.map(|v| format!(" <{v}>")).unwrap_or_default();
    let mut about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some(env) = arg.get_env() {
        let _ = write!(about, " [env: {}]", env.to_string_lossy());
    }
    (format!("{short}--{long}{value}"), about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn shown() -> String {
        command().term_width(100).render_long_help().to_string()
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let tree = Cli::command();
        let verbs = tree.get_subcommands().filter(|c| !c.is_hide_set());
        let all: BTreeSet<&str> = verbs.map(Command::get_name).collect();
        let mut grouped = BTreeSet::new();
        for verb in GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()) {
            assert!(grouped.insert(*verb), "`{verb}` is in two groups");
        }
        let without: Vec<_> = all.difference(&grouped).collect();
        assert!(without.is_empty(), "verbs without a group in GROUPS: {without:?}");
        let gone: Vec<_> = grouped.difference(&all).collect();
        assert!(gone.is_empty(), "no such verbs any more: {gone:?}");
    }

    #[test]
    fn every_verb_has_one_line_of_a_hundred_columns() {
        let text = shown();
        for (_, verbs) in GROUPS {
            for verb in verbs {
                let start = format!("  {verb} ");
                let lines: Vec<_> = text.lines().filter(|l| l.starts_with(&start)).collect();
                assert_eq!(lines.len(), 1, "{verb}: {lines:?}");
            }
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn the_overview_is_as_it_was() {
        let file = format!("{}/src/golden/help.txt", env!("CARGO_MANIFEST_DIR"));
        let got = shown();
        if std::env::var_os("MUSTER_WRITE_GOLDEN").is_some() {
            std::fs::write(&file, &got).expect("the file is written");
        }
        let want = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(got == want, "the overview changed; it is now\n{got}");
    }

    #[test]
    fn a_verb_has_help_of_its_own() {
        let mut tree = command();
        let e = tree.try_get_matches_from_mut(["muster", "ps", "--help"]).expect_err("help");
        let text = e.to_string();
        assert!(text.contains("Usage: muster ps"), "{text}");
        assert!(!text.contains("Fleet:"), "{text}");
    }
}
