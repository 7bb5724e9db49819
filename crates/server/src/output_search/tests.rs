use super::*;
use muster_outsearch::{AttemptRef, StreamKey};

#[test]
fn it_is_on_where_the_disk_is_large_and_as_somebody_says() {
    use OutputSearchSwitch::{Auto, Off, On};
    let gib = |n| Some(Bytes::gib(n));
    assert_eq!(decide(Auto, None, gib(1000)), Ok(Bytes::gib(5)));
    assert_eq!(decide(Auto, None, gib(40)), Ok(Bytes::gib(2)), "a twentieth of it");
    assert_eq!(decide(Auto, None, None), Ok(Bytes::gib(5)));
    assert_eq!(decide(Off, gib(1), gib(1000)), Err(OffReason::Flag));
    assert_eq!(decide(On, None, gib(10)), Ok(Bytes::mib(512)));
    assert_eq!(decide(On, None, Some(Bytes::mib(10))), Ok(LEAST_BYTES));
    assert_eq!(decide(Auto, gib(1), gib(10)), Ok(Bytes::gib(1)), "whoever says how much wants it");
    let off = decide(Auto, None, Some(Bytes((19 << 30) | 12345))).unwrap_err();
    let said = NoOutputSearch::Off(off).to_string();
    assert_eq!(
        said,
        "output search is off: the file system of the data directory has 19GiB, and by default it \
         is on from 20GiB on"
    );
}

fn found(ids: &[u64], floor: Option<u64>) -> SearchResults {
    let attempt = AttemptRef { life: 0, job: 1, attempt: 1 };
    let stream = StreamKey { attempt, rank: 0, is_stderr: false };
    let line =
        |id: &u64| MatchedLine { id: *id, stream, offset: 0, len: 1, number: None, at: None };
    SearchResults { lines: ids.iter().map(line).collect(), floor }
}

#[test]
fn lines_of_several_projects_are_merged_as_far_as_all_were_looked_at() {
    let (alpha, beta): (ProjectName, ProjectName) =
        ("alpha".parse().unwrap(), "beta".parse().unwrap());
    let mut all = ProjectLines::default();
    all.add(&alpha, found(&[9, 5, 2], Some(2)));
    all.add(&beta, found(&[8, 4], Some(4)));
    all.cut(10);
    let ids = |all: &ProjectLines| all.lines.iter().map(|(_, l)| l.id).collect::<Vec<_>>();
    assert_eq!((ids(&all), all.floor), (vec![9, 8, 5, 4], Some(4)), "2 comes with the next page");
    all.cut(2);
    assert_eq!((ids(&all), all.floor), (vec![9, 8], Some(8)));
    let mut all = ProjectLines::default();
    all.add(&alpha, found(&[3], None));
    all.cut(10);
    assert_eq!((ids(&all), all.floor), (vec![3], None));
}

#[test]
fn projects_that_time_does_not_suffice_for_come_with_the_next_page() {
    let [alpha, beta, gamma]: [ProjectName; 3] =
        ["alpha", "beta", "gamma"].map(|name| name.parse().unwrap());
    let lines = |project: &ProjectName| match project.as_str() {
        "alpha" => vec![4, 1],
        "beta" => vec![9, 6, 3],
        _ => vec![7, 2],
    };
    let (mut below, mut seen) = (u64::MAX, Vec::new());
    loop {
        let left =
            |p: &ProjectName| lines(p).into_iter().filter(|id| *id < below).collect::<Vec<_>>();
        let newest = |p| left(p).first().map(|id| (*id, p));
        let order = [&alpha, &beta, &gamma].into_iter().filter_map(newest).collect();
        let search = |p: &ProjectName| Ok::<_, ()>(found(&left(p), None));
        let mut page = search_in_order(order, || true, search).unwrap();
        page.cut(10);
        seen.push(page.lines.iter().map(|(_, l)| l.id).collect::<Vec<_>>());
        let Some(floor) = page.floor else { break };
        below = floor;
    }
    assert_eq!(seen, [[9], [7], [6], [4], [3], [2], [1]]);
}

#[test]
fn projects_with_older_lines_only_are_not_searched_for_a_full_page() {
    let (alpha, beta): (ProjectName, ProjectName) =
        ("alpha".parse().unwrap(), "beta".parse().unwrap());
    let search = |p: &ProjectName| match p.as_str() {
        "alpha" => Ok(found(&[9, 8], Some(8))),
        other => Err(other.to_owned()),
    };
    let page = search_in_order(vec![(7, &beta), (9, &alpha)], || false, search).unwrap();
    assert_eq!((page.lines.len(), page.floor), (2, Some(8)));
}

#[test]
fn one_that_is_off_says_why() {
    let search = OutputSearch::off(OffReason::Flag);
    let why = search.status().unwrap_err().to_string();
    assert_eq!(why, "output search is off: this server was started with --output-search off");
}
