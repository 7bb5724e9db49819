//! Where a store is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a store. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file: `sqlite:PATH`.
    Sqlite(PathBuf),
    /// A database: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require`.
    Postgres(String),
}

/// Why a text is not a store's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a store: {why}; write sqlite:PATH or postgres://USER@HOST/DATABASE")]
pub struct StoreUrlError {
    given: String,
    why: String,
}

impl StoreUrl {
    /// The store that a data directory holds when no other is named.
    #[must_use]
    pub fn in_data_dir(data_dir: &std::path::Path) -> StoreUrl {
        StoreUrl::Sqlite(data_dir.join("muster.db"))
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;
    fn from_str(s: &str) -> Result<Self, StoreUrlError> {
        let bad = |why: &str| StoreUrlError { given: redact(s), why: why.to_owned() };
        if let Some(path) = s.strip_prefix("sqlite:") {
            // `sqlite:///var/x` is how many tools write it.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(bad("the path is missing"));
            }
            if path == ":memory:" {
                return Err(bad("a store in memory would lose everything"));
            }
            if path.ends_with('/') {
                return Err(bad("the path names a directory, not a file"));
            }
            return Ok(StoreUrl::Sqlite(PathBuf::from(path)));
        }
        if s.starts_with("postgres://") || s.starts_with("postgresql://") {
            crate::settings::parse(s).map_err(|why| bad(&why))?;
            return Ok(StoreUrl::Postgres(s.to_owned()));
        }
        if s.trim().is_empty() {
            return Err(bad("it is empty"));
        }
        match s.split_once(':') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                Err(bad(&format!("the kind `{scheme}` is not known")))
            }
            _ => Err(bad("the kind is missing")),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Postgres(text) => f.write_str(&redact(text)),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// Hides passwords, in the authority and among the parameters.
fn redact(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let mut out = format!("{scheme}://");
    let rest = match rest.rsplit_once('@') {
        Some((userinfo, rest)) => {
            match userinfo.split_once(':') {
                Some((user, _)) => out.push_str(&format!("{user}:***@")),
                None => out.push_str(&format!("{userinfo}@")),
            }
            rest
        }
        None => rest,
    };
    match rest.split_once('?') {
        Some((path, query)) => {
            let shown: Vec<String> = query
                .split('&')
                .map(|pair| match pair.split_once('=') {
                    Some((key, _)) if key.contains("password") => format!("{key}=***"),
                    _ => pair.to_owned(),
                })
                .collect();
            out.push_str(&format!("{path}?{}", shown.join("&")));
        }
        None => out.push_str(rest),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_are_understood() {
        assert_eq!("sqlite:a/b.db".parse(), Ok(StoreUrl::Sqlite("a/b.db".into())));
        assert_eq!("sqlite:///a/b.db".parse(), Ok(StoreUrl::Sqlite("/a/b.db".into())));
        for good in [
            "postgres://u:p@h:1/d?sslmode=require",
            "postgresql:///d?host=/run/postgresql",
            "postgres://u@h/d?options=-csearch_path%3Dx&sslrootcert=/ca.pem&sslmode=verify-full",
        ] {
            assert!(matches!(good.parse(), Ok(StoreUrl::Postgres(_))), "{good}");
        }
    }

    #[test]
    fn bad_addresses_say_why() {
        for (given, why) in [
            ("", "empty"),
            ("/a/b", "kind is missing"),
            ("mysql://x", "`mysql` is not known"),
            ("sqlite:", "path is missing"),
            ("sqlite:dir/", "directory"),
            ("sqlite::memory:", "lose everything"),
            ("postgres://u@h:notaport/d", "port"),
            ("postgres://u@h/d?colour=red", "colour"),
        ] {
            let text = given.parse::<StoreUrl>().map_err(|e| e.to_string());
            assert!(text.as_ref().is_err_and(|t| t.contains(why)), "{given}: {text:?}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for given in [
            "postgres://u:hunter2@h/d",
            "postgres://u:hun/ter2@h/d",
            "postgres://u@h/d?password=hunter2",
        ] {
            let shown = format!("{} {:?}", redact(given), StoreUrl::Postgres(given.into()));
            assert!(!shown.contains("ter2") && shown.contains("***"), "{shown}");
        }
        let refused = "postgres://u:hunter2@h:x/d".parse::<StoreUrl>().map_err(|e| e.to_string());
        assert!(refused.is_err_and(|t| !t.contains("hunter2")));
    }
}
