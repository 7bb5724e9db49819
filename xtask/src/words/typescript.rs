//! Texts in TypeScript and in its pages: strings, templates, and what stands between tags.

use super::{Kind, Piece};

/// Words after which a value begins, and not an operator.
const BEFORE_A_VALUE: &[&str] = &[
    "return", "typeof", "case", "in", "of", "else", "do", "void", "delete", "await", "yield",
    "default", "extends", "new", "throw",
];
/// Attributes whose strings nobody reads.
const NOT_SHOWN: &[&str] =
    &["className", "style", "id", "key", "type", "role", "htmlFor", "d", "viewBox", "to", "href"];

/// The texts of a source file.
pub(super) fn read(path: &str, text: &str) -> Vec<Piece> {
    let chars: Vec<char> = text.chars().collect();
    let lines = (0..chars.len()).filter(|i| chars[*i] == '\n').collect();
    let jsx = path.ends_with(".tsx");
    let last = String::new();
    let mut scan = Scan { chars, lines, at: 0, jsx, last, index: false, out: Vec::new() };
    scan.code(false);
    scan.out
}

struct Scan {
    chars: Vec<char>,
    /// Where lines end.
    lines: Vec<usize>,
    at: usize,
    jsx: bool,
    /// The last token: a word, a character, `0` for numbers or `"` for strings.
    last: String,
    /// The last bracket took something by its key.
    index: bool,
    out: Vec<Piece>,
}

impl Scan {
    /// A character ahead; NUL behind the end.
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn ended(&self) -> bool {
        self.at >= self.chars.len()
    }

    fn push(&mut self, at: usize, kind: Kind, text: &str) {
        let text = text.trim();
        if text.contains(char::is_alphabetic) {
            let line = self.lines.partition_point(|end| *end < at) + 1;
            self.out.push(Piece { line, kind, text: text.to_owned() });
        }
    }

    fn skip(&mut self, while_so: impl Fn(char) -> bool) {
        while !self.ended() && while_so(self.peek(0)) {
            self.at += 1;
        }
    }

    /// Behind the next place where these two characters are.
    fn skip_behind(&mut self, first: char, second: char) {
        while !self.ended() && (self.peek(0), self.peek(1)) != (first, second) {
            self.at += 1;
        }
        self.at += 2;
    }

    fn word(&mut self) -> String {
        let from = self.at;
        self.skip(|c| c.is_alphanumeric() || c == '_' || c == '$');
        self.chars[from..self.at].iter().collect()
    }

    /// The last token was a value, so that what follows is an operator.
    fn after_a_value(&self) -> bool {
        match self.last.chars().next() {
            Some(')' | ']' | '"' | '0') => true,
            Some(c) if c.is_alphanumeric() || c == '_' || c == '$' => {
                !BEFORE_A_VALUE.contains(&self.last.as_str())
            }
            _ => false,
        }
    }

    /// Reads on to the end, or behind the brace that closes one before.
    fn code(&mut self, inner: bool) {
        let mut depth = 0_usize;
        while !self.ended() {
            match (self.peek(0), self.peek(1)) {
                (c, _) if c.is_whitespace() => {
                    self.at += 1;
                    continue;
                }
                ('/', '/') => {
                    self.skip(|c| c != '\n');
                    continue;
                }
                ('/', '*') => {
                    self.at += 2;
                    self.skip_behind('*', '/');
                    continue;
                }
                ('"' | '\'', _) => self.string(),
                ('`', _) => self.template(),
                ('/', _) if !self.after_a_value() => self.regex(),
                ('<', next) if self.jsx && !self.after_a_value() && self.is_tag(next) => {
                    self.element();
                    ")".clone_into(&mut self.last);
                }
                (c, _) if c.is_ascii_digit() => {
                    self.skip(|c| c.is_alphanumeric() || c == '_' || c == '.');
                    "0".clone_into(&mut self.last);
                }
                (c, _) if c.is_alphabetic() || c == '_' || c == '$' => self.last = self.word(),
                (c, _) => {
                    if c == '{' {
                        depth += 1;
                    } else if c == '}' && depth == 0 && inner {
                        self.at += 1;
                        return;
                    } else if c == '}' {
                        depth = depth.saturating_sub(1);
                    } else if c == '[' {
                        self.index = self.after_a_value();
                    }
                    self.last = c.to_string();
                    self.at += 1;
                }
            }
        }
    }

    /// `<Name …`, `<Name>`, `<Name/>` or `<>`; not `<T,>` and not `a < b`.
    fn is_tag(&self, next: char) -> bool {
        if next == '>' {
            return true;
        }
        let name = (1..).take_while(|n| {
            let c = self.peek(*n);
            c.is_alphanumeric() || c == '_' || c == '.'
        });
        let behind = self.peek(name.count() + 1);
        next.is_alphabetic() && (behind.is_whitespace() || behind == '/' || behind == '>')
    }

    fn string(&mut self) {
        let (from, quote) = (self.at, self.peek(0));
        let mut text = String::new();
        self.at += 1;
        while !self.ended() && self.peek(0) != quote && self.peek(0) != '\n' {
            if self.peek(0) == '\\' {
                self.at += 1;
            }
            text.push(self.peek(0));
            self.at += 1;
        }
        self.at += 1;
        let key = self.last == "[" && self.index;
        if self.last != "from" && self.last != "import" {
            self.push(from, if key { Kind::Name } else { Kind::Text }, &text);
        }
        "\"".clone_into(&mut self.last);
    }

