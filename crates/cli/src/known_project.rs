//! Asks the server about the project of the flag or the environment.

use muster_api::JobsQuery;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;

/// Is the project of the flag or the environment there, and this token's to ask about?
pub(crate) async fn known_project(ctx: &Ctx) -> Result<(), Fail> {
    let project = ctx.global.project.clone().filter(|p| !p.is_empty());
    if project.is_some() {
        let query = JobsQuery { project, limit: Some(1), ..JobsQuery::default() };
        ctx.client()?.jobs(&query).await?;
    }
    Ok(())
}
