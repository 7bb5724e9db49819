//! What a command has at hand: settings, a client, a way to print.

use crate::args::{Format, Global};
use crate::config::Settings;
use crate::fail::Fail;
use crate::output::{self, document};
use muster_client::{Builder, Client};
use muster_model::units::Time;
use serde::Serialize;
use std::time::Duration;

/// What a command has at hand.
#[derive(Debug)]
pub struct Ctx {
    /// Flags that every command takes.
    pub global: Global,
    settings: std::cell::OnceCell<Settings>,
}

impl Ctx {
    /// For a command with these flags.
    #[must_use]
    pub fn new(global: Global) -> Ctx {
        Ctx { global, settings: std::cell::OnceCell::new() }
    }

    /// The settings, read on first use: commands that need none work without.
    pub fn settings(&self) -> Result<&Settings, Fail> {
        if self.settings.get().is_none() {
            let loaded = Settings::load(&self.global)?;
            let _ = self.settings.set(loaded);
        }
        self.settings.get().ok_or_else(|| Fail::failed("the settings could not be saved"))
    }

    /// A client of the server.
    pub fn client(&self) -> Result<Client, Fail> {
        let say = |text: &str| output::note(&format!("muster: {text}"));
        Ok(self.builder()?.on_wait(say).build()?)
    }

    /// A client that asks once and does not wait long: for those who can do without an answer.
    pub fn impatient_client(&self) -> Result<Client, Fail> {
        Ok(self.builder()?.tries(1).timeout(Duration::from_secs(5)).build()?)
    }

    fn builder(&self) -> Result<Builder, Fail> {
        let s = self.settings()?;
        let builder = Client::builder(&s.server, s.token.as_deref());
        Ok(match &s.ca {
            Some(ca) => builder.ca(ca),
            None => builder,
        })
    }

    /// The project that `--project` names, where that is not what the environment says for every command.
    #[must_use]
    pub fn typed_project(&self) -> Option<&str> {
        let given = self.global.project.as_deref().filter(|p| !p.is_empty())?;
        let usual = std::env::var("MUSTER_PROJECT").ok();
        (usual.as_deref() != Some(given)).then_some(given)
    }

    /// Refuses `-o json` and `yaml` where there is only text to print; `other` is what programs read.
    pub fn only_text(&self, what: &str, other: &str) -> Result<(), Fail> {
        if self.is_table() {
            return Ok(());
        }
        let message = format!("{what} prints text and does not go with -o json or yaml");
        Err(Fail::usage(message).hint(other))
    }

    /// Prints one object: as a document, or as `table` says.
    pub fn show<T: Serialize>(
        &self,
        value: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<(), Fail> {
        if self.is_table() {
            return output::print(&table(value));
        }
        self.show_document(serde_json::to_string(value))
    }

    /// The part that is the same for every type: there are more than a hundred of them.
    fn show_document(&self, json: serde_json::Result<String>) -> Result<(), Fail> {
        let json = json.map_err(|e| Fail::failed(format!("cannot write JSON: {e}")))?;
        if self.global.output == Format::Json {
            return output::print_json(&format!("{}\n", document::indented(&json)));
        }
        let text =
            document::yaml(&json).map_err(|e| Fail::failed(format!("cannot write YAML: {e}")))?;
        output::print_bytes(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Prints one of many that come one after the other: a line of JSON, or a document of YAML.
    pub fn show_next(&self, json: &str) -> Result<(), Fail> {
        if self.global.output == Format::Json {
            return output::print_json(&format!("{json}\n"));
        }
        let text =
            document::yaml(json).map_err(|e| Fail::failed(format!("cannot write YAML: {e}")))?;
        output::print_bytes(format!("---\n{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// Whether a person reads the output.
    pub fn is_table(&self) -> bool {
        self.global.output == Format::Table
    }

    /// Under a table that has not all there is: how much it has, or what shows the rest.
    pub fn note_more(&self, cursor: Option<&String>, rest: &str) {
        if cursor.is_some() && self.is_table() {
            output::note(&format!("note: there are more; {rest}"));
        }
    }
}

/// This machine's clock.
pub fn now() -> Time {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
