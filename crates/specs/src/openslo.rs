//! Objectives from OpenSLO files, version 1: `SLO` documents with a ratio of one of Muster's own
//! indicators over a rolling window or a calendar month.
//!
//! ```yaml
//! apiVersion: openslo/v1
//! kind: SLO
//! metadata: {name: research-queue-wait, labels: {owner: scheduling}}
//! spec:
//!   description: Research gets its nodes within five minutes
//!   service: research
//!   indicator:
//!     metadata: {name: wait}
//!     spec:
//!       ratioMetric:
//!         good: {metricSource: {type: muster, spec: {sli: queue_wait, under: 5m, project: research}}}
//!         total: {metricSource: {type: muster, spec: {sli: queue_wait, under: 5m, project: research}}}
//!   timeWindow: [{duration: 28d, isRolling: true}]
//!   budgetingMethod: Occurrences
//!   objectives: [{target: 0.95}]
//! ```
//!
//! `indicatorRef` may name an `SLI` document of the same file, or an indicator that needs no
//! limit, like `node_availability`.

use crate::de;
use crate::error::{FileError, did_you_mean, shown};
use crate::tree::{self, Key, Node, TextPosition, Value};
use muster_model::names::Label;
use muster_model::slo::{OBJECTIVES_MAX, Objective, Ppm, Scope, Sli, Window};
use muster_model::units::Span;
use std::collections::BTreeMap;

const API: &str = "openslo/v1";

/// Does a file say that it is OpenSLO?
#[must_use]
pub fn is_openslo(text: &str) -> bool {
    text.lines().any(|l| {
        let l = l.trim_start_matches(['{', '"', ' ']);
        l.strip_prefix("apiVersion").is_some_and(|r| r.contains("openslo"))
    })
}

/// Reads the objectives of a file of one or several documents.
///
/// # Errors
/// The first thing that is wrong or not supported, with its line and what is supported.
pub fn read(text: &str, origin: &str) -> Result<Vec<Objective>, FileError> {
    if text.len() > crate::document::MAX_FILE {
        return Err(FileError::new(origin, "the file is too large"));
    }
    let f = File { origin };
    let mut indicators = BTreeMap::new();
    let mut slos = Vec::new();
    for part in documents(text) {
        let root = tree::yaml(&part, origin)?;
        if matches!(root.value, Value::Null) {
            continue;
        }
        let top = f.table(&root, "the document")?;
        f.known(&top, &["apiVersion", "kind", "metadata", "spec"])?;
        let (version, at) = f.text(&top, "apiVersion")?;
        if version != API {
            let message = format!("`{}` is not read", shown(&version));
            return Err(f.at(at, message).hint(format!("write `apiVersion: {API}`")));
        }
        let (kind, at) = f.text(&top, "kind")?;
        match kind.as_str() {
            "SLO" => slos.push(root),
            "SLI" => {
                let (name, at) = f.name(&top)?;
                let spec = f.need(&top, "spec")?;
                if indicators.insert(name.clone(), f.indicator(spec)?).is_some() {
                    let message = format!("two SLIs are called {name}");
                    return Err(f.at(at, message).hint("give each its own name"));
                }
            }
            // Only a name that SLOs refer to.
            "Service" => {}
            other => {
                return Err(f
                    .at(at, format!("documents of kind `{}` are not read", shown(other)))
                    .hint("SLO, SLI and Service are; Muster's own burn rules and routes alert"));
            }
        }
    }
    let mut out: Vec<Objective> = Vec::new();
    for root in &slos {
        let o = f.slo(root, &indicators)?;
        if out.iter().any(|p| p.name == o.name) {
            let message = format!("two SLOs are called {}", o.name);
            return Err(f.at(root.place, message).hint("give each its own name"));
        }
        out.push(o);
    }
    if out.is_empty() {
        return Err(FileError::new(origin, "the file has no SLO").hint("write `kind: SLO`"));
    }
    if out.len() > OBJECTIVES_MAX {
        return Err(FileError::new(origin, format!("there are more than {OBJECTIVES_MAX} SLOs")));
    }
    Ok(out)
}

/// The documents of a file, each with as many empty lines before it that its own are where they are.
fn documents(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut before = String::new();
    for line in text.lines() {
        before.push('\n');
        let divides = line.trim_end() == "---";
        if divides {
            out.push(before.clone());
        } else if let Some(last) = out.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    out
}

/// An indicator and for whom it is.
type Indicator = (Sli, Scope);
type Table<'a> = (&'a [(Key, Node)], TextPosition);

struct File<'a> {
    origin: &'a str,
}

