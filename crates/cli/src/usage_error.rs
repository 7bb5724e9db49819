//! What clap says of a wrong command line, without what does not help whoever typed it.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use muster_specs::error::closest;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// The same error in better words. `tree` is built.
pub(crate) fn reword(mut e: Error, tree: &Command, typed: &[String]) -> Error {
    if let Some(better) = number(&e, tree) {
        return better;
    }
    if let Some(verb) = verb(&e, tree) {
        // What the environment gives is in clap's own line as if it had to be typed.
        let usage = verb.clone().render_usage();
        e.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        // Whoever mistyped a flag does not want it as a word of a command.
        if e.get(ContextKind::SuggestedArg).is_some() {
            e.remove(ContextKind::Suggested);
        }
        let tip = negative(&e, verb, typed).or_else(|| behind_dashes(&e, verb, typed));
        if let Some(tip) = tip.or_else(|| nothing_to_run(&mut e, verb)) {
            e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
    }
    if let Some(near) = near(&e) {
        e.remove(ContextKind::SuggestedSubcommand);
        if !near.is_empty() {
            e.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        }
    }
    e
}

/// `--nodes abc`: what the standard library says of a number is for whoever wrote the program.
fn number(e: &Error, tree: &Command) -> Option<Error> {
    let said = std::error::Error::source(e)?;
    let tip = match said.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::InvalidDigit) => "write a whole number, such as 4",
        Some(IntErrorKind::Zero) => "write 1 or more",
        Some(IntErrorKind::PosOverflow) => "write a smaller number",
        None if said.is::<ParseFloatError>() => "write a number, such as 0.5",
        _ => return None,
    };
    let mut better = Error::new(e.kind()).with_cmd(tree);
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
        better.insert(kind, e.get(kind)?.clone());
    }
    let tip = tip.to_owned();
    better.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    Some(better)
}

/// The verb that the error is about, as its line on usage has it.
fn verb<'a>(e: &Error, tree: &'a Command) -> Option<&'a Command> {
    let ContextValue::StyledStr(usage) = e.get(ContextKind::Usage)? else { return None };
    let mut verb = tree;
    // After `Usage: muster`.
    for word in usage.to_string().split_whitespace().skip(2) {
        let Some(sub) = verb.find_subcommand(word) else { break };
        verb = sub;
    }
    Some(verb)
}

/// `--nodes -1`: what follows is taken for a flag, and `--` would end the flags.
fn negative(e: &Error, verb: &Command, typed: &[String]) -> Option<String> {
    let ContextValue::String(wrong) = e.get(ContextKind::InvalidArg)? else { return None };
    let first = wrong.strip_prefix('-').and_then(|rest| rest.chars().next());
    let digit = first.is_some_and(|c| c.is_ascii_digit());
    if e.kind() != ErrorKind::UnknownArgument || !digit {
        return None;
    }
    let takes = |word: &str| {
        let long = word.strip_prefix("--");
        let named = |a: &&clap::Arg| long.is_some() && a.get_long() == long;
        verb.get_arguments().find(named).is_some_and(|a| a.get_action().takes_values())
    };
    let mut pairs = typed.iter().zip(typed.iter().skip(1));
    let (option, value) = pairs.find(|(o, v)| v.starts_with(wrong.as_str()) && takes(o))?;
    Some(format!("to give '{option}' a value that begins with '-', write '{option}={value}'"))
}

/// The verb as it is typed, for one that takes a command behind `--`; and whether a file will do.
fn runs_command(verb: &Command) -> Option<(&str, bool)> {
    verb.get_positionals().find(|a| a.is_last_set())?;
    Some((verb.get_bin_name()?, verb.get_positionals().any(|a| !a.is_last_set())))
}

/// `muster run true`: the command stands behind `--`.
fn behind_dashes(e: &Error, verb: &Command, typed: &[String]) -> Option<String> {
    let ContextValue::String(wrong) = e.get(ContextKind::InvalidArg)? else { return None };
    if e.kind() != ErrorKind::UnknownArgument || wrong.starts_with('-') {
        return None;
    }
    let (name, takes_file) = runs_command(verb)?;
    let begins = name.split(' ').count();
    let at = begins + typed.get(begins..)?.iter().position(|word| word == wrong)?;
    let command = &typed[at..];
    if command.iter().any(|word| word == "--") {
        return None;
    }
    let options = if at > begins && !takes_file { " [OPTIONS]" } else { "" };
    // Which word is a file, and which begins the command, is not known.
    let command = if takes_file { "CMD".to_owned() } else { command.join(" ") };
    Some(format!("to run a command, put it after '--': '{name}{options} -- {command}'"))
}

