//! What is a slot's own where nothing can be mounted: a directory that its account alone may enter,
//! apart from the agent's, which no account may. A link in the attempt's directory leads there.

use super::account::Account;
use super::{Refusal, as_account, grant_access};
use crate::env::Env;
use crate::process::random_id;
use crate::secrets;
use muster_link::private::write as write_private;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// Where those directories are. Not in `/tmp`, where everybody could make them first.
const ALL: &str = "/var/lib/muster-ranks";
/// The link in the attempt's directory.
const LINK: &str = "handed";
/// Scratch space in it.
pub(crate) const TMP: &str = "tmp";

/// The directory of an attempt that has one.
pub(crate) fn of(dir: &Path) -> Option<PathBuf> {
    fs::read_link(dir.join(LINK)).ok()
}

/// Makes it, closed to everybody so far.
pub(crate) fn make(dir: &Path) -> io::Result<PathBuf> {
    // Passed through, not listed.
    DirBuilder::new().recursive(true).mode(0o755).create(ALL)?;
    fs::set_permissions(ALL, Permissions::from_mode(0o711))?;
    let own = Path::new(ALL).join(random_id());
    DirBuilder::new().mode(0o700).create(&own)?;
    symlink(&own, dir.join(LINK))?;
    Ok(own)
}

/// Removes it with all that is in it.
pub(crate) fn remove(dir: &Path) {
    if let Some(own) = of(dir) {
        let _ = crate::trash::gone(&own);
    }
}

/// Gives the account what is its own: scratch space, the script, the secrets, and last the
/// directory itself. Reports were made there before.
pub(crate) fn hand_over(
    dir: &Path,
    secrets_dir: &Path,
    secrets: &Env,
    who: &Account,
) -> Result<(), Refusal> {
    let node = |e: io::Error| Refusal::node("cannot hand over files", &e);
    let own = of(dir).ok_or_else(|| Refusal::Node("the ranks' directory is gone".into()))?;
    let give = |path: &Path| chown(path, Some(who.uid), Some(who.gid));
    let all = || -> io::Result<()> {
        let (script, tmp) = (own.join("script"), own.join(TMP));
        if dir.join("script").exists() {
            write_private(&script, &fs::read(dir.join("script"))?)?;
            grant_access(&script, who, 0o550)?;
        }
        DirBuilder::new().mode(0o700).create(&tmp)?;
        give(&tmp)?;
        if !secrets.is_empty() {
            // In memory, and under a name that nobody can have taken.
            let shared = secrets::shared();
            secrets::make_shared(&shared)?;
            symlink(&shared, secrets_dir)?;
            symlink(&shared, own.join("secrets"))?;
            for (name, value) in secrets::files(secrets) {
                write_private(&shared.join(name), value.as_bytes())?;
                give(&shared.join(name))?;
            }
            give(&shared)?;
        }
        give(&own)
    };
    all().map_err(node)?;
    // A directory above it may be closed, too.
    as_account(who, || fs::read_dir(&own).map(drop))
        .and_then(|entered| entered)
        .map_err(|e| Refusal::node(&format!("{} cannot enter {ALL}", who.describe_account()), &e))
}

/// What should be hidden and lets this account in, if anything.
pub(crate) fn seen(hidden: &[PathBuf], who: &Account) -> io::Result<Option<PathBuf>> {
    let enters = |d: &&PathBuf| fs::read_dir(d).is_ok() || fs::metadata(d.join(".")).is_ok();
    as_account(who, || hidden.iter().find(enters).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_handed_over_is_its_accounts_alone_and_goes_with_the_attempt() {
        let root = super::super::account::possible();
        if !muster_testkit::vital(root.is_ok(), format!("{root:?}")) {
            return;
        }
        let account = |uid| Account {
            uid,
            gid: 200_009,
            groups: vec![],
            name: "x".into(),
            home: "/tmp".into(),
            made_up: true,
        };
        let (who, other) = (account(200_001), account(200_002));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let dir = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        assert!(of(dir.path()).is_none());
        let own = make(dir.path()).unwrap();
        assert_eq!(of(dir.path()).as_ref(), Some(&own));
        fs::write(dir.path().join("script"), "true").unwrap();
        let secrets = Env::from([("token".to_owned(), "hush".to_owned())]);
        hand_over(dir.path(), &dir.path().join("secrets"), &secrets, &who).unwrap();
        let read = |who: &Account, name: &str| {
            let path = own.join(name);
            as_account(who, || fs::read_to_string(path)).unwrap().ok()
        };
        assert_eq!(read(&who, "script").as_deref(), Some("true"));
        assert_eq!(read(&who, "secrets/token").as_deref(), Some("hush"));
        as_account(&who, || fs::write(own.join("tmp/a"), "")).unwrap().unwrap();
        assert!(as_account(&who, || fs::write(own.join("script"), "")).unwrap().is_err());
        // Another user does not get in, also where both have the same group.
        assert_eq!((read(&other, "script"), read(&other, "secrets/token")), (None, None));
        let shared = fs::read_link(dir.path().join("secrets")).unwrap();
        assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o777, 0o700);
        let hidden = [dir.path().to_path_buf(), own.clone()];
        assert_eq!(seen(&hidden, &other).unwrap(), None);
        assert_eq!(seen(&hidden, &who).unwrap(), Some(own.clone()));
        secrets::remove(&dir.path().join("secrets"));
        remove(dir.path());
        assert!(!own.exists() && !shared.exists());
    }
}
