//! The tokens of Rust, as far as texts need them.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Word,
    Number,
    /// The value of a string.
    Str,
    /// A line of a doc comment.
    Doc,
    /// One character of another kind.
    Mark,
}

#[derive(Debug)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) what: What,
    pub(super) text: String,
}

impl Token {
    pub(super) fn is(&self, mark: char) -> bool {
        self.what == What::Mark && self.text.starts_with(mark)
    }
}

/// Characters and comments are left out.
pub(super) fn lex(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, line: 1, out: Vec::new() };
    while lexer.at < lexer.chars.len() {
        lexer.token();
    }
    lexer.out
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<Token>,
}

impl Lexer {
    /// A character ahead; NUL behind the end.
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn push(&mut self, line: usize, what: What, text: String) {
        self.out.push(Token { line, what, text });
    }

    /// One character further, counting lines.
    fn step(&mut self) {
        if self.peek(0) == '\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.comment(),
            ('/', '*') => self.block(),
            ('"', _) => self.string(),
            ('b' | 'c', '"') => {
                self.at += 1;
                self.string();
            }
            ('b' | 'c', 'r') if self.hashes(2).is_some() => self.raw(2),
            ('r', '"' | '#') if self.hashes(1).is_some() => self.raw(1),
            ('r', '#') if is_word(self.peek(2)) => {
                self.at += 2;
                self.word();
            }
            ('\'', _) => self.character(),
            (c, _) if is_word(c) => self.word(),
            (c, _) if c.is_whitespace() => self.step(),
            (c, _) => {
                self.push(self.line, What::Mark, c.to_string());
                self.at += 1;
            }
        }
    }

    fn word(&mut self) {
        let from = self.at;
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        let text: String = self.chars[from..self.at].iter().collect();
        let number = text.starts_with(|c: char| c.is_ascii_digit());
        self.push(self.line, if number { What::Number } else { What::Word }, text);
    }

    fn comment(&mut self) {
        let from = self.at;
        while self.at < self.chars.len() && self.peek(0) != '\n' {
            self.at += 1;
        }
        let text: String = self.chars[from..self.at].iter().collect();
        if let Some(doc) = text.strip_prefix("///").filter(|doc| !doc.starts_with('/')) {
            self.push(self.line, What::Doc, doc.trim().to_owned());
        }
    }

    fn block(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.chars.len() {
            let two = (self.peek(0), self.peek(1));
            if two == ('/', '*') {
                depth += 1;
                self.at += 1;
            } else if two == ('*', '/') {
                depth = depth.saturating_sub(1);
                self.at += 1;
            }
            self.step();
            if depth == 0 {
                return;
            }
        }
    }

    /// How many `#` there are before the quote of a raw string; none when it is no raw string.
    fn hashes(&self, from: usize) -> Option<usize> {
        let count = (0_usize..).take_while(|n| self.peek(from + n) == '#').count();
        (self.peek(from + count) == '"').then_some(count)
    }

    fn raw(&mut self, prefix: usize) {
        let hashes = self.hashes(prefix).unwrap_or(0);
        self.at += prefix + hashes + 1;
        let (line, mut text) = (self.line, String::new());
        while self.at < self.chars.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|n| self.peek(n) == '#') {
                break;
            }
            text.push(self.peek(0));
            self.step();
        }
        self.at += hashes + 1;
        self.push(line, What::Str, text);
    }

    fn string(&mut self) {
        self.at += 1;
        let (line, mut text) = (self.line, String::new());
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) != '\\' {
                text.push(self.peek(0));
                self.step();
                continue;
            }
            self.at += 1;
            match self.peek(0) {
                '\n' => {
                    while self.peek(0).is_whitespace() {
                        self.step();
                    }
                    continue;
                }
                // One text of one line for who reads the list.
                'n' | 't' | 'r' => text.push(' '),
                'x' => self.at += 2,
                'u' => {
                    while self.at < self.chars.len() && !['}', '"'].contains(&self.peek(0)) {
                        self.at += 1;
                    }
                }
                c => text.push(c),
            }
            self.step();
        }
        self.at += 1;
        self.push(line, What::Str, text);
    }

    /// A character, or the mark of a lifetime.
    fn character(&mut self) {
        if self.peek(1) == '\\' {
            self.at += 3;
            while self.at < self.chars.len() && self.peek(0) != '\'' {
                self.at += 1;
            }
            self.at += 1;
        } else if self.peek(2) == '\'' {
            self.at += 1;
            self.step();
            self.at += 1;
        } else {
            self.at += 1;
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
