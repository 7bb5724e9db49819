//! `muster secret …`.

use clap::{Args, Subcommand};
use muster_api::{SecretName, SetSecret};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell};
use std::io::{IsTerminal, Read};

/// Store, list and delete a project's secrets
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster secret set wandb-key < key.txt\n  muster secret set wandb-key    asks for it\n  \
muster secret list --project nlp\n  muster run --secret wandb-key -- python train.py"
)]
pub(crate) struct SecretCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Store a secret; its value comes from stdin
    Set {
        /// Its name
        name: String,
        /// The value; others on this machine may see it among the processes, stdin is safer
        #[arg(long)]
        value: Option<String>,
    },
    /// List the names of secrets
    List,
    /// Delete a secret
    Delete {
        /// Its name
        name: String,
    },
}

/// Largest value.
const MOST: u64 = 64 << 10;

impl SecretCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let project = ctx.settings()?.project.as_deref();
        match self.verb {
            Verb::Set { name, value } => {
                let value = match value {
                    Some(value) => value,
                    None => read_value(&name)?,
                };
                if value.is_empty() {
                    return Err(Fail::usage("the secret is empty")
                        .hint("`muster secret delete` removes one"));
                }
                let set = client.set_secret(project, &name, &SetSecret { value }).await?;
                ctx.show(&set, |s| format!("secret {} of project {} is set\n", s.name, s.project))?;
            }
            Verb::List => {
                let list = client.secrets(project).await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note("no secret is set; `muster secret set NAME` sets one");
                    return Ok(0);
                }
                ctx.show(&list, |l| table(&l.items).render())?;
            }
            Verb::Delete { name } => {
                client.delete_secret(project, &name).await?;
                let done = serde_json::json!({ "deleted": name });
                ctx.show(&done, |_| format!("secret {name} is deleted\n"))?;
            }
        }
        Ok(0)
    }
}

/// The secrets' names as a table.
pub(crate) fn table(secrets: &[SecretName]) -> Table {
    let mut table = Table::new(&["NAME", "PROJECT"]);
    for s in secrets {
        table.row(vec![cell(&s.name), cell(&s.project)]);
    }
    table
}

/// One line from a terminal that does not show it, or everything that is piped in.
fn read_value(name: &str) -> Result<String, Fail> {
    let cannot = |e: std::io::Error| Fail::failed(format!("cannot read the secret: {e}"));
    let stdin = std::io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        eprint!("Value of {name}: ");
        let quiet = EchoOff::new();
        let read = stdin.read_line(&mut text);
        drop(quiet);
        output::note("");
        read.map_err(cannot)?;
    } else {
        stdin.lock().take(MOST + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MOST {
            return Err(Fail::usage("the secret is larger than 64 KiB"));
        }
    }
    // The newline that editors and `echo` add is no part of it.
    let trimmed = text.strip_suffix('\n').unwrap_or(&text);
    Ok(trimmed.strip_suffix('\r').unwrap_or(trimmed).to_owned())
}

/// The terminal shows nothing of what is typed while this lives.
struct EchoOff(Option<rustix::termios::Termios>);

impl EchoOff {
    fn new() -> EchoOff {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return EchoOff(None) };
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        match tcsetattr(&stdin, OptionalActions::Now, &silent) {
            Ok(()) => EchoOff(Some(before)),
            Err(_) => EchoOff(None),
        }
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::termios::tcsetattr(
                std::io::stdin(),
                rustix::termios::OptionalActions::Now,
                before,
            );
        }
    }
}
