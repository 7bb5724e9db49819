//! Documents, data and pages without a program in them.

use super::{Piece, rust};
use std::collections::BTreeSet;

/// A paragraph, a row of a table, an item of a list or a line of an example each. Paths of source
/// files and the names of tests in them are left out: they are no text of ours for people.
pub(super) fn markdown(_: &str, text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    // Whether the next line goes on with the piece before it.
    let (mut open, mut fence) = (false, false);
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            (open, fence) = (false, !fence);
        } else if line.is_empty() {
            open = false;
        } else if fence {
            pieces.push(Piece::text(n + 1, line));
        } else {
            let whole = line.starts_with(['#', '|']);
            match pieces.last_mut() {
                Some(piece) if open && !whole && !begins_an_item(line) => {
                    piece.text.push('\n');
                    piece.text.push_str(line);
                }
                _ => pieces.push(Piece::text(n + 1, line)),
            }
            open = !whole;
        }
    }
    for piece in &mut pieces {
        piece.text = without_sources(&piece.text);
    }
    pieces
}

fn begins_an_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with('>')
        || (numbered.len() < line.len() && numbered.starts_with(". "))
}

/// `code` that names a source file becomes dots; lines stay.
fn without_sources(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(i, part)| {
        if i % 2 == 0 || !part.contains(".rs") {
            return part.to_owned();
        }
        part.chars().map(|c| if c == '\n' { c } else { '.' }).collect()
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Comments and values alike, a line each.
pub(super) fn lines(_: &str, text: &str) -> Vec<Piece> {
    let lines = text.lines().enumerate().map(|(n, line)| Piece::text(n + 1, line.trim()));
    lines.filter(|p| !p.text.is_empty()).collect()
}

/// What stands between tags.
pub(super) fn html(_: &str, text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for part in line.split('<') {
            let shown = part.split_once('>').map_or(part, |(_, shown)| shown).trim();
            if !shown.is_empty() {
                pieces.push(Piece::text(n + 1, shown));
            }
        }
    }
    pieces
}

/// Keys and values of the description of the API, each once: its texts are the comments of its
/// types, its names are what clients read and write.
pub(super) fn openapi(_: &str, text: &str) -> Vec<Piece> {
    let (mut pieces, mut seen) = (Vec::new(), BTreeSet::new());
    for (n, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(string) = next_string(&mut rest) {
            if string.starts_with("#/") || !seen.insert(string.clone()) {
                continue;
            }
            let of_a_name = |c: char| c.is_ascii_alphanumeric() || "_/{}.-".contains(c);
            pieces.push(if string.chars().all(of_a_name) {
                Piece::name(n + 1, rust::snake(&string))
            } else {
                Piece::text(n + 1, string.split_whitespace().collect::<Vec<_>>().join(" "))
            });
        }
    }
    pieces
}

/// The next JSON string of a line, and what follows it.
fn next_string(rest: &mut &str) -> Option<String> {
    let line = *rest;
    let from = line.find('"')?;
    let mut escaped = false;
    let end = line[from + 1..].find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    let (string, after) = line[from..].split_at(end + 2);
    *rest = after;
    serde_json::from_str(string).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pieces: &[Piece]) -> Vec<(usize, &str)> {
        pieces.iter().map(|p| (p.line, p.text.as_str())).collect()
    }

    #[test]
    fn a_document_is_read_by_paragraphs_rows_items_and_lines_of_examples() {
        let text = "# Title\nOne\ntwo.\n\n| a | b |\n| c | d |\n- item\n  goes on\n1. first\n```\nmuster ps\n\n```\nEnd";
        let expected = [
            (1, "# Title"),
            (2, "One\ntwo."),
            (5, "| a | b |"),
            (6, "| c | d |"),
            (7, "- item\ngoes on"),
            (9, "1. first"),
            (11, "muster ps"),
            (14, "End"),
        ];
        assert_eq!(texts(&markdown("a.md", text)), expected);
    }

    #[test]
    fn names_of_source_files_and_of_their_tests_are_left_out() {
        let text = "`slo/a.rs: it is told` and `told`";
        assert_eq!(without_sources(text), "`....................` and `told`");
    }

    #[test]
    fn tags_are_no_text() {
        let text = "<p class=\"told\">One <b>two</b></p>";
        assert_eq!(texts(&html("a.html", text)), [(1, "One"), (1, "two")]);
    }

    #[test]
    fn the_description_of_the_api_gives_texts_and_names_once() {
        let text = "{\n\"JobState\": \"Its \\\"state\\\".\\nNow.\",\n\"$ref\": \"#/a\", \"JobState\": 1\n}";
        let found = openapi("a.json", text);
        assert_eq!(found[0], Piece::name(2, "job_state"));
        assert_eq!(found[1], Piece::text(2, "Its \"state\". Now."));
        assert_eq!(found[2], Piece::text(3, "$ref"));
        assert_eq!(found.len(), 3);
    }
}
