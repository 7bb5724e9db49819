//! Processes in states that tell of trouble.

use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Processes looked at in one go.
const MOST: usize = 32_768;
/// Names kept of those that are stuck.
const MOST_NAMES: usize = 8;

/// Processes, by the states that tell of trouble.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// All of them.
    pub all: u32,
    /// Inside the kernel and not to be woken (state D).
    pub blocked: u32,
    /// Ended and not waited for (state Z).
    pub zombies: u32,
    /// Some of those that are blocked: name and number.
    pub stuck: Vec<(String, i32)>,
}

pub(super) fn tasks(root: &Path) -> Option<Tasks> {
    let proc = root.join("proc");
    let mut found = Tasks::default();
    let mut buffer = Vec::with_capacity(512);
    for entry in std::fs::read_dir(&proc).ok()?.take(MOST) {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        buffer.clear();
        // A process that ended meanwhile is none.
        let Ok(file) = File::open(proc.join(&name).join("stat")) else { continue };
        if file.take(1024).read_to_end(&mut buffer).is_err() {
            continue;
        }
        let Some((name, state)) = name_and_state(&buffer) else { continue };
        found.all += 1;
        match state {
            b'D' => {
                found.blocked += 1;
                if found.stuck.len() < MOST_NAMES {
                    found.stuck.push((String::from_utf8_lossy(name).into_owned(), pid));
                }
            }
            b'Z' => found.zombies += 1,
            _ => {}
        }
    }
    (found.all > 0).then_some(found)
}

/// `12 (name) S …`: the name may hold brackets and blanks itself.
fn name_and_state(stat: &[u8]) -> Option<(&[u8], u8)> {
    let open = stat.iter().position(|b| *b == b'(')?;
    let close = stat.iter().rposition(|b| *b == b')')?;
    let name = stat.get(open + 1..close)?;
    Some((name, *stat.get(close + 2)?))
}

#[cfg(test)]
mod tests {
    use super::name_and_state;

    #[test]
    fn names_may_hold_brackets() {
        assert_eq!(name_and_state(b"1 (a) b) D 0"), Some((&b"a) b"[..], b'D')));
        assert_eq!(name_and_state(b"1 (x) Z"), Some((&b"x"[..], b'Z')));
        assert_eq!(name_and_state(b"1 x"), None);
        assert_eq!(name_and_state(b")("), None);
        assert_eq!(name_and_state(b"1 (x)"), None);
    }
}
