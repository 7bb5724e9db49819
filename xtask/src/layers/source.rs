//! Code without its comments, strings and characters.

/// Comments, strings and characters become blanks; lines and columns stay.
pub(crate) fn blank_out(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let blank = |out: &mut String, from: usize, to: usize| {
        for c in &chars[from..to.min(chars.len())] {
            out.push(if *c == '\n' { '\n' } else { ' ' });
        }
    };
    while i < chars.len() {
        let end = match (chars[i], at(i + 1)) {
            ('/', '/') => Some((i..chars.len()).find(|j| chars[*j] == '\n').unwrap_or(chars.len())),
            ('/', '*') => Some(end_of_comment(&chars, i)),
            ('"', _) => Some(end_of_string(&chars, i + 1)),
            ('r', '"' | '#') if !follows_word(&chars, i) => end_of_raw_string(&chars, i + 1),
            ('b' | 'c', 'r') if !follows_word(&chars, i) => end_of_raw_string(&chars, i + 2),
            ('\'', '\\') => Some(
                (i + 3..chars.len()).find(|j| chars[*j] == '\'').map_or(chars.len(), |j| j + 1),
            ),
            // A character, not a lifetime.
            ('\'', _) if at(i + 2) == '\'' => Some(i + 3),
            _ => None,
        };
        match end {
            Some(end) => {
                blank(&mut out, i, end);
                i = end;
            }
            None => {
                out.push(chars[i]);
                i += 1;
            }
        }
    }
    out
}

fn follows_word(chars: &[char], i: usize) -> bool {
    i > 0 && is_word(chars[i - 1])
}

fn end_of_comment(chars: &[char], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                i += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut i = from;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `from` is just after the `r`; none when it is a raw identifier and no string.
fn end_of_raw_string(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    if chars.get(from + hashes) != Some(&'"') {
        return None;
    }
    let mut i = from + hashes + 1;
    while i < chars.len() {
        if chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
        {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_become_blanks() {
        let text = r##"
            // fn and HashMap
            /* fn /* fn */ println!() */
            /// fn
            let a = "fn \" fn";
            let b = r#"fn " fn"#;
            let c = ('"', '\'', '\u{22}');
            let d: &'static str = b"fn";
        "##;
        let code = blank_out(text);
        assert!(!code.contains("fn"), "{code}");
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(code.contains("let d: &'static str = b"), "{code}");
        assert_eq!(
            blank_out("let c = '\"'; go(); let d = '\"';"),
            "let c =    ; go(); let d =    ;"
        );
    }
}