    fn template(&mut self) {
        let (from, mut text) = (self.at, String::new());
        self.at += 1;
        while !self.ended() && self.peek(0) != '`' {
            if (self.peek(0), self.peek(1)) == ('$', '{') {
                self.at += 2;
                text.push_str("{}");
                self.inner();
                continue;
            }
            if self.peek(0) == '\\' {
                self.at += 1;
            }
            text.push(self.peek(0));
            self.at += 1;
        }
        self.at += 1;
        self.push(from, Kind::Text, &text);
        "\"".clone_into(&mut self.last);
    }

    /// An expression in braces, from behind the first of them.
    fn inner(&mut self) {
        "{".clone_into(&mut self.last);
        self.code(true);
    }

    fn regex(&mut self) {
        self.at += 1;
        let mut class = false;
        while !self.ended() && self.peek(0) != '\n' {
            match self.peek(0) {
                '\\' => self.at += 1,
                '[' => class = true,
                ']' => class = false,
                '/' if !class => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.skip(char::is_alphabetic);
        "\"".clone_into(&mut self.last);
    }

    /// A tag with its attributes, and what stands between it and its end.
    fn element(&mut self) {
        self.at += 1;
        self.skip(|c| c.is_alphanumeric() || c == '_' || c == '.');
        loop {
            self.skip(char::is_whitespace);
            match (self.peek(0), self.peek(1)) {
                _ if self.ended() => return,
                ('/', '>') => {
                    self.at += 2;
                    return;
                }
                ('>', _) => {
                    self.at += 1;
                    break;
                }
                ('{', _) => {
                    self.at += 1;
                    self.inner();
                }
                (c, _) if c.is_alphabetic() => self.attribute(),
                _ => self.at += 1,
            }
        }
        self.children();
    }

    fn attribute(&mut self) {
        let from = self.at;
        self.skip(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '-');
        let name: String = self.chars[from..self.at].iter().collect();
        let shown = !NOT_SHOWN.contains(&name.as_str());
        self.skip(char::is_whitespace);
        if self.peek(0) != '=' {
            return;
        }
        self.at += 1;
        self.skip(char::is_whitespace);
        let (from, found) = (self.at, self.out.len());
        match self.peek(0) {
            quote @ ('"' | '\'') => {
                self.at += 1;
                self.skip(|c| c != quote);
                let end = self.at.min(self.chars.len());
                let text: String = self.chars[from + 1..end].iter().collect();
                self.at += 1;
                self.push(from, Kind::Text, &text);
            }
            '{' => {
                self.at += 1;
                self.inner();
            }
            _ => {}
        }
        // The texts of an identifier depend on nothing; those of a class are for the style.
        if !shown {
            self.out.truncate(found);
        }
    }

    fn children(&mut self) {
        let (mut from, mut text) = (self.at, String::new());
        while !self.ended() {
            match (self.peek(0), self.peek(1)) {
                ('<', next) => {
                    self.push(from, Kind::Text, &one_line(&text));
                    text.clear();
                    if next == '/' {
                        self.skip(|c| c != '>');
                        self.at += 1;
                        return;
                    }
                    self.element();
                    from = self.at;
                }
                ('{', _) => {
                    self.at += 1;
                    self.inner();
                    text.push_str("{}");
                }
                (c, _) => {
                    if text.is_empty() && c.is_whitespace() {
                        from = self.at + 1;
                    } else {
                        text.push(c);
                    }
                    self.at += 1;
                }
            }
        }
    }
}

/// A page shows several blanks as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        read(path, text).into_iter().map(|p| (p.line, p.text)).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        found("a.tsx", text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn strings_and_templates_are_read_and_imports_comments_and_patterns_are_not() {
        let text = r#"
            import { a } from './told';
            // 'comment' /* "and another" */
            const b = cond ? 'it\'s' : `of ${n.map((x) => `in ${x}`)} and`;
            const c = text.replace(/['"`/]/g, "x y") / 2;
            const d: Schemas['Gadget'] = list<string>('end');
        "#;
        assert_eq!(texts(text), ["it's", "in {}", "of {} and", "x y", "Gadget", "end"]);
        let kinds: Vec<Kind> = read("a.ts", text).iter().map(|p| p.kind).collect();
        assert_eq!(kinds.iter().filter(|k| **k == Kind::Name).count(), 1, "{kinds:?}");
    }

    #[test]
    fn what_stands_between_tags_is_a_text_with_its_line() {
        let text = "const a = (\n  <p className=\"told\" title=\"A title\">\n    Two\n    lines {n} of <b>bold</b>, end\n  </p>\n);";
        let expected = [(2, "A title"), (3, "Two lines {} of"), (4, "bold"), (4, ", end")];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found("a.tsx", text), expected);
    }

    #[test]
    fn texts_inside_expressions_of_tags_are_read_and_classes_are_not() {
        let text = "return <A key='k' className={on ? 'is on' : ''} {...rest}>{a && <B to='/x' note={`n ${1}`} />}{b < 3 ? 'few' : 'a lot'}</A>;";
        assert_eq!(texts(text), ["n {}", "few", "a lot"]);
    }

    #[test]
    fn what_has_no_end_is_read_without_one() {
        for text in ["'open", "`open ${", "<A b={", "<A b=\"", "<A>text", "/re", "/* open", "\\"] {
            let _ = found("a.tsx", text);
        }
    }
}
