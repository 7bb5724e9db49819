//! Verbs that take several names. All names are looked up before anything is done, so that a wrong
//! one changes nothing. One that is refused later does not keep the others from being done.

use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use serde::Serialize;

/// What was refused so far. Among several each is said when it comes, in the order of the names; the
/// first is how the command ends.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// What the names are of.
    what: &'static str,
    several: bool,
    first: Option<Fail>,
}

impl Refusals {
    /// For a command with so many names.
    pub(crate) fn of(what: &'static str, names: usize) -> Refusals {
        Refusals { what, several: names > 1, first: None }
    }

    /// Takes one. Among several it says whose it is.
    pub(crate) fn add(&mut self, given: &str, fail: impl Into<Fail>) {
        let mut fail = fail.into();
        if self.several {
            if !fail.message.contains(given) {
                fail.message = format!("{} {given}: {}", self.what, fail.message);
            }
            eprint!("{}", fail.render(output::is_terminal_err()));
        }
        self.first.get_or_insert(fail);
    }

    /// Prints how things are that were done, as one document. People were notified of each when it
    /// was done.
    pub(crate) fn show<T: Serialize>(&self, ctx: &Ctx, done: Vec<T>) -> Result<(), Fail> {
        match self.document(done).filter(|_| !ctx.is_table()) {
            Some(document) => ctx.show(&document, |_| String::new()),
            None => Ok(()),
        }
    }

    /// How many were named decides its shape, not how many of them were done.
    fn document<T>(&self, mut done: Vec<T>) -> Option<Document<T>> {
        if self.several {
            return Some(Document::Several { items: done, cursor: () });
        }
        done.pop().map(Document::One)
    }

    /// How the command ends: as the first that was refused, or with this code.
    pub(crate) fn end(self, code: u8) -> Result<u8, Fail> {
        match self.first {
            Some(said) if self.several => Ok(said.code),
            Some(fail) => Err(fail),
            None => Ok(code),
        }
    }
}

/// Where one was named it stands alone; several are a list like any other, which has no further page.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Document<T> {
    One(T),
    Several { items: Vec<T>, cursor: () },
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_terminal::fail::REFUSED;

    #[test]
    fn the_first_refusal_is_how_a_command_ends_and_it_names_what_it_is_about() {
        let mut all = Refusals::of("job", 3);
        all.add("7", Fail::new(REFUSED, "only a waiting job can be held"));
        all.add("8", Fail::failed("job 8 is odd"));
        let first = all.first.as_ref().map(|f| f.message.as_str());
        assert_eq!(first, Some("job 7: only a waiting job can be held"));
        // Both were said already, in their order.
        assert_eq!(all.end(0).ok(), Some(REFUSED));
        // Alone there is no doubt.
        let mut one = Refusals::of("job", 1);
        one.add("7", Fail::failed("no"));
        assert_eq!(one.end(0).expect_err("refused").message, "no");
        assert_eq!(Refusals::of("job", 2).end(1).ok(), Some(1));
    }

    #[test]
    fn several_are_one_document_and_one_stands_alone() {
        let written = |names: usize, done: &[u32]| {
            let document = Refusals::of("alert", names).document(done.to_vec());
            document.map(|d| serde_json::to_string(&d).expect("JSON"))
        };
        assert_eq!(written(1, &[7]).as_deref(), Some("7"));
        assert_eq!(written(1, &[]), None, "it was refused, and that was said");
        let list = |items: &str| Some(format!("{{\"items\":[{items}],\"cursor\":null}}"));
        assert_eq!(written(2, &[7, 8]), list("7,8"));
        assert_eq!(written(2, &[8]), list("8"), "one of them was refused");
        assert_eq!(written(2, &[]), list(""));
    }
}
