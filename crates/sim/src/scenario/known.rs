//! Holds a file against what may stand in it, and says how each slip was probably meant.

use super::schema::{Key, Kind, Naming, SCENARIO, Table};
use super::tree::{Entry, Item, item};
use super::units::{span_problem, unit_hint};
use muster_model::names::{Label, NodeName, ProjectName};
use muster_specs::error::{closest, shown};
use muster_specs::tree::{self, Node, TextPosition};

/// Something that may not stand where it stands.
#[derive(Debug)]
pub(super) struct Misplacement {
    pub(super) at: TextPosition,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) hint: String,
    /// Something is not there, which a slip elsewhere may explain.
    pub(super) absent: bool,
}

/// Everything in the file that serde would stumble over.
pub(super) fn find_misplacements(root: &Node) -> Vec<Misplacement> {
    let mut walk = Walk { slips: Vec::new() };
    walk.table(root, &SCENARIO, &Path { text: String::new(), at: root.place }, None);
    walk.slips
}

/// Where the walk is: the dotted path, and where its key stands.
struct Path {
    text: String,
    at: TextPosition,
}

impl Path {
    fn key(&self, (key, _): &Entry) -> Path {
        Path { text: self.dotted(&key.text), at: key.place }
    }

    fn item(&self, i: usize, node: &Node) -> Path {
        Path { text: format!("{}[{i}]", self.text), at: node.place }
    }

    fn dotted(&self, key: &str) -> String {
        let key = shown(key);
        if self.text.is_empty() { key } else { format!("{}.{key}", self.text) }
    }

    /// The last name of the path, as it is written before the `=`.
    fn name(&self) -> &str {
        let last = self.text.rsplit('.').next().unwrap_or_default();
        last.split('[').next().unwrap_or_default()
    }
}

struct Walk {
    slips: Vec<Misplacement>,
}

impl Walk {
    fn slip(&mut self, at: TextPosition, field: &str, message: String, hint: impl Into<String>) {
        self.slips.push(Misplacement {
            at,
            field: field.into(),
            message,
            hint: hint.into(),
            absent: false,
        });
    }

    fn absent(&mut self, at: TextPosition, field: &str, message: String, hint: impl Into<String>) {
        self.slip(at, field, message, hint);
        self.slips.iter_mut().rev().take(1).for_each(|s| s.absent = true);
    }

    fn value(&mut self, node: &Node, kind: &Kind, path: &Path) {
        match kind {
            Kind::Text | Kind::Word(_) | Kind::Name(_) | Kind::Span => self.text(node, kind, path),
            Kind::Start if matches!(item(node), Item::Whole(_)) => {}
            Kind::Start => self.text(node, &Kind::Span, path),
            Kind::Count | Kind::Whole | Kind::Real => self.number(node, kind, path),
            Kind::Truth => {
                if !matches!(item(node), Item::Truth(_)) {
                    let message = format!("{} is neither true nor false", item(node).shown());
                    let hint = format!("write `{0} = true` or `{0} = false`", path.name());
                    self.slip(node.place, &path.text, message, hint);
                }
            }
            Kind::List(each) => self.list(node, each, None, path),
            Kind::Pair(each) => self.list(node, each, Some(2), path),
            Kind::Table(table) => self.table(node, table, path, None),
            Kind::Tagged(tables) => self.tagged(node, tables, path),
            Kind::Choice(words, table) => self.choice(node, words, table, path),
            Kind::Either(plain, nested) => match item(node) {
                Item::List(_) | Item::Table(_) => self.value(node, nested, path),
                _ => self.value(node, plain, path),
            },
            Kind::Map(each) => match item(node) {
                Item::Table(entries) => {
                    for e in entries {
                        self.value(&e.1, each, &path.key(e));
                    }
                }
                _ => self.not_a_table(node, path),
            },
            Kind::Figures => self.figures(node, path),
        }
    }

