//! What no rank sees of the node, not even by guessing where it is.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory of one user alone with one of these is a server's: its keys, its tokens, its log.
const OF_A_SERVER: [&str; 3] = ["admin.token", "secrets.key", "muster.db"];

/// The agent's own directory, the data directory of a server that it is in, and what the agent
/// was asked to hide. None is inside another.
pub(crate) fn hidden(state: &Path, also: &[PathBuf]) -> Vec<PathBuf> {
    let alone = |dir: &Path| dir.metadata().is_ok_and(|m| m.mode() & 0o077 == 0);
    let server = |dir: &&Path| alone(dir) && OF_A_SERVER.iter().any(|name| dir.join(name).exists());
    let around = state.ancestors().filter(|d| d.parent().is_some()).filter(server);
    let mut all: Vec<PathBuf> = around.map(Path::to_path_buf).collect();
    all.push(state.to_path_buf());
    all.extend(also.iter().filter(|d| d.is_dir() && d.parent().is_some()).cloned());
    // What a link leads to is what would be seen.
    let mut all: Vec<PathBuf> = all.into_iter().map(|d| d.canonicalize().unwrap_or(d)).collect();
    all.sort();
    all.dedup();
    let inside_another = |d: &PathBuf| all.iter().any(|o| o != d && d.starts_with(o));
    all.iter().filter(|d| !inside_another(d)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_directory_of_the_server_around_it_is_hidden_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (data, other) = (root.join("data"), root.join("other"));
        let state = data.join("fleet/local");
        std::fs::create_dir_all(&state).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        assert_eq!(hidden(&state, &[]), std::slice::from_ref(&state));
        std::fs::write(data.join("admin.token"), "").unwrap();
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(hidden(&state, &[]), std::slice::from_ref(&state), "everybody's");
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(hidden(&state, &[other.clone(), root.join("none")]), [data, other]);
    }
}
