//! What no rank sees of the node, not even by guessing where it is.

use super::place::replaced;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory with one of these is a server's: its name, its keys, its tokens, its log.
const OF_A_SERVER: [&str; 4] = ["server.id", "admin.token", "secrets.key", "muster.db"];

/// Whether a server made this directory its own. Its mode says nothing: whoever opened it did not mean
/// to show it to ranks. What another user put into a directory of several users, such as `/tmp`, does
/// not make it one, and each slot has its own of these.
fn of_a_server(dir: &Path) -> bool {
    let Ok(about) = dir.metadata() else { return false };
    let of_its_owner =
        |name: &str| dir.join(name).symlink_metadata().is_ok_and(|file| file.uid() == about.uid());
    replaced(dir).is_none() && OF_A_SERVER.into_iter().any(of_its_owner)
}

/// The agent's own directory, the data directory of a server that it is in, and what the agent
/// was asked to hide, whatever their modes. None is inside another. Looked up again for each slot:
/// any of them may be made or opened later.
pub(crate) fn hidden(state: &Path, also: &[PathBuf]) -> Vec<PathBuf> {
    // What a link leads to has other directories around it.
    let real = state.canonicalize().unwrap_or_else(|_| state.to_path_buf());
    let around = state.ancestors().chain(real.ancestors());
    let around = around.filter(|d| d.parent().is_some() && of_a_server(d));
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
        for mode in [0o755, 0o777, 0o711, 0o700] {
            std::fs::set_permissions(&data, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(hidden(&state, &[]), std::slice::from_ref(&data), "mode {mode:o}");
        }
        let link = root.join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        assert_eq!(hidden(&link, &[]), std::slice::from_ref(&data), "by a link");
        assert_eq!(hidden(&state, &[other.clone(), root.join("none")]), [data, other]);
    }

    #[test]
    fn what_another_user_put_there_hides_nothing_around_the_agent() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let state = root.join("agent");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(root.join("admin.token"), "").unwrap();
        std::os::unix::fs::lchown(root.join("admin.token"), Some(65534), None).unwrap();
        assert_eq!(hidden(&state, &[]), std::slice::from_ref(&state));
        // A server of that user has a directory of its own.
        std::os::unix::fs::lchown(&root, Some(65534), None).unwrap();
        assert_eq!(hidden(&state, &[]), [root]);
    }
}