    fn text(&mut self, node: &Node, kind: &Kind, path: &Path) {
        let Item::Text(text) = item(node) else {
            let (what, hint) = match (kind, item(node)) {
                (Kind::Span, Item::Whole(n)) if n < 0 => {
                    ("is no length of time", "a length of time is at least \"0s\"".to_owned())
                }
                (Kind::Span, Item::Whole(_) | Item::Real(_)) => {
                    ("has no unit", unit_hint(&item(node).shown()))
                }
                (Kind::Span, _) => {
                    ("is no length of time", "write it like \"90s\", \"24h\" or \"1d12h\"".into())
                }
                (Kind::Word(words), _) => ("is not one of the words", listed(words)),
                (_, Item::List(_) | Item::Table(_)) => {
                    ("is where text is expected", format!("write `{} = \"…\"`", path.name()))
                }
                _ => (
                    "is not text",
                    format!("put it in quotes: `{} = \"{}\"`", path.name(), item(node).shown()),
                ),
            };
            let message = format!("{} {what}", item(node).shown());
            return self.slip(node.place, &path.text, message, hint);
        };
        let problem = match kind {
            Kind::Span => span_problem(text),
            Kind::Word(words) => (!words.contains(&text)).then(|| unknown(text, words)),
            Kind::Name(naming) => match naming {
                Naming::Label => text.parse::<Label>().err(),
                Naming::Project => text.parse::<ProjectName>().err(),
                Naming::Node => text.parse::<NodeName>().err(),
            }
            .map(|e| (e.to_string(), "write it like `team-a`".to_owned())),
            _ => None,
        };
        if let Some((message, hint)) = problem {
            self.slip(node.place, &path.text, message, hint);
        }
    }

    fn number(&mut self, node: &Node, kind: &Kind, path: &Path) {
        let name = path.name();
        let whole = !matches!(kind, Kind::Real);
        let most = if matches!(kind, Kind::Count) { i64::from(u32::MAX) } else { i64::MAX };
        let (what, hint) = match item(node) {
            Item::Whole(n) if whole && n < 0 => ("is less than 0", "use 0 or more".to_owned()),
            Item::Whole(n) if whole && n > most => ("is too large", format!("at most {most}")),
            Item::Whole(_) => return,
            Item::Real(_) if !whole => return,
            Item::Real(r) => ("is not a whole number", format!("write `{name} = {}`", r.round())),
            Item::Huge(_) => ("is too large", format!("at most {most}")),
            Item::Text(t) if t.trim().parse::<f64>().is_ok() => {
                ("is text", format!("write it without quotes: `{name} = {}`", shown(t.trim())))
            }
            Item::Text(t) if t.trim().ends_with('%') => {
                ("is text", format!("write a number: 30% is `{name} = 0.3`"))
            }
            _ => {
                ("is not a number", format!("write `{name} = {}`", if whole { "8" } else { "0.5" }))
            }
        };
        self.slip(node.place, &path.text, format!("{} {what}", item(node).shown()), hint);
    }

    fn list(&mut self, node: &Node, each: &Kind, length: Option<usize>, path: &Path) {
        let name = path.name();
        let Item::List(items) = item(node) else {
            let hint = match (each, item(node)) {
                (Kind::Table(_) | Kind::Tagged(_), Item::Table(_)) => {
                    format!("a list of tables is written `[[{}]]`", path.text)
                }
                (Kind::Text | Kind::Name(_), Item::Text(t)) => {
                    format!("write `{name} = [\"{}\"]`", shown(t))
                }
                _ => format!("write `{name} = […]`"),
            };
            let message = format!("{} is no list", item(node).shown());
            return self.slip(path.at, &path.text, message, hint);
        };
        if length.is_some_and(|n| n != items.len()) {
            let message = format!("this has {} entries instead of 2", items.len());
            self.slip(node.place, &path.text, message, "write two numbers: `[1, 4]`");
        }
        for (i, item) in items.iter().enumerate() {
            self.value(item, each, &path.item(i, item));
        }
    }

    fn not_a_table(&mut self, node: &Node, path: &Path) {
        let message = format!("{} is where a table is expected", item(node).shown());
        let hint = match item(node) {
            Item::List(_) => format!("write `[{}]` with single brackets", path.text),
            _ => format!("write `{} = {{ … }}`", path.name()),
        };
        self.slip(path.at, &path.text, message, hint);
    }

