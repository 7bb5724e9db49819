//! What clap says of a wrong command line, without what does not help whoever typed it.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use muster_specs::error::closest;

/// The same error in better words. `tree` is built.
pub(crate) fn reword(mut e: Error, tree: &Command, typed: &[String]) -> Error {
    if let Some(verb) = verb(&e, tree) {
        let tip = negative(&e, verb, typed);
        // What the environment gives is in clap's own line as if it had to be typed.
        let usage = verb.clone().render_usage();
        e.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        if let Some(tip) = tip {
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
    fn only_what_comes_near_is_suggested() {
        let text = said("muster frobnicate");
        assert!(text.contains("frobnicate") && !text.contains("fabric'"), "{text}");
        assert!(said("muster submti").contains("'submit'"));
    }
}
