//! No bytes make a reader panic, and every row of what it is given is either read or named.

use super::*;
use proptest::prelude::*;

/// Reads with one reader; the number of rows read and of rows left out.
type Try = fn(&[u8], OnBadRow) -> Result<(usize, usize), TraceError>;

fn counted<T>(read: Result<Read<T>, TraceError>) -> Result<(usize, usize), TraceError> {
    read.map(|r| (r.items.len(), r.skipped.len()))
}

/// Every reader with a sample that it likes.
const READERS: [(&str, Try); 7] = [
    (swf::SAMPLE, |b, o| counted(swf::jobs("f", b, o))),
    (philly::SAMPLE, |b, o| counted(philly::jobs("f", b, o))),
    (gavel::SAMPLE, |b, o| counted(gavel::jobs("f", b, o))),
    (openb::NODES, |b, o| counted(openb::nodes("f", b, o))),
    (openb::PODS, |b, o| counted(openb::pods("f", b, o))),
    (alibaba::HOSTS, |b, o| counted(alibaba::hosts("f", b, o))),
    (titan::SAMPLE, |b, o| counted(titan::lifetimes("f", b, o))),
];

/// Those without a sample of their own.
fn others(bytes: &[u8], on_bad: OnBadRow) {
    let _ = openb::orders("f", bytes, on_bad, 100);
    let _ = unpack(bytes.to_vec());
    let _ = swf::machine(&String::from_utf8_lossy(bytes));
}

fn try_all(bytes: &[u8]) {
    for on_bad in [OnBadRow::Stop, OnBadRow::Skip] {
        others(bytes, on_bad);
        for (_, read) in READERS {
            let _ = read(bytes, on_bad);
        }
    }
}

/// What may be put in the place of a cell.
const ODD: [&str; 14] = [
    "",
    "-1",
    "0",
    "99999999999999999999",
    "18446744073709551615",
    "4294967295",
    "1e9",
    "NaN",
    "2017-02-30 25:61:61",
    "2999-12-31 23:59:60",
    "\"",
    "\u{feff}é\u{0}",
    "c-c",
    ",",
];

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        try_all(&bytes);
        let mut gz = vec![0x1f, 0x8b, 8, 0];
        gz.extend(&bytes);
        try_all(&gz);
    }

    #[test]
    fn random_text_under_a_true_head(at in 0..READERS.len(), tail in "[0-9,. \t\n\"a-z:-]{0,200}") {
        let (sample, read) = READERS[at];
        let text = format!("{}\n{tail}", sample.lines().next().unwrap_or_default());
        let _ = read(text.as_bytes(), OnBadRow::Skip);
    }

    #[test]
    fn odd_cells_are_read_or_named(
        at in 0..READERS.len(),
        from in 0usize..2000,
        len in 0usize..30,
        odd in 0..ODD.len(),
    ) {
        let (sample, read) = READERS[at];
        let from = from % sample.len();
        let to = (from + len).min(sample.len());
        let text = format!("{}{}{}", &sample[..from], ODD[odd], &sample[to..]);
        let (whole, _) = read(sample.as_bytes(), OnBadRow::Stop).unwrap();
        let strict = read(text.as_bytes(), OnBadRow::Stop);
        match read(text.as_bytes(), OnBadRow::Skip) {
            Ok((items, skipped)) => {
                // One cut joins or splits few lines: no row goes missing beyond those.
                prop_assert!(items + skipped + 3 >= whole);
                prop_assert_eq!(strict.is_ok(), skipped == 0);
            }
            Err(e) => prop_assert_eq!(strict, Err(e)),
        }
    }

    #[test]
    fn a_cut_gzip_is_never_taken_for_a_whole_one(at in 0..READERS.len(), part in 0.0f64..1.0) {
        let (sample, read) = READERS[at];
        let gz = input::packed(sample.as_bytes());
        let cut = &gz[..2 + ((gz.len() - 2) as f64 * part) as usize];
        prop_assert!(read(cut, OnBadRow::Stop).is_err());
        if let Ok((_, skipped)) = read(cut, OnBadRow::Skip) {
            prop_assert!(skipped > 0);
        }
    }
}
