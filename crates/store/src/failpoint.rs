//! Places where a test may make the process die.
//!
//! `MUSTER_FAILPOINT="store.append.after_commit:3"` aborts the process at the third hit of that
//! name; several are separated by commas. Without the variable a hit costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Point {
    name: String,
    at: u64,
    hits: AtomicU64,
}

static POINTS: OnceLock<Vec<Point>> = OnceLock::new();

fn parse(text: &str) -> Vec<Point> {
    let mut points = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let parsed = part.rsplit_once(':').and_then(|(name, n)| Some((name, n.parse().ok()?)));
        match parsed {
            Some((name, at)) if at > 0 => {
                points.push(Point { name: name.to_owned(), at, hits: AtomicU64::new(0) });
            }
            _ => tracing::warn!(part, "MUSTER_FAILPOINT: expected NAME:N with N from 1; ignored"),
        }
    }
    points
}

/// Passes the point `name`; aborts the process when its time has come.
pub fn hit(name: &str) {
    let points = POINTS.get_or_init(|| {
        std::env::var("MUSTER_FAILPOINT").map_or_else(|_| Vec::new(), |t| parse(&t))
    });
    for point in points.iter().filter(|p| p.name == name) {
        if point.hits.fetch_add(1, Ordering::Relaxed) + 1 == point.at {
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
        let points = parse("store.append.before_commit:3, x:y ,b:1,:,c:0");
        let names: Vec<_> = points.iter().map(|p| (p.name.as_str(), p.at)).collect();
        assert_eq!(names, [("store.append.before_commit", 3), ("b", 1)]);
    }

    #[test]
    fn a_hit_without_the_variable_does_nothing() {
        super::hit("store.append.before_commit");
    }
}
