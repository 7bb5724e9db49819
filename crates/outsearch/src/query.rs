//! What people type, as an expression of SQLite's full-text search. Nothing that is typed is an
//! operator there: every word is a quoted string.

/// Most characters of a query.
pub const MAX_QUERY: usize = 200;
/// Most words of a query, with those of its phrases.
pub const MAX_WORDS: usize = 16;

/// Why a query cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Nothing that could be found.
    #[error("the query has no word: only letters and digits are searched for")]
    Empty,
    /// Too many characters.
    #[error("the query has more than {MAX_QUERY} characters")]
    TooLong,
    /// Too many words.
    #[error("the query has more than {MAX_WORDS} words, those of phrases counted")]
    TooManyWords,
    /// A quote without its end.
    #[error("the query has a quotation mark without its counterpart")]
    OpenQuote,
}

/// Words and phrases that a line must have, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Without quotation marks and control characters; each with a letter or digit.
    terms: Vec<String>,
}

impl Query {
    /// Reads `word "a phrase" word`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        if text.chars().count() > MAX_QUERY {
            return Err(QueryError::TooLong);
        }
        let mut terms = Vec::new();
        for (n, part) in text.split('"').enumerate() {
            // Between the first and the second mark, the third and the fourth, and so on.
            if n % 2 == 1 {
                terms.push(clean(part));
            } else {
                terms.extend(part.split_whitespace().map(clean));
            }
        }
        if text.matches('"').count() % 2 == 1 {
            return Err(QueryError::OpenQuote);
        }
        // What is neither letter nor digit only separates words: alone it is nothing.
        terms.retain(|t| t.contains(char::is_alphanumeric));
        // Each of them is looked up: `a-b-c` costs as much as `a b c`.
        let words: usize = terms.iter().map(|t| count_words(t)).sum();
        match words {
            0 => Err(QueryError::Empty),
            n if n > MAX_WORDS => Err(QueryError::TooManyWords),
            _ => Ok(Query { terms }),
        }
    }

    /// The expression for the full-text table, of one job's lines or of all.
    pub(crate) fn expression(&self, job: Option<u64>) -> String {
        let quoted: Vec<String> = self.terms.iter().map(|t| format!("\"{t}\"")).collect();
        let text = format!("text : ({})", quoted.join(" AND "));
        match job {
            Some(job) => format!("job : \"{job}\" AND {text}"),
            None => text,
        }
    }
}

fn count_words(term: &str) -> usize {
    term.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count()
}

/// A text that ends at a zero byte would end inside its quotes.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> String {
        Query::parse(text).unwrap().expression(None)
    }

    #[test]
    fn words_and_phrases_are_joined_by_and() {
        assert_eq!(expression("NCCL WARN"), "text : (\"NCCL\" AND \"WARN\")");
        assert_eq!(expression("\"NCCL WARN\" hgx-01"), "text : (\"NCCL WARN\" AND \"hgx-01\")");
        assert_eq!(expression("loss = 3"), "text : (\"loss\" AND \"3\")");
        let one = Query::parse("x").unwrap().expression(Some(42));
        assert_eq!(one, "job : \"42\" AND text : (\"x\")");
    }

    #[test]
    fn nothing_that_is_typed_is_an_operator() {
        assert_eq!(expression("a OR b*"), "text : (\"a\" AND \"OR\" AND \"b*\")");
        assert_eq!(expression("job:1) NEAR(a"), "text : (\"job:1)\" AND \"NEAR(a\")");
        assert_eq!(expression("a\0b"), "text : (\"a b\")");
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused() {
        for (text, why) in [
            ("", QueryError::Empty),
            (" \t", QueryError::Empty),
            ("\"\" -- ***", QueryError::Empty),
            ("\"open", QueryError::OpenQuote),
            ("a \"b\" \"c", QueryError::OpenQuote),
        ] {
            assert_eq!(Query::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(Query::parse(&"x".repeat(MAX_QUERY + 1)), Err(QueryError::TooLong));
        let (most, more) = ("x-".repeat(MAX_WORDS), "x-".repeat(MAX_WORDS + 1));
        for text in [&more, &more.replace('-', " "), &format!("\"{most}\" x")] {
            assert_eq!(Query::parse(text), Err(QueryError::TooManyWords), "{text:?}");
        }
        for text in [&most, &most.replace('-', " "), &format!("\"{most}\"")] {
            assert!(Query::parse(text).is_ok(), "{text:?}");
        }
    }
}
