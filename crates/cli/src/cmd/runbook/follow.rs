//! Step by step on a terminal.

use super::show;
use muster_api::{AnswerRunbook, RunbookAnswer, RunbookRun, RunbookStep};
use muster_client::Client;
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::colour::on;
use std::io::BufRead as _;

/// What was typed, as an answer to a step; none: it means nothing.
fn meant(typed: &str, step: &RunbookStep) -> Option<AnswerRunbook> {
    let answer =
        |answer, choose| Some(AnswerRunbook { step: step.no, answer, choose, note: String::new() });
    if !step.choices.is_empty() {
        if typed == "s" {
            return answer(RunbookAnswer::Skip, None);
        }
        let by_number =
            typed.parse::<usize>().ok().and_then(|n| step.choices.get(n.wrapping_sub(1)));
        let chosen = by_number.or_else(|| step.choices.iter().find(|c| c.text == typed))?;
        return answer(RunbookAnswer::Choose, Some(chosen.text.clone()));
    }
    match typed {
        "" | "g" => answer(RunbookAnswer::Go, None),
        "y" => answer(RunbookAnswer::Yes, None),
        "n" => answer(RunbookAnswer::No, None),
        "s" => answer(RunbookAnswer::Skip, None),
        _ => None,
    }
}

/// Follows a run until it is over or the person leaves.
pub(super) async fn follow(client: &Client, mut run: RunbookRun) -> Result<u8, Fail> {
    let id = run.id.clone();
    loop {
        let Some(step) = run.now.clone() else {
            output::print(&show::run(&run, now(), on()))?;
            return Ok(u8::from(run.state == "unresolved"));
        };
        output::print(&show::run(&RunbookRun { done: Vec::new(), ..run.clone() }, now(), on()))?;
        let keys = if step.choices.is_empty() {
            "Enter: check or do it now; y: pass, done by hand; n: fail; s: skip; q: leave"
        } else {
            "type the number of a choice; s: skip; q: leave"
        };
        output::note(keys);
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let typed = line.trim();
        if !matches!(read, Ok(1..)) || typed == "q" {
            output::note(&format!("the run waits: `muster runbook describe {id}` shows it"));
            return Ok(0);
        }
        let Some(answer) = meant(typed, &step) else {
            output::note(&format!("`{typed}` is none of these"));
            continue;
        };
        match client.answer_runbook(&id, &answer).await {
            Ok(next) => run = next,
            Err(e) => {
                output::note(&Fail::from(e).render(on()));
                run = client.runbook_run(&id).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::RunbookChoice;

    fn step(choices: &[&str]) -> RunbookStep {
        let choice = |t: &&str| RunbookChoice { text: (*t).into(), goto: "end".into() };
        RunbookStep {
            no: 3,
            kind: "ask".into(),
            title: String::new(),
            text: String::new(),
            says: String::new(),
            choices: choices.iter().map(choice).collect(),
            then: "next".into(),
            otherwise: "give-up".into(),
        }
    }

    #[test]
    fn what_is_typed_is_understood_or_asked_again() {
        let asks = step(&["yes", "no, it is off"]);
        let second = meant("2", &asks).expect("a choice");
        assert_eq!((second.step, second.choose.as_deref()), (3, Some("no, it is off")));
        assert_eq!(meant("yes", &asks).expect("a choice").answer, RunbookAnswer::Choose);
        assert!(meant("3", &asks).is_none() && meant("0", &asks).is_none());
        let does = step(&[]);
        assert_eq!(meant("", &does).expect("a word").answer, RunbookAnswer::Go);
        assert_eq!(meant("n", &does).expect("a word").answer, RunbookAnswer::No);
        assert!(meant("maybe", &does).is_none());
    }
}
