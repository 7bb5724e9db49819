//! Numbered schema migrations, recorded with a hash of what they did.

use crate::{StoreError, chain};

/// One step of a schema.
pub(crate) struct Migration {
    /// Counts from 1.
    pub(crate) version: u32,
    /// What it does.
    pub(crate) name: &'static str,
    /// The statements that carry it out.
    pub(crate) sql: &'static str,
}

impl Migration {
    /// Changes when the step is edited after the fact.
    pub(crate) fn hash(&self) -> String {
        chain::hex(&blake3::hash(self.sql.as_bytes()).as_bytes()[..16])
    }
}

/// The newest version of a list.
pub(crate) fn newest(list: &[Migration]) -> u32 {
    list.last().map_or(0, |m| m.version)
}

/// What is still to be applied, given what the database recorded as (version, hash).
pub(crate) fn pending<'a>(
    list: &'a [Migration],
    recorded: &[(u32, String)],
) -> Result<&'a [Migration], StoreError> {
    if let Some((found, _)) = recorded.iter().find(|(v, _)| *v > newest(list)) {
        return Err(StoreError::NewerSchema { found: *found, known: newest(list) });
    }
    for (i, (version, hash)) in recorded.iter().enumerate() {
        let ours = &list[i];
        if ours.version != *version || ours.hash() != *hash {
            return Err(StoreError::ChangedSchema { version: *version });
        }
    }
    Ok(&list[recorded.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[Migration] = &[
        Migration { version: 1, name: "one", sql: "create 1" },
        Migration { version: 2, name: "two", sql: "create 2" },
    ];

    #[test]
    fn only_what_is_missing_is_pending() {
        assert_eq!(pending(LIST, &[]).map(<[Migration]>::len).ok(), Some(2));
        let one = [(1, LIST[0].hash())];
        assert_eq!(pending(LIST, &one).ok().map(|p| p[0].name), Some("two"));
    }

    #[test]
    fn a_newer_or_changed_schema_is_refused() {
        let newer = [(1, LIST[0].hash()), (2, LIST[1].hash()), (3, "x".into())];
        assert!(matches!(
            pending(LIST, &newer),
            Err(StoreError::NewerSchema { found: 3, known: 2 })
        ));
        let changed = [(1, "other".to_owned())];
        assert!(matches!(pending(LIST, &changed), Err(StoreError::ChangedSchema { version: 1 })));
    }
}
