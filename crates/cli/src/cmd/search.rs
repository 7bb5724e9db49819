//! `muster search`.

use clap::Args;
use muster_api::{SearchHit, SearchQuery};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell};

/// Find jobs, nodes, GPUs, users, projects, incidents, findings and runbooks
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster search hgx-01\n  muster search 42\n  muster search GPU-5f3a    a UUID or a serial number\n  \
muster search gpu off bus -o json\n\nOnly what your token may read is searched. The best match comes first."
)]
pub(crate) struct Search {
    /// An id, or a part of a name, a serial number or a UUID
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

impl Search {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let query = SearchQuery { q: Some(self.text.join(" ")), limit: Some(self.limit) };
        let list = client.search(&query).await?;
        if ctx.is_table() && list.items.is_empty() {
            output::note("nothing matches");
            return Ok(0);
        }
        if ctx.is_table() && list.more {
            output::note("note: there may be more; type more of it, or use --limit");
        }
        ctx.show(&list, |l| table(&l.items).render())?;
        Ok(0)
    }
}

fn table(hits: &[SearchHit]) -> Table {
    let mut table = Table::new(&["KIND", "ID", "NAME", "STATE", "ABOUT"]);
    for h in hits {
        table.row(vec![
            cell(h.kind.word()),
            cell(&h.id),
            cell(&h.title),
            cell(h.state.as_deref().unwrap_or_default()),
            cell(&h.detail),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::SearchKind;

    #[test]
    fn a_hit_says_what_it_is_and_how_it_is_named() {
        let hit = SearchHit {
            kind: SearchKind::Job,
            id: "42".into(),
            title: "train".into(),
            detail: "alpha, user:ann".into(),
            state: Some("running".into()),
            entity: None,
        };
        assert_eq!(
            table(&[hit]).render_for(None, false),
            "KIND  ID  NAME   STATE    ABOUT\njob   42  train  running  alpha, user:ann\n"
        );
    }
}