    /// Checks the keys of a table and what they hold; `tag` is a key that is known besides.
    fn table(&mut self, node: &Node, table: &Table, path: &Path, tag: Option<&'static str>) {
        let Item::Table(entries) = item(node) else { return self.not_a_table(node, path) };
        for e in entries {
            if Some(e.0.text.as_str()) == tag {
                continue;
            }
            match table.keys.iter().find(|k| k.name == e.0.text) {
                Some(k) => self.value(&e.1, &k.kind, &path.key(e)),
                None => self.unknown_key(&e.0, table, path, tag),
            }
        }
        for k in table.keys.iter().filter(|k| k.needed && node.get(k.name).is_none()) {
            let message = format!("`{}` is missing in {}", k.name, table.what);
            self.absent(path.at, &path.dotted(k.name), message, format!("add {}", example(k)));
        }
    }

    fn unknown_key(
        &mut self,
        key: &tree::Key,
        table: &Table,
        path: &Path,
        tag: Option<&'static str>,
    ) {
        let known: Vec<&str> = tag.into_iter().chain(table.keys.iter().map(|k| k.name)).collect();
        let list = format!("known here: {}", known.join(", "));
        let hint = match (closest(&key.text, &known), home(&SCENARIO, &key.text, "")) {
            (Some(near), _) => format!("did you mean `{near}`? {list}"),
            (None, Some(home)) => format!("`{}` belongs {home}; {list}", shown(&key.text)),
            (None, None) => list,
        };
        let message = format!("unknown key `{}` in {}", shown(&key.text), table.what);
        self.slip(key.place, &path.dotted(&key.text), message, hint);
    }

