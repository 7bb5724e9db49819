//! Search over everything that the caller may read.

use crate::{Client, ClientError};
use muster_api::{SearchHitList, SearchQuery};

impl Client {
    /// What matches a text, best match first.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchHitList, ClientError> {
        let SearchQuery { q, limit } = query.clone();
        let call =
            self.get(&["v1", "search"]).query(&[("q", q), ("limit", limit.map(|n| n.to_string()))]);
        self.json(call).await
    }
}
