//! What the server's own metrics say of a time: two pages of `/metrics`, and what came between them.

use crate::http::{Client, Target};
use anyhow::{Result, ensure};
use bytes::Bytes;
use hyper::Method;

/// What is read: the case, and how its buckets begin on the page.
const TIMES: [(&str, &str); 5] = [
    ("runtime_delay", "muster_runtime_delay_seconds_bucket{le=\""),
    ("healthz", "muster_http_request_seconds_bucket{route=\"/healthz\",le=\""),
    ("cancel", "muster_http_request_seconds_bucket{route=\"/v1/jobs/{id}/cancel\",le=\""),
    ("append", "muster_store_append_seconds_bucket{le=\""),
    ("cycle", "muster_cycle_seconds_bucket{le=\""),
];

/// The page as it is now.
pub(super) async fn page(who: &Target) -> Result<String> {
    let mut client = Client::new(who.clone());
    let (status, body) = client.call(&Method::GET, "/metrics", Bytes::new()).await?;
    ensure!(status == 200, "GET /metrics: {status}");
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// The slowest of a hundred between two pages, in milliseconds: the upper bound of its bucket.
pub(super) fn p99_ms(before: &str, after: &str) -> Vec<(&'static str, f64)> {
    let p99 = |begin| quantile(&buckets(before, begin), &buckets(after, begin), 0.99);
    TIMES.into_iter().filter_map(|(name, begin)| Some((name, p99(begin)? * 1000.0))).collect()
}

/// Bounds in seconds, and how many were at or below each.
fn buckets(page: &str, begin: &str) -> Vec<(f64, u64)> {
    let bucket = |line: &str| -> Option<(f64, u64)> {
        let (bound, count) = line.strip_prefix(begin)?.split_once("\"} ")?;
        Some((bound.parse().ok()?, count.parse().ok()?))
    };
    page.lines().filter_map(bucket).collect()
}

/// The last bound that is a number stands for all that is above it.
fn quantile(before: &[(f64, u64)], after: &[(f64, u64)], share: f64) -> Option<f64> {
    let earlier = |i: usize| before.get(i).map_or(0, |(_, n)| *n);
    let all = after.len().checked_sub(1).map(|i| after[i].1.saturating_sub(earlier(i)))?;
    let wanted = (all as f64 * share).ceil() as u64;
    let met = |i: usize, n: u64| n.saturating_sub(earlier(i)) >= wanted;
    let finite = || after.iter().enumerate().filter(|(_, (bound, _))| bound.is_finite());
    let found = finite().find(|(i, (_, n))| met(*i, *n)).or_else(|| finite().next_back());
    found.filter(|_| all > 0).map(|(_, (bound, _))| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(begin: &str, counts: [u64; 3]) -> String {
        let bounds = ["0.01", "0.1", "+Inf"].into_iter().zip(counts);
        bounds.map(|(le, n)| format!("{begin}{le}\"}} {n}\n")).collect()
    }

    #[test]
    fn only_what_came_between_two_pages_counts() {
        let (_, delay) = TIMES[0];
        let (_, cancel) = TIMES[2];
        let before = written(delay, [0, 50, 50]);
        let after = written(delay, [100, 150, 150]) + &written(cancel, [0, 0, 3]);
        assert_eq!(p99_ms(&before, &after), [("runtime_delay", 10.0), ("cancel", 100.0)]);
        assert!(p99_ms(&after, &after).is_empty(), "nothing came");
    }
}
