//! What may be typed.

use crate::cmd;
use clap::{Parser, Subcommand};
use muster_terminal::args::Global;

/// Runs a GPU cluster, and work on it.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    about = "Runs a GPU cluster, and work on it",
    propagate_version = true,
    max_term_width = 100,
    after_help = "Examples:\n  muster up                                    a cluster on this machine\n  \
muster run --nodes 2 --gpus 8 -- hostname    run a gang and see its output\n  \
muster ps                                    running and waiting jobs\n  \
muster top                                   the site, live\n  \
muster explain 42                            why job 42 waits\n\n\
`muster VERB --help` shows the flags of a verb, with examples.\n\n\
Exit codes: 0 done; 1 it failed; 2 wrong usage; 3 not found; 4 not allowed;\n\
5 refused by policy or conflict; 6 server unreachable."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Every verb of `muster`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(muster_up::Up),
    Server(muster_up::Server),
    Agent(muster_up::Agent),
    Run(cmd::run::Run),
    Submit(cmd::submit::Submit),
    Ps(cmd::ps::Ps),
    Top(muster_top::Top),
    Get(cmd::get::Get),
    Describe(cmd::describe::Describe),
    Logs(cmd::logs::Logs),
    Cancel(cmd::act::Cancel),
    Hold(cmd::act::Hold),
    Release(cmd::act::Release),
    Requeue(cmd::act::Requeue),
    Checkpoint(cmd::act::Checkpoint),
    Wait(cmd::wait::Wait),
    Update(cmd::update::Update),
    Explain(cmd::explain::Explain),
    Report(cmd::report::Report),
    Whatif(cmd::whatif::Whatif),
    Nodes(cmd::nodes::Nodes),
    Node(cmd::node::NodeCmd),
    Topology(cmd::topology::TopologyCmd),
    Quota(cmd::quota::QuotaCmd),
    Policy(cmd::policy::PolicyCmd),
    Reservation(cmd::reservation::ReservationCmd),
    Defrag(cmd::defrag::DefragCmd),
    Events(cmd::events::Events),
    Search(cmd::search::Search),
    Fabric(cmd::fabric::FabricCmd),
    Faults(cmd::faults::Faults),
    Health(cmd::health::Health),
    Findings(cmd::findings::Findings),
    Incident(cmd::incident::IncidentCmd),
    Remediations(cmd::remediations::RemediationsCmd),
    Runbook(cmd::runbook::RunbookCmd),
    Breakers(cmd::breakers::Breakers),
    Automation(cmd::automation::AutomationCmd),
    Readiness(cmd::readiness::ReadinessCmd),
    Slo(cmd::slo::SloCmd),
    Alerts(cmd::alerts::AlertsCmd),
    Silence(cmd::silence::SilenceCmd),
    Routing(cmd::routing::RoutingCmd),
    FailureModes(cmd::failure_modes::FailureModes),
    Gameday(muster_gameday::Gameday),
    Store(cmd::store::StoreCmd),
    Sim(muster_simcli::SimCmd),
    Token(cmd::token::TokenCmd),
    Secret(cmd::secret::SecretCmd),
    Project(cmd::project::ProjectCmd),
    Power(cmd::power::Power),
    History(cmd::history::HistoryCmd),
    Whoami(cmd::whoami::Whoami),
    Export(cmd::export::Export),
    Doctor(cmd::doctor::Doctor),
    Completions(cmd::completions::Completions),
    /// Hosts the simulated fleet and this machine's agent for `up`
    #[command(name = "__fleet", hide = true)]
    Fleet,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use muster_terminal::args::Format;

    #[test]
    fn the_arguments_make_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for c in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(c.get_about().is_some(), "{} says what it does", c.get_name());
            let after = c.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("muster "), "{} shows an example", c.get_name());
        }
    }

    /// Every verb without verbs under it, with the words before it.
    fn leaves(c: &clap::Command, path: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let subs = c.get_subcommands().filter(|s| !s.is_hide_set());
        subs.flat_map(|sub| {
            let path = [path, &[sub.get_name().to_owned()]].concat();
            match sub.has_subcommands() {
                true => leaves(sub, &path),
                false => vec![(path, sub.clone())],
            }
        })
        .collect()
    }

    #[test]
    fn every_verb_refuses_a_wrong_flag_and_asks_for_what_is_missing() {
        let all = leaves(&Cli::command(), &["muster".to_owned()]);
        assert!(all.len() > 100, "{}", all.len());
        for (path, verb) in all {
            let wrong = path.iter().map(String::as_str).chain(["--no-such-flag"]);
            let e = Cli::command().try_get_matches_from(wrong).expect_err("no such flag");
            assert_eq!(e.exit_code(), 2, "{path:?}: {e}");
            if verb.get_arguments().any(clap::Arg::is_required_set) {
                let e = Cli::command().try_get_matches_from(&path).expect_err("it lacks something");
                assert_eq!(e.exit_code(), 2, "{path:?}: {e}");
            }
        }
    }

    #[test]
    fn global_flags_work_after_the_command_too() {
        let cli = Cli::try_parse_from(["muster", "ps", "-o", "json", "--server", "http://x:1"])
            .expect("good arguments");
        assert_eq!(cli.global.output, Format::Json);
        assert_eq!(cli.global.server.as_deref(), Some("http://x:1"));
    }

    #[test]
    fn a_mistyped_flag_is_not_taken_for_the_command_to_run() {
        let e = Cli::try_parse_from(["muster", "run", "--gpuz", "8", "--", "true"])
            .expect_err("unknown flag");
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().contains("--gpus"), "{e}");
    }

    /// The words of a line as a shell would see them, without its comment.
    fn words(line: &str) -> Vec<String> {
        let (mut out, mut word, mut quote) = (Vec::new(), String::new(), false);
        let mut any = false;
        for c in line.chars() {
            match c {
                '\'' => (quote, any) = (!quote, true),
                '#' if !quote && word.is_empty() => break,
                ' ' | '>' | '|' if !quote => {
                    if any {
                        out.push(std::mem::take(&mut word));
                    }
                    any = false;
                    if c != ' ' {
                        return out;
                    }
                }
                c => {
                    word.push(c);
                    any = true;
                }
            }
        }
        if any {
            out.push(word);
        }
        out
    }

    #[test]
    fn every_command_of_the_pages_on_health_exists() {
        let mut seen = 0;
        for page in ["health.md", "remediations.md"] {
            let file = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
            let block = text.split("```sh\n").skip(1).filter_map(|b| b.split("```").next());
            let inline = text.split('`').skip(1).step_by(2).filter(|t| !t.contains("```"));
            let shown = text.lines().filter_map(|l| l.trim().strip_prefix("$ "));
            let typed = block.flat_map(str::lines).chain(shown).map(|l| (l, true));
            // In running text a command may be named without what it takes.
            let lines = typed.chain(inline.map(|l| (l, false)));
            for (line, whole) in lines.map(|(l, whole)| (l.trim(), whole)) {
                if !line.starts_with("muster ") {
                    continue;
                }
                seen += 1;
                if let Err(e) = Cli::try_parse_from(words(line)) {
                    let lacks = e.kind() == clap::error::ErrorKind::MissingRequiredArgument;
                    // Help is an answer, not a mistake.
                    let fine = e.exit_code() == 0 || (lacks && !whole);
                    assert!(fine, "{page}: {line}\n{e}");
                }
            }
        }
        assert!(seen > 40, "{seen}");
    }

    /// What each verb says after its options, with the words that lead to it.
    fn after(c: &clap::Command, path: &str) -> Vec<(String, String)> {
        let text = c.get_after_help().map(ToString::to_string).unwrap_or_default();
        let below = c.get_subcommands().filter(|s| !s.is_hide_set());
        let below = below.flat_map(|s| after(s, &format!("{path} {}", s.get_name())));
        [(path.to_owned(), text)].into_iter().chain(below).collect()
    }

    #[test]
    fn every_example_of_a_help_text_can_be_typed() {
        let mut seen = 0;
        for (path, text) in after(&Cli::command(), "muster") {
            let examples = text.lines().filter(|l| l.starts_with("  muster "));
            for line in examples.filter(|l| !l.contains("$(")) {
                assert!(line.chars().count() <= 100, "{path}: cut by the width of help\n{line}");
                // What comes after two blanks says what it is for.
                let typed = line.trim().split("  ").next().unwrap_or_default();
                let typed = typed.split(" && ").flat_map(|t| t.split(" < ")).next();
                let mut typed = words(typed.unwrap_or_default());
                typed.retain(|w| w != "\\");
                // A list of formats has the word, too.
                if typed.len() < 2 {
                    continue;
                }
                seen += 1;
                if let Err(e) = Cli::try_parse_from(typed) {
                    let more = line.ends_with('\\')
                        && e.kind() == clap::error::ErrorKind::MissingRequiredArgument;
                    assert!(e.exit_code() == 0 || more, "{path}: {line}\n{e}");
                }
            }
        }
        assert!(seen > 150, "{seen}");
    }

    #[test]
    fn every_verb_that_a_hint_names_exists() {
        let tree = Cli::command();
        let is_verb = |w: &str| {
            let letters = w.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            letters && w.starts_with(|c: char| c != '-')
        };
        let mut dirs = vec![std::path::PathBuf::from(format!("{}/..", env!("CARGO_MANIFEST_DIR")))];
        let mut seen = 0;
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).expect("the crates are beside each other") {
                let path = entry.expect("an entry").path();
                if path.is_dir() && !path.ends_with("tests") {
                    dirs.push(path);
                    continue;
                }
                if path.extension().is_none_or(|e| e != "rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a source");
                let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
                for line in code.map(|l| l.replace("```", "")) {
                    for (at, start) in line.match_indices("`muster ") {
                        seen += 1;
                        let said = line[at + start.len()..].split(['`', '"', '\\']).next();
                        let mut verb = &tree;
                        for word in said.unwrap_or_default().split(' ').take_while(|w| is_verb(w)) {
                            let Some(next) = verb.find_subcommand(word) else {
                                let free = !verb.has_subcommands()
                                    || verb.get_positionals().next().is_some();
                                assert!(free, "{}: no `{word}` in {line}", path.display());
                                break;
                            };
                            verb = next;
                        }
                    }
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn what_follows_the_dashes_is_the_job() {
        let cli =
            Cli::try_parse_from(["muster", "run", "--nodes", "2", "--", "sh", "-c", "echo $RANK"])
                .expect("good arguments");
        let Command::Run(run) = cli.command else { panic!("run was typed") };
        assert_eq!(run.command, ["sh", "-c", "echo $RANK"]);
        assert_eq!(run.job.nodes.as_deref(), Some("2"));
    }
}
