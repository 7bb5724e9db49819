//! Splits a line into words as a shell would: quotes, backslashes, and a comment at the end.

/// A word and the column it starts at, in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWord {
    /// The word without its quotes.
    pub text: String,
    /// Where it starts.
    pub column: u32,
}

/// A quote that is never closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quote is never closed")]
pub struct OpenQuote {
    /// Where it was opened.
    pub column: u32,
}

/// Splits `line`, whose first character stands at `column`.
///
/// # Errors
/// When a quote is never closed.
pub fn split(line: &str, mut column: u32) -> Result<Vec<ShellWord>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<ShellWord> = None;
    let mut quote: Option<(char, u32)> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let at = column;
        column = column.saturating_add(1);
        match quote {
            Some((q, _)) if c == q => quote = None,
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '#' && word.is_none() => break,
            _ => {
                let w = word.get_or_insert_with(|| ShellWord { text: String::new(), column: at });
                match (quote, c) {
                    (None, '\'' | '"') => quote = Some((c, at)),
                    (None, '\\') => {
                        w.text.extend(chars.next());
                        column = column.saturating_add(1);
                    }
                    // Inside double quotes a backslash only hides what would end or change them.
                    (Some(('"', _)), '\\')
                        if matches!(chars.peek(), Some('"' | '\\' | '$' | '`')) =>
                    {
                        w.text.extend(chars.next());
                        column = column.saturating_add(1);
                    }
                    _ => w.text.push(c),
                }
            }
        }
    }
    match quote {
        Some((_, column)) => Err(OpenQuote { column }),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<String> {
        split(line, 1).unwrap().into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn words_split_as_in_a_shell() {
        assert_eq!(
            texts("--name 'my job' --env A=\"b c\""),
            ["--name", "my job", "--env", "A=b c"]
        );
        assert_eq!(texts(r#"a\ b "x\"y" 'c\d' """#), ["a b", "x\"y", r"c\d", ""]);
        assert_eq!(texts("--time 1h # an hour"), ["--time", "1h"]);
        assert_eq!(texts("a#b"), ["a#b"]);
        assert_eq!(split("  x 'y", 10), Err(OpenQuote { column: 14 }));
        assert_eq!(split("  x", 10).unwrap()[0].column, 12);
    }

    proptest! {
        #[test]
        fn no_line_panics(s in "\\PC{0,60}") {
            let _ = split(&s, 1);
        }
    }
}