    fn tagged(&mut self, node: &Node, tables: &[(&'static str, &Table)], path: &Path) {
        let Item::Table(_) = item(node) else { return self.not_a_table(node, path) };
        let kinds: Vec<&str> = tables.iter().map(|(k, _)| *k).collect();
        let Some(entry) = node.get("kind") else {
            let message = "`kind` is missing here".to_owned();
            let hint = format!("add `kind = \"{}\"`; {}", kinds[0], listed(&kinds));
            return self.absent(path.at, &path.dotted("kind"), message, hint);
        };
        self.text(&entry.1, &Kind::Text, &path.key(entry));
        let Item::Text(word) = item(&entry.1) else { return };
        match tables.iter().find(|(k, _)| *k == word) {
            Some((_, table)) => self.table(node, table, path, Some("kind")),
            None => {
                let (message, hint) = unknown(word, &kinds);
                self.slip(entry.1.place, &path.dotted("kind"), message, hint);
            }
        }
    }

    fn choice(&mut self, node: &Node, words: &[&str], table: &Table, path: &Path) {
        let name = path.name();
        match item(node) {
            Item::Text(word) if words.contains(&word) => {}
            Item::Text(word) => {
                let with = table.keys.iter().find(|k| k.name == word);
                let (message, hint) = match with {
                    Some(k) => (
                        format!("`{word}` needs a value"),
                        format!("write `{name} = {{ {} }}`", example(k).trim_matches('`')),
                    ),
                    None => {
                        let keys = table.keys.iter().map(|k| k.name);
                        let all: Vec<&str> = words.iter().copied().chain(keys).collect();
                        unknown(word, &all)
                    }
                };
                self.slip(node.place, &path.text, message, hint);
            }
            Item::Table(entries) => {
                if let [(one, _)] = entries
                    && words.contains(&one.text.as_str())
                {
                    let message = format!("`{}` takes no value", one.text);
                    let hint = format!("write `{name} = \"{}\"`", one.text);
                    return self.slip(one.place, &path.text, message, hint);
                }
                self.table(node, table, path, None);
                let known = |key: &tree::Key| table.keys.iter().any(|k| k.name == key.text);
                if entries.iter().filter(|e| known(&e.0)).count() != 1 {
                    let keys: Vec<&str> = table.keys.iter().map(|k| k.name).collect();
                    let message = format!("{} takes exactly one key", table.what);
                    self.absent(node.place, &path.text, message, listed(&keys));
                }
            }
            _ => {
                let keys = table.keys.iter().map(|k| k.name);
                let all: Vec<&str> = words.iter().copied().chain(keys).collect();
                let message = format!("{} is not {}", item(node).shown(), table.what);
                self.slip(node.place, &path.text, message, listed(&all));
            }
        }
    }

    fn figures(&mut self, node: &Node, path: &Path) {
        let Item::Table(entries) = item(node) else { return self.not_a_table(node, path) };
        for e in entries {
            let (inner, node) = (path.key(e), &e.1);
            match item(node) {
                Item::Table(_) => self.figures(node, &inner),
                number @ (Item::Whole(_) | Item::Real(_)) => {
                    let message = format!("{} is one number, not a range", number.shown());
                    let hint = format!("write `{} = [least, most]`", inner.name());
                    self.slip(node.place, &inner.text, message, hint);
                }
                _ => self.list(node, &Kind::Real, Some(2), &inner),
            }
        }
    }
}

/// Where a key is known that is not known where it stands.
fn home(table: &Table, key: &str, path: &str) -> Option<String> {
    if table.keys.iter().any(|k| k.name == key) {
        return Some(match path {
            "" => "at the top of the file, before the first table".into(),
            _ => format!("in `{path}`"),
        });
    }
    let joined = |k: &Key| match path {
        "" => k.name.to_owned(),
        _ => format!("{path}.{}", k.name),
    };
    table.keys.iter().find_map(|k| tables(&k.kind).iter().find_map(|t| home(t, key, &joined(k))))
}

/// The tables that a value may be or hold.
pub(super) fn tables(kind: &Kind) -> Vec<&'static Table> {
    match kind {
        Kind::Table(t) | Kind::Choice(_, t) => vec![t],
        Kind::Tagged(all) => all.iter().map(|(_, t)| *t).collect(),
        Kind::List(k) | Kind::Either(_, k) => tables(k),
        _ => Vec::new(),
    }
}

fn listed(words: &[&str]) -> String {
    format!("use one of {}", words.join(", "))
}

fn unknown(word: &str, known: &[&str]) -> (String, String) {
    let message = format!("`{}` is not known here", shown(word));
    let hint = match closest(word, known) {
        Some(near) => format!("did you mean \"{near}\"? {}", listed(known)),
        None => listed(known),
    };
    (message, hint)
}

/// How a key may be written.
fn example(key: &Key) -> String {
    let name = key.name;
    match &key.kind {
        Kind::Span | Kind::Start => format!("`{name} = \"24h\"`"),
        Kind::Count | Kind::Whole => format!("`{name} = 8`"),
        Kind::Real => format!("`{name} = 0.5`"),
        Kind::Truth => format!("`{name} = true`"),
        Kind::Word(words) => format!("`{name} = \"{}\"`", words[0]),
        Kind::Tagged(all) => format!("a table `[{name}]` with `kind = \"{}\"`", all[0].0),
        Kind::Table(t) if t.keys.iter().any(|k| k.needed) => {
            let inner = t.keys.iter().filter(|k| k.needed).map(example);
            let inner: Vec<String> = inner.map(|e| e.trim_matches('`').to_owned()).collect();
            format!("`{name} = {{ {} }}`", inner.join(", "))
        }
        Kind::Table(_) | Kind::Map(_) | Kind::Figures => format!("a table `[{name}]`"),
        Kind::Choice(_, t) => {
            let first = example(&t.keys[0]);
            format!("`{name} = {{ {} }}`", first.trim_matches('`'))
        }
        Kind::List(_) => format!("`{name} = […]`"),
        Kind::Pair(_) => format!("`{name} = [1, 4]`"),
        Kind::Either(first, _) => match first {
            Kind::Count => format!("`{name} = 8`"),
            _ => format!("`{name} = \"…\"`"),
        },
        Kind::Text | Kind::Name(_) => format!("`{name} = \"…\"`"),
    }
}
