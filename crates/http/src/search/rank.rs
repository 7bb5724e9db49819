//! How well a text matches what is searched for, and which of many matches are shown.

/// How well a text matches. Ordered: an earlier one is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchQuality {
    /// It is the text.
    Exact,
    /// The text begins with it.
    Prefix,
    /// A word of the text begins with it.
    Word,
    /// It is somewhere in the text, or its words are.
    Within,
    /// It is the same number, written with zeros before it.
    Number,
}

const FITS: usize = 5;

/// What is searched for. Capital letters and small ones are the same.
#[derive(Debug, Clone)]
pub(crate) struct SearchTerms {
    text: String,
    words: Vec<String>,
}

impl SearchTerms {
    pub(crate) fn new(text: &str) -> SearchTerms {
        let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        SearchTerms { text: words.join(" "), words }
    }

    /// What is searched for, with single spaces.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How well the best of these texts, which all belong to one thing, matches. Of several words
    /// each may be in another text.
    pub(crate) fn fit(&self, texts: &[&str]) -> Option<MatchQuality> {
        let best = texts.iter().filter_map(|t| fit_text(t, &self.text)).min();
        if best.is_some() || self.words.len() < 2 {
            return best;
        }
        let found = |word: &String| texts.iter().any(|t| fit_text(t, word).is_some());
        self.words.iter().all(found).then_some(MatchQuality::Within)
    }
}

fn fit_text(text: &str, wanted: &str) -> Option<MatchQuality> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    if wanted.is_empty() || wanted.len() > text.len() {
        return None;
    }
    if text.eq_ignore_ascii_case(wanted) {
        return Some(MatchQuality::Exact);
    }
    let mut found = None;
    for (at, piece) in text.windows(wanted.len()).enumerate() {
        if !piece.eq_ignore_ascii_case(wanted) {
            continue;
        }
        match at.checked_sub(1).map(|before| text[before]) {
            None => return Some(MatchQuality::Prefix),
            // A byte that is not ASCII is part of a letter.
            Some(b) if b.is_ascii() && !b.is_ascii_alphanumeric() => {
                return Some(MatchQuality::Word);
            }
            Some(_) => found = Some(MatchQuality::Within),
        }
    }
    found
}

/// The matches of one kind of thing: at most so many of each fit, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Best<T> {
    most: usize,
    by_fit: [Vec<T>; FITS],
    left_out: bool,
}

impl<T> Best<T> {
    pub(crate) fn new(most: usize) -> Best<T> {
        Best { most, by_fit: std::array::from_fn(|_| Vec::new()), left_out: false }
    }

    /// Takes one more; what it looks like is only made up when there is a place for it.
    pub(crate) fn offer(&mut self, fit: Option<MatchQuality>, hit: impl FnOnce() -> T) {
        let Some(fit) = fit else { return };
        let same = &mut self.by_fit[fit as usize];
        if same.len() < self.most {
            same.push(hit());
        } else {
            self.left_out = true;
        }
    }
}

/// The best of all kinds, and whether there are more. Of matches that are equally good the kinds take
/// turns, so that one of which there are many does not hide the others.
pub(crate) fn merge<T>(kinds: Vec<Best<T>>, most: usize) -> (Vec<T>, bool) {
    let mut left_out = kinds.iter().any(|k| k.left_out);
    let mut rest: Vec<_> = kinds.into_iter().map(|k| k.by_fit.map(Vec::into_iter)).collect();
    let mut out = Vec::new();
    for fit in 0..FITS {
        loop {
            let before = out.len();
            out.extend(rest.iter_mut().filter_map(|kind| kind[fit].next()));
            if out.len() == before || before >= most {
                break;
            }
        }
    }
    left_out |= out.len() > most;
    out.truncate(most);
    (out, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_match_goes_before_a_beginning_a_word_and_a_part() {
        let fit = |text: &str, wanted: &str| SearchTerms::new(wanted).fit(&[text]);
        assert_eq!(fit("hgx-0042", "HGX-0042"), Some(MatchQuality::Exact));
        assert_eq!(fit("hgx-0042", "hgx"), Some(MatchQuality::Prefix));
        assert_eq!(fit("hgx-0042", "0042"), Some(MatchQuality::Word));
        assert_eq!(fit("hgx-0042", "42"), Some(MatchQuality::Within));
        assert_eq!(fit("xhgx-hgx", "hgx"), Some(MatchQuality::Word), "the best place counts");
        assert_eq!(fit("hgx-0042", "hgx-00423"), None);
        assert_eq!(fit("hgx-0042", ""), None);
        assert_eq!(fit("", "x"), None);
        assert_eq!(fit("größe", "e"), Some(MatchQuality::Within), "half a letter begins no word");
        assert!(
            MatchQuality::Exact < MatchQuality::Prefix
                && MatchQuality::Prefix < MatchQuality::Word
                && MatchQuality::Word < MatchQuality::Within
        );
    }

    #[test]
    fn several_words_may_be_in_several_texts() {
        let wanted = SearchTerms::new("  gpu   bus ");
        assert_eq!(wanted.text(), "gpu bus");
        assert_eq!(wanted.fit(&["gpu-off-bus", "n1"]), Some(MatchQuality::Within));
        assert_eq!(wanted.fit(&["gpu-hot", "the bus"]), Some(MatchQuality::Within));
        assert_eq!(wanted.fit(&["gpu-hot", "n1"]), None);
        assert_eq!(wanted.fit(&["GPU bus", "n1"]), Some(MatchQuality::Exact));
    }

    fn best(of: &[(MatchQuality, &'static str)], most: usize) -> Best<&'static str> {
        let mut best = Best::new(most);
        for (fit, text) in of {
            best.offer(Some(*fit), || *text);
        }
        best.offer(None, || panic!("nobody looks at what does not match"));
        best
    }

    #[test]
    fn the_best_come_first_and_kinds_take_turns() {
        let jobs = best(
            &[
                (MatchQuality::Prefix, "j1"),
                (MatchQuality::Prefix, "j2"),
                (MatchQuality::Within, "j3"),
            ],
            9,
        );
        let nodes = best(
            &[
                (MatchQuality::Word, "n1"),
                (MatchQuality::Exact, "n2"),
                (MatchQuality::Prefix, "n3"),
            ],
            9,
        );
        let (shown, more) = merge(vec![jobs, nodes], 9);
        assert_eq!((shown, more), (vec!["n2", "j1", "n3", "j2", "n1", "j3"], false));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let three =
            [(MatchQuality::Word, "a"), (MatchQuality::Word, "b"), (MatchQuality::Word, "c")];
        assert_eq!(merge(vec![best(&three, 2)], 2), (vec!["a", "b"], true));
        assert_eq!(merge(vec![best(&three, 3)], 3), (vec!["a", "b", "c"], false));
        let two = vec![best(&three[..1], 1), best(&three[1..2], 1)];
        assert_eq!(merge(two, 1), (vec!["a"], true));
    }
}