/// `muster submit` alone: what to give, with an example.
fn nothing_to_run(e: &mut Error, verb: &Command) -> Option<String> {
    if e.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let (name, takes_file) = runs_command(verb)?;
    if !takes_file {
        return Some(format!("give a command after '--', such as '{name} -- hostname'"));
    }
    let either = vec!["<FILE>, or a command after '--'".to_owned()];
    e.insert(ContextKind::InvalidArg, ContextValue::Strings(either));
    Some(format!("such as '{name} train.yaml' or '{name} --gpus 1 -- python train.py'"))
}

/// Those of the suggested verbs that come near what was typed: clap's idea of that is a wide one.
fn near(e: &Error) -> Option<Vec<String>> {
    let ContextValue::String(wrong) = e.get(ContextKind::InvalidSubcommand)? else { return None };
    let ContextValue::Strings(all) = e.get(ContextKind::SuggestedSubcommand)? else { return None };
    Some(all.iter().filter(|k| closest(wrong, &[k.as_str()]).is_some()).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut tree = crate::command();
        let e = tree.try_get_matches_from_mut(&typed).expect_err("it is wrong");
        tree.build();
        reword(e, &tree, &typed).to_string()
    }

    #[test]
    fn usage_has_nothing_that_need_not_be_typed() {
        // What comes from the environment counts as given, too.
        let text = said("muster hold --server http://x:1 --token t");
        assert!(text.contains("Usage: muster hold [OPTIONS] <JOB>...\n"), "{text}");
        let text = said("muster node inject crash n1 --server http://x:1 --nope");
        assert!(text.contains("Usage: muster node inject [OPTIONS] <KIND> <NODE>"), "{text}");
        assert!(text.contains("'--nope'"), "{text}");
    }

    #[test]
    fn a_negative_value_gets_a_tip_that_works() {
        let text = said("muster submit --nodes -1 -- true");
        assert!(text.contains("write '--nodes=-1'") && !text.contains("'-- -1'"), "{text}");
        let text = said("muster silence create x --length 1h --start -1h");
        assert!(text.contains("write '--start=-1h'"), "{text}");
        // A name that begins so can be given behind the dashes.
        assert!(said("muster cancel -1").contains("'-- -1'"));
        assert!(said("muster requeue --all -1").contains("'-- -1'"));
    }

    #[test]
    fn a_number_that_is_none_is_refused_in_words_for_people() {
        for (line, wrong, tip) in [
            ("muster up --nodes abc", "'abc' for '--nodes <N>'", "write a whole number"),
            (
                "muster up --gpus-per-node x",
                "'x' for '--gpus-per-node <G>'",
                "write a whole number",
            ),
            (
                "muster sim compare a.toml b.toml --seeds 0",
                "'0' for '--seeds <N>'",
                "write 1 or more",
            ),
        ] {
            let text = said(line);
            assert!(text.contains(wrong) && text.contains(tip), "{line}: {text}");
            assert!(!text.contains("in string") && !text.contains("non-zero"), "{text}");
        }
    }

    #[test]
    fn a_command_without_the_dashes_gets_them_in_a_tip() {
        for (line, tip) in [
            ("muster run true", "put it after '--': 'muster run -- true'"),
            ("muster run sh -c true", "'muster run -- sh -c true'"),
            ("muster run --gpus 2 python x.py", "'muster run [OPTIONS] -- python x.py'"),
            ("muster submit python x.py", "'muster submit -- CMD'"),
            ("muster whatif submit python x.py", "'muster whatif submit -- CMD'"),
        ] {
            let text = said(line);
            assert!(text.contains(tip), "{line}: {text}");
        }
        // Verbs that run nothing have no such tip, nor has a command that has its dashes.
        for line in ["muster health now", "muster run true -- false"] {
            let text = said(line);
            assert!(!text.contains("put it after"), "{line}: {text}");
        }
    }

    #[test]
    fn nothing_to_run_is_reported_with_an_example() {
        let text = said("muster run --gpus 1");
        assert!(text.contains("such as 'muster run -- hostname'"), "{text}");
        let text = said("muster submit --dry-run");
        assert!(text.contains("<FILE>, or a command after '--'\n"), "{text}");
        assert!(text.contains("'muster submit train.yaml' or 'muster submit --gpus 1"), "{text}");
    }

    #[test]
    fn a_mistyped_flag_gets_one_tip() {
        let text = said("muster submit --gpu 2");
        assert!(text.contains("'--gpus'") && !text.contains("-- --gpu"), "{text}");
        // Where none comes near, it may be meant for the command.
        assert!(said("muster run --xyzzy").contains("'-- --xyzzy'"));
    }

    #[test]
    fn only_what_comes_near_is_suggested() {
        let text = said("muster frobnicate");
        assert!(text.contains("frobnicate") && !text.contains("fabric'"), "{text}");
        assert!(said("muster submti").contains("'submit'"));
    }
}
