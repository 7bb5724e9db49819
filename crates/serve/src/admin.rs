//! The administrator's token in the data directory.

use crate::{ServeError, io_error, label, setup, write_private};
use muster_link::token::{ApiToken, hash};
use muster_model::command::Command;
use muster_model::tenant::{Role, TokenUse};
use muster_server::brain::Brain;
use std::io;
use std::path::Path;

/// Makes the administrator's token where there is no file with one, and says whether that in the
/// file works.
///
/// A file that is there gives its token to a log without a site only: to a new one, and to one that
/// lost everything. In any other log a token that is not known was revoked, and stays so. It comes
/// before the site, so that a log with a site had its token, wherever a crash cuts it.
pub(crate) async fn settle(brain: &Brain, path: &Path) -> Result<bool, ServeError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let token = text.trim().parse::<ApiToken>().map_err(|e| {
                ServeError::Setup(format!(
                    "{} has no token: {e}; remove that file and start again for a new one",
                    path.display()
                ))
            })?;
            let (known, begun) =
                brain.read(|s| (s.tokens.contains_key(&token.id), s.site.is_some()));
            if !known && !begun {
                create(brain, &token).await?;
            }
            Ok(known || !begun)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // Its secret is on disk before the log knows it, and the file gets its name when the
            // token works: after a crash, the next start finds out how far this one came.
            let made = path.with_extension("made.token");
            let left = std::fs::read_to_string(&made).unwrap_or_default().parse::<ApiToken>();
            if !left.is_ok_and(|t| brain.read(|s| s.tokens.contains_key(&t.id))) {
                let token = ApiToken::generate()?;
                write_private(&made, &token.to_string())?;
                create(brain, &token).await?;
            }
            std::fs::rename(&made, path)
                .map_err(io_error(format!("cannot write {}", path.display())))?;
            Ok(true)
        }
        Err(e) => Err(io_error(format!("cannot read {}", path.display()))(e)),
    }
}

async fn create(brain: &Brain, token: &ApiToken) -> Result<(), ServeError> {
    let command = Command::CreateToken {
        id: token.id.clone(),
        name: label("admin")?,
        hash: hash(&token.secret),
        usage: TokenUse::Api { role: Role::Admin, project: None },
        ttl: None,
    };
    brain.system(command).await.map_err(setup)?;
    Ok(())
}
