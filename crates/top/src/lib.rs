//! `muster top`: the fleet, the queue, what is wrong and one job, live in a terminal.
//!
//! `model` knows and `draw` shows, without a clock, a terminal or a network; `live` reads the
//! API and `screen` has the terminal.

mod draw;
mod feed;
mod fleet;
mod keys;
mod live;
mod model;
mod rows;
mod screen;
#[cfg(test)]
mod tests;

use clap::Args;
use jiff::tz::TimeZone;
use model::{Model, Msg, View};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::{self, colour};
use muster_terminal::pick;
use std::io::IsTerminal as _;
use std::str::FromStr;
use std::time::Duration;

/// Show the site live: fleet, queue, incidents, a job
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster top\n  muster top --view queue\n  muster top --view job:42\n  \
muster top --once --view fleet           one screen as plain text\n  \
muster top --once --size 120x40 > fleet.txt\n\n\
Keys: 1-4 or Tab choose what to look at, j/k or arrows move, Enter opens, Esc goes back, / filters,\n\
? explains, q quits. It only looks; `muster cancel`, `muster node drain`,\n\
`muster remediations approve` and the others act. Tokens bound to a project see that project's jobs.\n\
NO_COLOR=1 turns colours off."
)]
pub struct Top {
    /// What to look at first: fleet, queue, incidents, or job:ID
    #[arg(long, value_name = "VIEW", default_value = "fleet")]
    view: Start,
    /// Print one screen as plain text and end
    #[arg(long)]
    once: bool,
    /// With --once: columns and rows of the screen; this terminal's, or 80x24
    #[arg(long, value_name = "COLSxROWS", requires = "once")]
    size: Option<Size>,
}

/// What to look at first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Start {
    view: View,
    job: Option<String>,
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Start, String> {
        let view = |view| Ok(Start { view, job: None });
        match text {
            "fleet" => view(View::Fleet),
            "queue" => view(View::Queue),
            "incidents" => view(View::Incidents),
            other => match other.split_once(':') {
                Some(("job", id)) if !id.is_empty() => {
                    Ok(Start { view: View::Job, job: Some(id.to_owned()) })
                }
                _ => Err("use fleet, queue, incidents, or job:ID (an id or a name)".into()),
            },
        }
    }
}

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(u16, u16);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let number = |t: &str| t.parse::<u16>().ok();
        let both = text.split_once('x').and_then(|(w, h)| Some((number(w)?, number(h)?)));
        match both {
            Some((w @ 20..=500, h @ 5..=500)) => Ok(Size(w, h)),
            _ => Err("write it like 80x24; from 20x5 to 500x500".into()),
        }
    }
}

impl Top {
    /// Does what was typed.
    ///
    /// # Errors
    /// When the site or the terminal cannot be looked at.
    pub async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if !ctx.is_table() {
            return Err(Fail::usage("top draws for people and does not go with -o json or yaml")
                .hint("`muster health -o json`, `muster ps -o json` and `muster get` are for programs"));
        }
        let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        if !self.once && !terminal {
            return Err(Fail::usage("top needs a terminal, and this is none").hint(
                "`muster top --once` prints one screen as plain text; over ssh use `ssh -t`",
            ));
        }
        if !self.once && std::env::var_os("TERM").is_some_and(|t| t == "dumb") {
            return Err(Fail::usage("top needs a terminal that can be drawn on, and TERM is dumb")
                .hint("`muster top --once` prints one screen as plain text"));
        }
        let client = live::client(ctx, !self.once)?;
        let me = client.whoami().await?;
        let colour = !self.once && colour::wanted();
        let mut model = Model::new(now(), TimeZone::system(), colour, self.view.view);
        model.update(Msg::Me(me));
        if let Some(given) = &self.view.job {
            let job = pick::job(&client, given).await?;
            model.open_job(job.id);
        }
        if !self.once {
            return screen::run(client, model).await;
        }
        let fits = crossterm::terminal::size().ok().filter(|_| output::is_terminal());
        let Size(w, h) =
            self.size.unwrap_or(fits.map_or(Size(80, 24), |(w, h)| Size(w.max(20), h.max(5))));
        model.update(Msg::Size(w, h));
        // A server that does not answer shall not hang a script.
        let read = live::once(&client, &mut model);
        match tokio::time::timeout(Duration::from_secs(60), read).await {
            Ok(done) => done?,
            Err(_) => return Err(Fail::new(6, format!("{} does not answer", client.server()))),
        }
        let text = draw::text(&model, w, h);
        output::print(&text)?;
        Ok(0)
    }
}
