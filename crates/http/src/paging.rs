//! Pages of lists: how many, and where the next one begins.

use super::error::{Failure, Reply};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Items of a page when nothing is said.
pub(crate) const DEFAULT_LIMIT: u32 = 100;
/// Most items of a page.
pub(crate) const MAX_LIMIT: u32 = 1000;
/// Larger pages are written aside.
pub(crate) const WRITTEN_AT_ONCE: usize = 100;
/// Most bytes of a page: one that would be larger ends earlier, with its cursor.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// A page that is being written. It holds at least one item, however large.
pub(crate) struct Page {
    bytes: Vec<u8>,
    items: usize,
}

impl Page {
    pub(crate) fn new() -> Page {
        Page { bytes: b"{\"items\":[".to_vec(), items: 0 }
    }

    /// Writes one more item. False when it does not fit: the page ends before it.
    pub(crate) fn push<T: Serialize>(&mut self, item: &T) -> Reply<bool> {
        let before = self.bytes.len();
        if self.items > 0 {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, item).map_err(|_| Failure::internal())?;
        if self.items > 0 && self.bytes.len() > PAGE_BYTES {
            self.bytes.truncate(before);
            return Ok(false);
        }
        self.items += 1;
        Ok(true)
    }

    /// The page as it is sent.
    pub(crate) fn end(mut self, cursor: Option<&str>) -> Vec<u8> {
        self.bytes.extend_from_slice(b"],\"cursor\":");
        let cursor = serde_json::to_vec(&cursor).unwrap_or_else(|_| b"null".to_vec());
        self.bytes.extend(cursor);
        self.bytes.push(b'}');
        self.bytes
    }
}

/// How many items the caller wants.
pub(crate) fn limit(asked: Option<u32>) -> Reply<usize> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        n @ 1..=MAX_LIMIT => Ok(n as usize),
        n => Err(Failure::bad(format!("limit is {n}; it must be between 1 and {MAX_LIMIT}"))
            .field("limit")),
    }
}

/// The list a cursor belongs to is part of it: one taken from another list is refused.
#[derive(Serialize, Deserialize)]
struct Cursor<T> {
    l: String,
    p: T,
}

/// The text of a cursor: goes on after this position.
pub(crate) fn encode<T: Serialize>(list: &str, position: T) -> String {
    let cursor = Cursor { l: list.to_owned(), p: position };
    // Plain numbers and strings always serialise.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

/// A cursor of another list, of another caller, or of nobody.
pub(crate) fn unknown_cursor() -> Failure {
    Failure::bad("this cursor is not one that this list gave out")
        .field("cursor")
        .hint("start again without a cursor")
}

/// The position in a cursor that this list gave out.
pub(crate) fn decode<T: DeserializeOwned>(list: &str, cursor: Option<&str>) -> Reply<Option<T>> {
    let Some(text) = cursor else { return Ok(None) };
    if text.len() > 1024 {
        return Err(unknown_cursor());
    }
    let raw = URL_SAFE_NO_PAD.decode(text).map_err(|_| unknown_cursor())?;
    let cursor: Cursor<T> = serde_json::from_slice(&raw).map_err(|_| unknown_cursor())?;
    if cursor.l == list { Ok(Some(cursor.p)) } else { Err(unknown_cursor()) }
}

/// A page of what has numbers, newest first: at most `limit` that fit, below the cursor's number,
/// and where the next page begins.
pub(crate) fn newest<'a, V>(
    list: &str,
    all: &'a BTreeMap<u64, V>,
    (limit, below): (usize, Option<u64>),
    fits: impl Fn(&V) -> bool,
) -> (Vec<&'a V>, Option<String>) {
    let upper = below.map_or(Bound::Unbounded, Bound::Excluded);
    let mut older = all.range((Bound::Unbounded, upper)).rev().filter(|(_, v)| fits(v)).peekable();
    let mut page = Vec::new();
    let mut last = None;
    while page.len() < limit
        && let Some((id, v)) = older.next()
    {
        page.push(v);
        last = Some(*id);
    }
    let cursor = last.filter(|_| older.peek().is_some()).map(|id| encode(list, id));
    (page, cursor)
}

/// Such a page as it is sent. It ends before an item that would make it too large, and the next one
/// begins there.
pub(crate) fn numbered<T: Serialize>(
    list: &str,
    items: impl IntoIterator<Item = (u64, T)>,
    cursor: Option<String>,
) -> Reply<Vec<u8>> {
    let (mut page, mut last) = (Page::new(), None);
    for (id, item) in items {
        if !page.push(&item)? {
            let cursor = last.map(|id| encode::<u64>(list, id));
            return Ok(page.end(cursor.as_deref()));
        }
        last = Some(id);
    }
    Ok(page.end(cursor.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_back_to_the_list_that_gave_it() {
        let c = encode("jobs", 42u64);
        assert_eq!(decode::<u64>("jobs", Some(&c)).unwrap(), Some(42));
        assert!(decode::<u64>("nodes", Some(&c)).is_err());
        assert!(decode::<String>("jobs", Some(&c)).is_err());
        assert_eq!(decode::<u64>("jobs", None).unwrap(), None);
        for bad in ["", "x", "42", "e30", "bnVsbA", &"A".repeat(5000)] {
            assert_eq!(decode::<u64>("jobs", Some(bad)).unwrap_err().status(), 400);
        }
    }

    #[test]
    fn pages_of_numbered_things_leave_nothing_out() {
        let all: BTreeMap<u64, u64> = (1..=10).map(|n| (n, n)).collect();
        let even = |n: &u64| n.is_multiple_of(2);
        let (page, next) = newest("x", &all, (3, None), even);
        assert_eq!(page, [&10, &8, &6]);
        let below = decode::<u64>("x", next.as_deref()).unwrap();
        let (page, next) = newest("x", &all, (2, below), even);
        assert_eq!((page, next), (vec![&4, &2], None));
    }

    #[test]
    fn a_page_ends_before_it_is_too_large_and_holds_one_item_at_least() {
        let read = |p: Page, c: Option<&str>| {
            serde_json::from_slice::<serde_json::Value>(&p.end(c)).unwrap()
        };
        assert_eq!(read(Page::new(), None), serde_json::json!({"items": [], "cursor": null}));
        let mut page = Page::new();
        let large = "x".repeat(PAGE_BYTES);
        assert!(page.push(&large).unwrap(), "or nobody would ever get past it");
        assert!(!page.push(&1).unwrap());
        let page = read(page, Some("c"));
        assert_eq!((page["items"].as_array().unwrap().len(), &page["cursor"]), (1, &"c".into()));
    }

    #[test]
    fn a_page_of_numbered_things_that_is_too_large_goes_on_in_the_next_one() {
        let read = |bytes: Vec<u8>| serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
        let large = "x".repeat(PAGE_BYTES / 2);
        let items = || [9, 7, 4].map(|id| (id, &large));
        let first = read(numbered("x", items(), Some("c".into())).unwrap());
        assert_eq!(first["items"].as_array().unwrap().len(), 1);
        assert_eq!(decode::<u64>("x", first["cursor"].as_str()).unwrap(), Some(9));
        let short = read(numbered("x", items().map(|(id, _)| (id, "")), Some("c".into())).unwrap());
        assert_eq!((short["items"].as_array().unwrap().len(), &short["cursor"]), (3, &"c".into()));
    }

    #[test]
    fn limits_have_bounds() {
        assert_eq!(limit(None).unwrap(), 100);
        assert_eq!(limit(Some(1000)).unwrap(), 1000);
        assert!(limit(Some(0)).is_err());
        assert!(limit(Some(1001)).is_err());
    }
}
