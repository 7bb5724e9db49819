//! The rules of `docs/words.md`, and where they find something.

use super::Kind;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::ops::Range;

/// The tables of the page.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By the first word of the phrase.
    phrases: BTreeMap<String, Vec<Phrase>>,
    allowed: Vec<String>,
}

/// Words that may not follow each other.
#[derive(Debug, Clone)]
struct Phrase {
    words: Vec<String>,
    /// It is the beginning of the text, or its end.
    begins: bool,
    ends: bool,
    /// Names may not have it either.
    names: bool,
    write: String,
}

/// A banned word in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Where it begins, in bytes.
    pub(super) from: usize,
    pub(super) word: String,
    /// What to write in its place.
    pub(super) write: String,
}

impl Table {
    /// Reads the tables below the headings `Banned` and `Allowed`.
    pub(super) fn read(page: &str) -> Result<Table> {
        let (mut table, mut heading) = (Table::default(), "");
        for (n, line) in page.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                heading = title.trim();
            }
            let Some(row) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
                continue;
            };
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            if cells.iter().all(|c| c.starts_with("---")) {
                continue;
            }
            match heading {
                "Banned" if cells.first() != Some(&"do not write") => {
                    table.ban(&cells).with_context(|| format!("line {}", n + 1))?;
                }
                "Allowed" if cells.first() != Some(&"phrase") => {
                    let [phrase, why] = cells[..] else {
                        bail!("line {}: a row has a phrase and why it is allowed", n + 1);
                    };
                    ensure!(!why.is_empty(), "line {}: say why `{phrase}` is allowed", n + 1);
                    table.allowed.push(phrase.to_ascii_lowercase());
                }
                _ => {}
            }
        }
        ensure!(!table.phrases.is_empty(), "no rows below the heading `Banned`");
        Ok(table)
    }

    fn ban(&mut self, cells: &[&str]) -> Result<()> {
        let [phrases, write, names] = *cells else {
            bail!("a row has three cells: what not to write, what to write, `yes` or `no`");
        };
        let names = match names {
            "yes" => true,
            "no" => false,
            other => bail!("`{other}` is neither `yes` nor `no`"),
        };
        let given = words(write);
        for text in phrases.split(',').map(str::trim) {
            let words: Vec<String> = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '*')
                .filter(|w| !w.is_empty())
                .map(str::to_ascii_lowercase)
                .collect();
            let first = words.first().with_context(|| format!("`{text}` has no words"))?.clone();
            ensure!(first != "*", "`{text}` begins with any word: begin it with a certain one");
            let (begins, ends) = (text.starts_with('^'), text.ends_with('$'));
            let phrase = Phrase { words, begins, ends, names, write: write.to_owned() };
            // As after a search and replace in this page: the rule would forbid what it asks for.
            let own = (0..given.len()).any(|i| phrase.found(write, &given[i..]).is_some());
            ensure!(!own, "`{text}` is not to be written and is what to write");
            self.phrases.entry(first).or_default().push(phrase);
        }
        Ok(())
    }

    /// Everything banned in a text, in its order.
    pub(super) fn find(&self, text: &str, kind: Kind) -> Vec<Hit> {
        let words = words(text);
        let (mut hits, mut allowed) = (Vec::new(), None);
        for (i, (_, first)) in words.iter().enumerate() {
            for phrase in self.phrases.get(first).into_iter().flatten() {
                let Some(at) = phrase.found(text, &words[i..]) else { continue };
                let name = kind == Kind::Name || in_a_name(text, &at);
                if name && !phrase.names {
                    continue;
                }
                let allowed = allowed.get_or_insert_with(|| self.allowed_in(text));
                if allowed.iter().any(|a| a.start <= at.start && at.end <= a.end) {
                    continue;
                }
                let word = text[at.clone()].to_owned();
                hits.push(Hit { from: at.start, word, write: phrase.write.clone() });
            }
        }
        hits
    }

    fn allowed_in(&self, text: &str) -> Vec<Range<usize>> {
        let plain = text.to_ascii_lowercase().replace(['\n', '\t'], " ");
        let of = |phrase: &String| -> Vec<Range<usize>> {
            plain.match_indices(phrase.as_str()).map(|(at, m)| at..at + m.len()).collect()
        };
        self.allowed.iter().flat_map(of).collect()
    }
}

