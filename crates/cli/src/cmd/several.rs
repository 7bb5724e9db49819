//! Verbs that take several names. All names are looked up before anything is done, so that a wrong
//! one changes nothing. One that is refused later does not keep the others from being done.

use muster_terminal::fail::Fail;
use muster_terminal::output;

/// What was refused so far. The first refusal is how the command ends; the others are said as
/// they come.
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
        if self.several && !fail.message.contains(given) {
            fail.message = format!("{} {given}: {}", self.what, fail.message);
        }
        if self.first.is_none() {
            self.first = Some(fail);
        } else {
            eprint!("{}", fail.render(output::is_terminal_err()));
        }
    }

    /// Whether nothing was refused.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How the command ends: as the first that was refused, or with this code.
    pub(crate) fn end(self, code: u8) -> Result<u8, Fail> {
        self.first.map_or(Ok(code), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_terminal::fail::REFUSED;

    #[test]
    fn the_first_refusal_is_how_a_command_ends_and_it_names_what_it_is_about() {
        let mut all = Refusals::of("job", 3);
        assert!(all.is_empty());
        all.add("7", Fail::new(REFUSED, "only a waiting job can be held"));
        all.add("8", Fail::failed("job 8 is odd"));
        assert!(!all.is_empty());
        let e = all.end(0).expect_err("refused");
        assert_eq!(
            (e.code, e.message.as_str()),
            (REFUSED, "job 7: only a waiting job can be held")
        );
        // Alone there is no doubt.
        let mut one = Refusals::of("job", 1);
        one.add("7", Fail::failed("no"));
        assert_eq!(one.end(0).expect_err("refused").message, "no");
        assert_eq!(Refusals::of("job", 2).end(1).ok(), Some(1));
    }
}
