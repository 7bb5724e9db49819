//! Places where a test may make the process die, or a thread panic.
//!
//! `MUSTER_FAILPOINT="store.append.after_commit:3"` aborts the process at the third hit of that
//! name, `brain.engine:3:panic` panics there; several are separated by commas. Without the variable
//! a hit costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Point {
    name: String,
    at: u64,
    panics: bool,
    hits: AtomicU64,
}

static POINTS: OnceLock<Vec<Point>> = OnceLock::new();

fn parse(text: &str) -> Vec<Point> {
    let mut points = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (rest, panics) = part.strip_suffix(":panic").map_or((part, false), |r| (r, true));
        let parsed = rest.rsplit_once(':').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        match parsed {
            Some((name, at)) if at > 0 => {
                let (name, hits) = (name.to_owned(), AtomicU64::new(0));
                points.push(Point { name, at, panics, hits });
            }
            _ => tracing::warn!(
                part,
                "MUSTER_FAILPOINT: expected NAME:N or NAME:N:panic with N from 1; ignored"
            ),
        }
    }
    points
}

/// Passes the point `name`; aborts the process when its time has come.
///
/// # Panics
/// At the hit that a test asked to panic.
pub fn hit(name: &str) {
    let points = POINTS.get_or_init(|| {
        std::env::var("MUSTER_FAILPOINT").map_or_else(|_| Vec::new(), |t| parse(&t))
    });
    for point in points.iter().filter(|p| p.name == name) {
        if point.hits.fetch_add(1, Ordering::Relaxed) + 1 == point.at {
            assert!(!point.panics, "failpoint {name} hit {} times", point.at);
            eprintln!("failpoint {name} hit {} times: aborting", point.at);
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_list_of_points_is_parsed_and_nonsense_is_ignored() {
        let points = parse("store.append.before_commit:3, x:y ,b:1,:,c:0,d:2:panic,e:panic");
        let names: Vec<_> = points.iter().map(|p| (p.name.as_str(), p.at, p.panics)).collect();
        assert_eq!(
            names,
            [("store.append.before_commit", 3, false), ("b", 1, false), ("d", 2, true)]
        );
    }

    #[test]
    fn a_hit_without_the_variable_does_nothing() {
        super::hit("store.append.before_commit");
    }
}