impl Phrase {
    /// Where it is, if the words begin with it.
    fn found(&self, text: &str, words: &[(Range<usize>, String)]) -> Option<Range<usize>> {
        let here = words.get(..self.words.len())?;
        let same = self.words.iter().zip(here).all(|(want, (_, word))| want == "*" || want == word);
        let joined = here.windows(2).all(|two| {
            text[two[0].0.end..two[1].0.start]
                .chars()
                .all(|c| c.is_whitespace() || "_*`>'’-".contains(c))
        });
        let at = here.first()?.0.start..here.last()?.0.end;
        let begins = !self.begins || text[..at.start].trim().is_empty();
        let ends = !self.ends || text[at.end..].trim().is_empty();
        (same && joined && begins && ends).then_some(at)
    }
}

/// The words of a text in lower case, with their places.
fn words(text: &str) -> Vec<(Range<usize>, String)> {
    let bytes = text.as_bytes();
    let (mut found, mut i) = (Vec::new(), 0);
    while i < bytes.len() {
        let from = i;
        while i < bytes.len() && bytes[i].is_ascii_alphanumeric() {
            i += 1;
        }
        if i > from {
            found.push((from..i, text[from..i].to_ascii_lowercase()));
        } else {
            i += 1;
        }
    }
    found
}

/// It stands in `code` without blanks, or is a part of an identifier with an underscore.
fn in_a_name(text: &str, at: &Range<usize>) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let from = text[..at.start].rfind(|c: char| !of_a_name(c));
    let from = from.map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
    let to = text[at.end..].find(|c: char| !of_a_name(c)).map_or(text.len(), |i| at.end + i);
    if text[from..to].contains('_') {
        return true;
    }
    let mut begin = 0;
    for (i, part) in text.split('`').enumerate() {
        let end = begin + part.len();
        if i % 2 == 1 && begin <= at.start && at.end <= end {
            return !part.contains(char::is_whitespace);
        }
        begin = end + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Words\n\n## Banned\n\n| do not write | write | names |\n| --- | --- | --- |\n\
| gadget, gadgets | device | yes |\n| told, of * busy | reported | no |\n\
| ^gone$ | ended | yes |\n| takes no new work | cordoned | no |\n\n\
## Allowed\n\n| phrase | why |\n| --- | --- |\n| I told you so | a proverb |\n";

    fn found(text: &str, kind: Kind) -> Vec<String> {
        let table = Table::read(PAGE).unwrap();
        table.find(text, kind).into_iter().map(|h| h.word).collect()
    }

    #[test]
    fn words_and_phrases_are_found_whole_across_lines_and_in_any_case() {
        assert_eq!(found("Gadgets were Told.", Kind::Text), ["Gadgets", "Told"]);
        assert_eq!(found("it takes\nno new work", Kind::Text), ["takes\nno new work"]);
        assert_eq!(found("it takes no. New work", Kind::Text), [""; 0]);
        assert_eq!(found("3 of 8 busy", Kind::Text), ["of 8 busy"]);
        assert_eq!(found("untold gadgetry", Kind::Text), [""; 0]);
        assert_eq!(found("gone", Kind::Text), ["gone"]);
        assert_eq!(found("logs are gone", Kind::Text), [""; 0]);
    }

    #[test]
    fn names_follow_their_own_rules_also_inside_a_text() {
        assert_eq!(found("gadget_right", Kind::Name), ["gadget"]);
        assert_eq!(found("counts_reported", Kind::Name), [""; 0]);
        assert_eq!(found("`told` and counts_reported are fields", Kind::Text), [""; 0]);
        assert_eq!(found("`told us` is a text", Kind::Text), ["told"]);
        assert_eq!(found("sum(muster_gadgets{})", Kind::Text), ["gadgets"]);
        assert_eq!(found("“counts_reported”", Kind::Text), [""; 0]);
    }

    #[test]
    fn what_is_allowed_is_no_finding_and_the_same_word_elsewhere_is() {
        assert_eq!(found("But I told\nyou so", Kind::Text), [""; 0]);
        let hits = Table::read(PAGE).unwrap().find("I told you so, and I told", Kind::Text);
        let expected = Hit { from: 21, word: "told".into(), write: "reported".into() };
        assert_eq!(hits, [expected]);
    }

    #[test]
    fn a_page_without_rules_or_with_a_broken_row_is_refused_with_its_line() {
        let why = |page: &str| format!("{:#}", Table::read(page).unwrap_err());
        assert!(why("# Words\n").contains("`Banned`"));
        let row = |row: &str| why(&format!("## Banned\n{row}\n"));
        assert!(row("| told | reported |").contains("line 2: a row has three cells"));
        assert!(row("| told | reported | maybe |").contains("`maybe` is neither"));
        assert!(row("| told, | reported | no |").contains("has no words"));
        assert!(row("| * told | reported | no |").contains("begins with any word"));
        assert!(row("| told | is told | no |").contains("is what to write"));
        assert!(why("## Allowed\n| told | |\n").contains("say why"));
    }
}
