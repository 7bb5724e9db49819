//! What is kept beside the log, read once when a gang starts on a thousand nodes at a time.

use crate::brain::{Brain, BrainError};
use muster_model::ids::JobId;
use muster_model::names::{Label, ProjectName};
use muster_model::spec::RunSpec;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How often a busy store is asked again, and after how long.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

type CacheMap<K, V> = Mutex<HashMap<K, Arc<OnceCell<V>>>>;

/// Answers of the last seconds. Emptied often: secrets and payloads may be replaced or erased.
/// That something is missing is not kept: whoever makes it tries again at once.
#[derive(Default)]
pub(super) struct LookupCache {
    payloads: CacheMap<JobId, Arc<RunSpec>>,
    secrets: CacheMap<(ProjectName, Label), String>,
}

async fn once<K: Hash + Eq, V: Clone, F>(
    cache: &CacheMap<K, V>,
    key: K,
    fetch: impl Fn() -> F,
) -> Result<Option<V>, BrainError>
where
    F: Future<Output = Result<Option<V>, BrainError>>,
{
    let cell = {
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.entry(key).or_default().clone()
    };
    let found = || {
        let fetching = fetch();
        async move {
            match fetching.await {
                Ok(Some(value)) => Ok(value),
                Ok(None) => Err(None),
                Err(e) => Err(Some(e)),
            }
        }
    };
    let mut tries = 1;
    loop {
        match cell.get_or_try_init(&found).await {
            Err(Some(BrainError::Unavailable(_))) if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(Some(e)) => return Err(e),
            Err(None) => return Ok(None),
            Ok(value) => return Ok(Some(value.clone())),
        }
    }
}

impl LookupCache {
    pub(super) async fn payload(
        &self,
        brain: &Brain,
        job: JobId,
    ) -> Result<Option<Arc<RunSpec>>, BrainError> {
        once(&self.payloads, job, || async move { Ok(brain.payload(job).await?.map(Arc::new)) })
            .await
    }

    pub(super) async fn secret(
        &self,
        brain: &Brain,
        project: &ProjectName,
        name: &Label,
    ) -> Result<Option<String>, BrainError> {
        let key = (project.clone(), name.clone());
        once(&self.secrets, key, || brain.secret(project, name.as_str())).await
    }

    pub(super) fn clear(&self) {
        self.payloads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_missing_is_looked_for_again() {
        let cache: CacheMap<u8, u8> = Mutex::default();
        assert_eq!(once(&cache, 1, || async { Ok(None) }).await.unwrap(), None);
        assert_eq!(once(&cache, 1, || async { Ok(Some(7)) }).await.unwrap(), Some(7));
        let kept = once(&cache, 1, || async { Ok(None) }).await.unwrap();
        assert_eq!(kept, Some(7), "what is there is read once");
    }
}
