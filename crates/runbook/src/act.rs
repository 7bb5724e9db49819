//! What an act can do: the commands that the API has.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! acts {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal [$($needs:literal),*] [$($may:literal),*];)*) => {
        /// Kinds of acts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ActKind {
            $($(#[doc = $doc])* $name,)*
        }
        /// Every act by its word, with the fields it needs and those it may have.
        const ALL: &[(&str, ActKind, &[&str], &[&str])] =
            &[$(($word, ActKind::$name, &[$($needs),*], &[$($may),*]),)*];
    };
}

acts! {
    /// No new work for a node.
    Cordon "cordon" ["node"] ["reason"];
    /// New work again.
    Uncordon "uncordon" ["node"] [];
    /// What runs leaves; at once with `stop: yes`.
    Drain "drain" ["node"] ["reason", "stop"];
    /// Take work again after a drain.
    Undrain "undrain" ["node"] [];
    /// Test a node: quick, standard or full.
    Qualify "qualify" ["node"] ["level"];
    /// People repaired it: it is tested and returns.
    Repaired "repaired" ["node"] ["note"];
    /// It returns without a test.
    Return "return" ["node"] ["reason"];
    /// One GPU takes no work.
    ExcludeGpu "exclude-gpu" ["node", "gpu"] ["reason"];
    /// The node's remediation goes on: the reset, restart or replacement that waits for a word.
    Approve "approve-remediation" ["node"] [];
    /// It is not done.
    Deny "deny-remediation" ["node"] ["reason"];
    /// What it did is taken back.
    Undo "undo-remediation" ["node"] ["reason"];
    /// A finding is of no account.
    CloseFinding "close-finding" ["finding"] ["reason"];
    /// A breaker is held.
    ForceBreaker "force-breaker" ["breaker", "state"] ["reason"];
    /// It follows its own rules again.
    ReleaseBreaker "release-breaker" ["breaker"] ["reason"];
    /// A job ends.
    CancelJob "cancel-job" ["job"] [];
    /// It is stopped and tried again, unless it has ended.
    RequeueJob "requeue-job" ["job"] [];
    /// It may not start.
    HoldJob "hold-job" ["job"] [];
    /// It may.
    ReleaseJob "release-job" ["job"] [];
    /// It is asked for a checkpoint.
    Checkpoint "checkpoint-job" ["job"] [];
    /// The control plane does nothing more by itself.
    StopAutomation "stop-automation" [] ["reason"];
    /// It goes on.
    ResumeAutomation "resume-automation" [] [];
    /// Somebody is called.
    Page "page" ["title"] ["detail"];
    /// Something is written down about the incident.
    Note "note-incident" ["incident", "note"] [];
}

impl ActKind {
    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<ActKind> {
        ALL.iter().find(|(w, ..)| *w == word).map(|(_, k, ..)| *k)
    }

    /// The word that stands for it in a runbook.
    #[must_use]
    pub fn word(self) -> &'static str {
        ALL.iter().find(|(_, k, ..)| *k == self).map_or("", |(w, ..)| w)
    }

    /// Fields it cannot do without.
    #[must_use]
    pub fn needs(self) -> &'static [&'static str] {
        ALL.iter().find(|(_, k, ..)| *k == self).map_or(&[], |(_, _, n, _)| n)
    }

    /// Fields it may have.
    #[must_use]
    pub fn may(self) -> &'static [&'static str] {
        ALL.iter().find(|(_, k, ..)| *k == self).map_or(&[], |(_, _, _, m)| m)
    }

    /// Does it take a node from work? Then automation's limits hold for the machine.
    #[must_use]
    pub fn takes_node(self) -> bool {
        matches!(self, ActKind::Cordon | ActKind::Drain | ActKind::Qualify | ActKind::ExcludeGpu)
    }

    /// Every word, for people who write runbooks.
    pub fn words() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(w, ..)| *w)
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The kind of act.
    pub kind: ActKind,
    /// Its fields; `$name` stands for a variable of the run.
    pub fields: BTreeMap<String, String>,
}

impl Act {
    /// A field with the run's variables filled in.
    #[must_use]
    pub fn field(&self, name: &str, vars: &BTreeMap<String, String>) -> Option<String> {
        self.fields.get(name).map(|t| fill(t, vars))
    }

    /// In words, with the run's variables filled in.
    #[must_use]
    pub fn words(&self, vars: &BTreeMap<String, String>) -> String {
        let mut out = self.kind.word().to_owned();
        for name in self.kind.needs().iter().chain(self.kind.may()) {
            if let Some(v) = self.field(name, vars) {
                out.push_str(&format!(" {name}={v}"));
            }
        }
        out
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(&BTreeMap::new()))
    }
}

/// A text with `$name` replaced by variables. What is unknown becomes nothing.
#[must_use]
pub fn fill(text: &str, vars: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let end = tail.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(tail.len());
        if end == 0 {
            out.push('$');
        } else {
            out.push_str(vars.get(&tail[..end]).map_or("", String::as_str));
        }
        rest = &tail[end..];
    }
    out.push_str(rest);
    out
}