impl File<'_> {
    fn at(&self, place: TextPosition, message: impl Into<String>) -> FileError {
        FileError::new(self.origin, message).at(place.line, place.column)
    }

    fn table<'n>(&self, node: &'n Node, what: &str) -> Result<Table<'n>, FileError> {
        match &node.value {
            Value::Table(entries) => Ok((entries, node.place)),
            _ => Err(self.at(node.place, format!("{what} is {}, not a table", node.kind()))),
        }
    }

    fn get<'n>(&self, table: &Table<'n>, key: &str) -> Option<(&'n Key, &'n Node)> {
        table.0.iter().find(|(k, _)| k.text == key).map(|(k, n)| (k, n))
    }

    fn need<'n>(&self, table: &Table<'n>, key: &str) -> Result<&'n Node, FileError> {
        let missing = || tree::missing_field(self.origin, key).at(table.1.line, table.1.column);
        self.get(table, key).map(|(_, n)| n).ok_or_else(missing)
    }

    /// Nothing but these fields, so that no wish goes unheard.
    fn known(&self, table: &Table<'_>, keys: &[&str]) -> Result<(), FileError> {
        match table.0.iter().find(|(k, _)| !keys.contains(&k.text.as_str())) {
            None => Ok(()),
            Some((k, _)) => {
                let message = format!("`{}` is not read here", shown(&k.text));
                Err(self.at(k.place, message).hint(did_you_mean(&k.text, keys)))
            }
        }
    }

    /// Numbers and words alike, as they are written.
    fn plain(&self, node: &Node, what: &str) -> Result<(String, TextPosition), FileError> {
        match &node.value {
            Value::Text(t) | Value::Bare(t) => Ok((t.clone(), node.place)),
            _ => Err(self.at(node.place, format!("`{what}` is {}, not text", node.kind()))),
        }
    }

    fn text(&self, table: &Table<'_>, key: &str) -> Result<(String, TextPosition), FileError> {
        self.plain(self.need(table, key)?, key)
    }

    fn name(&self, top: &Table<'_>) -> Result<(Label, TextPosition), FileError> {
        let meta = self.table(self.need(top, "metadata")?, "`metadata`")?;
        self.known(&meta, &["name", "displayName", "labels", "annotations"])?;
        let (name, at) = self.text(&meta, "name")?;
        Ok((name.parse().map_err(|e| self.at(at, format!("{e}")))?, at))
    }

    /// The one thing of a list.
    fn only<'n>(&self, spec: &Table<'n>, key: &str, why: &str) -> Result<&'n Node, FileError> {
        let node = self.need(spec, key)?;
        match &node.value {
            Value::List(items) => match items.as_slice() {
                [one] => Ok(one),
                many => {
                    let message = format!("`{key}` has {} things", many.len());
                    Err(self.at(node.place, message).hint(why))
                }
            },
            _ => Err(self.at(node.place, format!("`{key}` is {}, not a list", node.kind()))),
        }
    }

    fn slo(&self, root: &Node, known: &BTreeMap<Label, Indicator>) -> Result<Objective, FileError> {
        let top = self.table(root, "the document")?;
        let (name, name_at) = self.name(&top)?;
        let spec = self.table(self.need(&top, "spec")?, "`spec`")?;
        self.known(
            &spec,
            &[
                "description",
                "service",
                "indicator",
                "indicatorRef",
                "timeWindow",
                "budgetingMethod",
                "objectives",
            ],
        )
        .map_err(|e| match e.message.contains("alertPolicies") {
            true => e.hint("leave it out: Muster's own burn rules and routes alert"),
            false => e,
        })?;
        let of = |key: &str| match self.get(&spec, key) {
            Some((_, n)) => self.plain(n, key).map(|(t, _)| t),
            None => Ok(String::new()),
        };
        if let Some((_, n)) = self.get(&spec, "budgetingMethod")
            && self.plain(n, "budgetingMethod")?.0 != "Occurrences"
        {
            let message = "only `Occurrences` is counted";
            return Err(self.at(n.place, message).hint("write `budgetingMethod: Occurrences`"));
        }
        let (sli, scope) = self.indicator_of(&spec, known)?;
        let (target, target_at) = self.target(&spec)?;
        let (window, window_at) = self.window(&spec)?;
        let objective = Objective {
            name,
            owner: self.owner(&top)?.map_or_else(|| of("service"), Ok)?,
            description: of("description")?,
            sli,
            scope,
            target,
            window,
            burn: None,
            gates: [].into(),
        };
        objective.check().map_err(|p| {
            let place = match p.field.as_str() {
                "target" => target_at,
                "window" => window_at,
                _ => name_at,
            };
            FileError::from_problem(self.origin, p).at(place.line, place.column)
        })?;
        Ok(objective)
    }

    fn owner(&self, top: &Table<'_>) -> Result<Option<String>, FileError> {
        let meta = self.table(self.need(top, "metadata")?, "`metadata`")?;
        let Some((_, labels)) = self.get(&meta, "labels") else { return Ok(None) };
        let labels = self.table(labels, "`labels`")?;
        match self.get(&labels, "owner") {
            // A label may have several values there; one of them answers for it.
            Some((_, Node { value: Value::List(many), .. })) => {
                many.first().map(|n| self.plain(n, "owner").map(|(t, _)| t)).transpose()
            }
            Some((_, n)) => self.plain(n, "owner").map(|(t, _)| Some(t)),
            None => Ok(None),
        }
    }

    fn indicator_of(
        &self,
        spec: &Table<'_>,
        known: &BTreeMap<Label, Indicator>,
    ) -> Result<Indicator, FileError> {
        match (self.get(spec, "indicator"), self.get(spec, "indicatorRef")) {
            (Some((_, node)), None) => {
                let inline = self.table(node, "`indicator`")?;
                self.known(&inline, &["metadata", "spec"])?;
                self.indicator(self.need(&inline, "spec")?)
            }
            (None, Some((_, node))) => {
                let (name, at) = self.plain(node, "indicatorRef")?;
                if let Some(found) = name.parse::<Label>().ok().and_then(|n| known.get(&n)) {
                    return Ok(found.clone());
                }
                if Sli::WORDS.contains(&name.as_str()) {
                    return self.sli(&name, &BTreeMap::new(), at);
                }
                let names: Vec<&str> = known.keys().map(Label::as_str).chain(Sli::WORDS).collect();
                let message = format!("there is no indicator `{}`", shown(&name));
                Err(self.at(at, message).hint(did_you_mean(&name, &names)))
            }
            (Some((k, _)), Some(_)) => {
                let message = "`indicator` and `indicatorRef` are both there";
                Err(self.at(k.place, message).hint("leave one of them out"))
            }
            (None, None) => {
                Err(tree::missing_field(self.origin, "indicator").at(spec.1.line, spec.1.column))
            }
        }
    }

    /// The spec of an SLI: a ratio of one of our own.
    fn indicator(&self, node: &Node) -> Result<Indicator, FileError> {
        let supported = "a `ratioMetric` with `good` and `total` of `metricSource: {type: muster, \
                         spec: {sli: …}}` is read";
        let spec = self.table(node, "`spec`")?;
        if let Some((k, _)) = self.get(&spec, "thresholdMetric") {
            return Err(self.at(k.place, "`thresholdMetric` is not read").hint(supported));
        }
        self.known(&spec, &["description", "ratioMetric"])?;
        let ratio = self.table(self.need(&spec, "ratioMetric")?, "`ratioMetric`")?;
        for other in ["bad", "raw", "rawType"] {
            if let Some((k, _)) = self.get(&ratio, other) {
                return Err(self.at(k.place, format!("`{other}` is not read")).hint(supported));
            }
        }
        self.known(&ratio, &["counter", "good", "total"])?;
        let mut found: Option<Indicator> = None;
        for side in ["good", "total"] {
            let node = self.need(&ratio, side)?;
            let table = self.table(node, side)?;
            self.known(&table, &["metricSource"])?;
            let one = self.source(self.need(&table, "metricSource")?, supported)?;
            match &found {
                Some(first) if *first != one => {
                    let message = "`good` and `total` are of different indicators";
                    return Err(self.at(node.place, message).hint("name the same one in both"));
                }
                _ => found = Some(one),
            }
        }
        found.ok_or_else(|| self.at(node.place, "there is no indicator").hint(supported))
    }

    fn source(&self, node: &Node, supported: &str) -> Result<Indicator, FileError> {
        let source = self.table(node, "`metricSource`")?;
        self.known(&source, &["type", "spec", "metricSourceRef"])?;
        if let Some((k, _)) = self.get(&source, "metricSourceRef") {
            return Err(self.at(k.place, "`metricSourceRef` is not read").hint(supported));
        }
        let (kind, at) = self.text(&source, "type")?;
        if !kind.eq_ignore_ascii_case("muster") {
            let message = format!("sources of type `{}` are not read", shown(&kind));
            return Err(self.at(at, message).hint(supported));
        }
        let spec = self.table(self.need(&source, "spec")?, "`spec`")?;
        let mut params = BTreeMap::new();
        for (k, n) in spec.0 {
            params.insert(k.text.clone(), self.plain(n, &k.text)?);
        }
        let Some((word, at)) = params.remove("sli") else {
            let missing = tree::missing_field(self.origin, "sli");
            return Err(missing.at(spec.1.line, spec.1.column).hint(known_slis()));
        };
        self.sli(&word, &params, at)
    }

    /// One of our own by its word and its limits.
    fn sli(
        &self,
        word: &str,
        params: &BTreeMap<String, (String, TextPosition)>,
        at: TextPosition,
    ) -> Result<Indicator, FileError> {
        if !Sli::WORDS.contains(&word) {
            let message = format!("there is no indicator `{}`", shown(word));
            return Err(self.at(at, message).hint(did_you_mean(word, &Sli::WORDS)));
        }
        let mut scope = Scope::default();
        let mut fields = Vec::new();
        for (key, (value, at)) in params {
            match key.as_str() {
                "project" => {
                    let name = value.parse().map_err(|e| self.at(*at, format!("{e}")))?;
                    scope.project = Some(name);
                }
                "pool" => scope.pool = Some(value.clone()),
                _ => {
                    let value = match value.as_str() {
                        "true" | "false" => Value::Bare(value.clone()),
                        _ => Value::Text(value.clone()),
                    };
                    let key = Key { text: key.clone(), place: *at };
                    fields.push((key, Node::new(*at, value)));
                }
            }
        }
        let bare = ["node_availability", "goodput", "inference_availability", "api_availability"];
        let value = match fields.is_empty() && bare.contains(&word) {
            true => Value::Text(word.to_owned()),
            false => {
                let key = Key { text: word.to_owned(), place: at };
                Value::Table(vec![(key, Node::new(at, Value::Table(fields)))])
            }
        };
        let wrong = |e: de::Error| {
            let text = e.to_string();
            let hint = match text.strip_prefix("missing field `").and_then(|t| t.split('`').next())
            {
                Some("under") => "add `under: 5m` next to `sli`",
                Some("cost") => "add `cost: 15m` next to `sli`",
                _ => "",
            };
            self.at(at, format!("{word}: {text}")).hint(hint)
        };
        Ok((de::strict(&Node::new(at, value)).map_err(wrong)?, scope))
    }

    fn target(&self, spec: &Table<'_>) -> Result<(Ppm, TextPosition), FileError> {
        let one = self.only(spec, "objectives", "write one SLO for each target")?;
        let one = self.table(one, "the objective")?;
        for key in
            ["op", "value", "timeSliceTarget", "timeSliceWindow", "indicator", "compositeWeight"]
        {
            if let Some((k, _)) = self.get(&one, key) {
                let message = format!("`{key}` is not read");
                return Err(self.at(k.place, message).hint("`target` or `targetPercent` is"));
            }
        }
        self.known(&one, &["displayName", "target", "targetPercent"])?;
        let (text, at, ppm) = match (self.get(&one, "target"), self.get(&one, "targetPercent")) {
            (Some((_, n)), None) => {
                let (t, at) = self.plain(n, "target")?;
                let ppm = Ppm::from_share(&t);
                (t, at, ppm)
            }
            (None, Some((_, n))) => {
                let (t, at) = self.plain(n, "targetPercent")?;
                let ppm = Ppm::from_percent(&t);
                (t, at, ppm)
            }
            _ => {
                let message = "write either `target` or `targetPercent`";
                return Err(self.at(one.1, message).hint("like `target: 0.999`"));
            }
        };
        let ppm = ppm.ok_or_else(|| {
            let message = format!("`{}` is not a share", shown(&text));
            self.at(at, message).hint("write `target: 0.999` or `targetPercent: 99.9`")
        })?;
        Ok((ppm, at))
    }

    fn window(&self, spec: &Table<'_>) -> Result<(Window, TextPosition), FileError> {
        let node = self.only(spec, "timeWindow", "write one window")?;
        let one = self.table(node, "the window")?;
        self.known(&one, &["duration", "isRolling", "calendar"])?;
        let (text, at) = self.text(&one, "duration")?;
        let rolling = match self.get(&one, "isRolling") {
            Some((_, n)) => self.plain(n, "isRolling")?.0 == "true",
            None => self.get(&one, "calendar").is_none(),
        };
        if rolling {
            let span: Span = text.parse().map_err(|_| {
                let message = format!("`{}` is not a length of time", shown(&text));
                self.at(at, message).hint("write it like 28d or 12h")
            })?;
            return Ok((Window::Rolling(span), at));
        }
        if let Some((_, calendar)) = self.get(&one, "calendar") {
            let calendar = self.table(calendar, "`calendar`")?;
            self.known(&calendar, &["startTime", "timeZone"])?;
            if let Some((_, n)) = self.get(&calendar, "timeZone")
                && !["UTC", "Etc/UTC"].contains(&self.plain(n, "timeZone")?.0.as_str())
            {
                return Err(self
                    .at(n.place, "months are counted in UTC")
                    .hint("write `timeZone: UTC`"));
            }
        }
        match text.as_str() {
            "1M" => Ok((Window::Month, at)),
            _ => Err(self
                .at(at, format!("a calendar window of `{}` is not counted", shown(&text)))
                .hint("write `1M` for a month, or `isRolling: true`")),
        }
    }
}

fn known_slis() -> String {
    format!("write `sli:` and one of {}", Sli::WORDS.join(", "))
}
