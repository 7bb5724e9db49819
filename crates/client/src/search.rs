//! Search over everything that the caller may read.

use crate::{Client, ClientError};
use muster_api::{OutputHitList, OutputSearchQuery, SearchHitList, SearchQuery};

impl Client {
    /// What matches a text, best match first.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchHitList, ClientError> {
        let SearchQuery { q, limit } = query.clone();
        let call =
            self.get(&["v1", "search"]).query(&[("q", q), ("limit", limit.map(|n| n.to_string()))]);
        self.json(call).await
    }

    /// Lines of job output that have some words, the newest first.
    pub async fn search_output(
        &self,
        query: &OutputSearchQuery,
    ) -> Result<OutputHitList, ClientError> {
        let OutputSearchQuery { q, project, job, since, limit, cursor } = query.clone();
        let call = self.get(&["v1", "search", "output"]).query(&[
            ("q", q),
            ("project", project),
            ("job", job),
            ("since", since.map(|t| t.to_string())),
            ("limit", limit.map(|n| n.to_string())),
            ("cursor", cursor),
        ]);
        self.json(call).await
    }

    /// Pages until there are no more lines, or `most` of them. A cursor is left when there are.
    pub async fn search_output_up_to(
        &self,
        query: &OutputSearchQuery,
        most: usize,
    ) -> Result<OutputHitList, ClientError> {
        let mut query = query.clone();
        let mut items = Vec::new();
        loop {
            query.limit = Some(u32::try_from((most - items.len()).min(200)).unwrap_or(200));
            let page = self.search_output(&query).await?;
            let OutputHitList { items: found, cursor, indexing } = page;
            items.extend(found);
            // A page may be short, or empty, and not be the last.
            if cursor.is_none() || items.len() >= most {
                return Ok(OutputHitList { items, cursor, indexing });
            }
            query.cursor = cursor;
        }
    }
}
