//! Writing the page of a run.

use muster_terminal::fail::Fail;
use std::path::Path;

/// Whether a page can be written there, before hours of work depend on it.
pub fn can_write(file: Option<&Path>) -> Result<(), Fail> {
    let Some(file) = file else { return Ok(()) };
    if file.is_dir() {
        return Err(Fail::usage(format!("{} is a directory", file.display())));
    }
    match file.parent().filter(|d| !d.as_os_str().is_empty() && !d.is_dir()) {
        Some(dir) => Err(Fail::usage(format!("there is no directory {}", dir.display()))),
        None => Ok(()),
    }
}

/// Writes the page.
pub fn write(file: &Path, page: &str) -> Result<(), Fail> {
    std::fs::write(file, page)
        .map_err(|e| Fail::failed(format!("cannot write {}: {e}", file.display())))?;
    muster_terminal::output::note(&format!("wrote {}", file.display()));
    Ok(())
}

/// What was typed, so that the page shows how it is made again.
pub fn command() -> String {
    let rest = std::env::args_os().skip(1).map(|a| quoted(&a.to_string_lossy()));
    std::iter::once("muster".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("fleet.spares=0..32/8"), "fleet.spares=0..32/8");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_page_that_cannot_be_written_is_reported_at_once() {
        assert!(can_write(None).is_ok());
        assert!(can_write(Some(Path::new("page.html"))).is_ok());
        assert!(can_write(Some(Path::new("/no/such/place/page.html"))).is_err());
        assert!(can_write(Some(Path::new("/"))).is_err());
    }
}
