//! Rows and columns, and what stands in them. Numbers are integers throughout.

use super::error::{OnBadRow, Read, RowProblem, TraceError, shown};
use super::input;
use muster_model::calendar;
use muster_model::units::{Span, Time};
use muster_specs::error::closest;
use std::borrow::Cow;
use std::str::FromStr;

/// How a file is laid out.
pub(super) struct Layout<'a> {
    /// How cells are kept apart.
    pub(super) cells: Cells,
    /// The columns, for a file without a head line.
    pub(super) fixed: Option<&'a [&'a str]>,
    /// Columns that must be there.
    pub(super) need: &'a [&'a str],
    /// A line that begins so is a remark.
    pub(super) remark: Option<char>,
}

/// What keeps cells apart.
#[derive(Clone, Copy)]
pub(super) enum Cells {
    Commas,
    Tabs,
    Spaces,
}

/// One row.
pub(super) struct Row<'a> {
    /// From 0.
    pub(super) row: u32,
    columns: &'a [String],
    cells: Vec<Cow<'a, str>>,
}

/// Reads every row of a file with `parse`.
pub(super) fn read<T>(
    file: &str,
    bytes: &[u8],
    on_bad: OnBadRow,
    layout: &Layout<'_>,
    mut parse: impl FnMut(&Row<'_>) -> Result<T, String>,
) -> Result<Read<T>, TraceError> {
    let (bytes, cut) = input::text(file, bytes, on_bad)?;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    // What is no text becomes U+FFFD, and the row that holds it is a bad one.
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text
        .lines()
        .zip(1u32..)
        .filter(|(l, _)| !l.trim().is_empty() && layout.remark.is_none_or(|c| !l.starts_with(c)));
    let columns: Vec<String> = match layout.fixed {
        Some(names) => names.iter().map(|n| (*n).to_string()).collect(),
        None => match lines.next() {
            Some((head, _)) => {
                split(head, layout.cells).iter().map(|c| c.trim().to_string()).collect()
            }
            None => return Err(TraceError::new(file, cut.unwrap_or("the file is empty".into()))),
        },
    };
    for need in layout.need {
        if !columns.iter().any(|c| c == need) {
            return Err(missing(file, need, &columns));
        }
    }
    let mut out = Read { items: Vec::new(), skipped: Vec::new() };
    let mut next = (0u32, 1u32);
    for ((line, number), row) in lines.zip(0u32..) {
        next = (row + 1, number + 1);
        let row = Row { row, columns: &columns, cells: split(line, layout.cells) };
        match row.complete(line).and_then(|()| parse(&row)) {
            Ok(item) => out.items.push(item),
            Err(message) => {
                let problem = RowProblem { row: row.row + 1, line: number, message };
                match on_bad {
                    OnBadRow::Stop => return Err(TraceError::of_row(file, problem)),
                    OnBadRow::Skip => out.skipped.push(problem),
                }
            }
        }
    }
    if let Some(message) = cut {
        out.skipped.push(RowProblem { row: next.0 + 1, line: next.1, message });
    }
    if out.items.is_empty() && out.skipped.is_empty() && layout.fixed.is_some() {
        return Err(TraceError::new(file, "the file is empty"));
    }
    Ok(out)
}

fn missing(file: &str, need: &str, columns: &[String]) -> TraceError {
    let there: Vec<String> = columns.iter().take(40).map(|c| shown(c)).collect();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let hint = match closest(need, &names) {
        Some(near) => format!("did you mean `{need}` where it says `{}`?", shown(near)),
        None => "the first line must name the columns".into(),
    };
    let message = format!("there is no column `{need}`; there are: {}", there.join(", "));
    TraceError::new(file, message).hint(hint)
}

fn split(line: &str, cells: Cells) -> Vec<Cow<'_, str>> {
    match cells {
        Cells::Tabs => line.split('\t').map(Cow::Borrowed).collect(),
        Cells::Spaces => line.split_whitespace().map(Cow::Borrowed).collect(),
        Cells::Commas if line.contains('"') => quoted(line),
        Cells::Commas => line.split(',').map(Cow::Borrowed).collect(),
    }
}

/// Cells of which some stand in quotes, as spreadsheets write them.
fn quoted(line: &str) -> Vec<Cow<'_, str>> {
    let mut out = Vec::new();
    let mut cell = String::new();
    let mut inside = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => inside = !inside,
            ',' if !inside => out.push(Cow::Owned(std::mem::take(&mut cell))),
            c => cell.push(c),
        }
    }
    out.push(Cow::Owned(cell));
    out
}

impl Row<'_> {
    fn complete(&self, line: &str) -> Result<(), String> {
        let (has, wants) = (self.cells.len(), self.columns.len());
        if has < wants {
            return Err(format!("{has} of {wants} columns; the file may be cut off"));
        }
        if line.contains('\u{fffd}') {
            return Err("it is not text (UTF-8)".into());
        }
        Ok(())
    }

    /// What stands in a column; nothing where it is empty or there is no such column.
    pub(super) fn get(&self, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|c| c == column)?;
        self.cells.get(at).map(|c| c.trim()).filter(|c| !c.is_empty())
    }

    /// What stands in a column that must not be empty.
    pub(super) fn text(&self, column: &str) -> Result<&str, String> {
        self.get(column).ok_or_else(|| format!("`{column}` is empty"))
    }

    /// A whole number.
    pub(super) fn number<T: FromStr>(&self, column: &str) -> Result<T, String> {
        let text = self.text(column)?;
        text.parse().map_err(|_| not(column, text, "a whole number"))
    }

    /// A length of time in units of so many seconds.
    pub(super) fn span(&self, column: &str, unit_s: u64) -> Result<Span, String> {
        let text = self.text(column)?;
        thousandths(text)
            .and_then(|ms| ms.checked_mul(unit_s))
            .filter(|ms| *ms <= CENTURIES)
            .map(Span)
            .ok_or_else(|| not(column, text, "a length of time"))
    }

    /// The same, where the cell may be empty.
    pub(super) fn maybe_span(&self, column: &str, unit_s: u64) -> Result<Option<Span>, String> {
        self.get(column).map(|_| self.span(column, unit_s)).transpose()
    }

    /// A moment written `2017-10-09 07:01:55`.
    pub(super) fn time(&self, column: &str) -> Result<Time, String> {
        let text = self.text(column)?;
        moment(text).ok_or_else(|| not(column, text, "a time like 2017-10-09 07:01:55"))
    }

    /// The same, where the cell may be empty.
    pub(super) fn maybe_time(&self, column: &str) -> Result<Option<Time>, String> {
        self.get(column).map(|_| self.time(column)).transpose()
    }

    /// `TRUE` or `FALSE`, where the cell may be empty.
    pub(super) fn maybe_flag(&self, column: &str) -> Result<Option<bool>, String> {
        match self.get(column) {
            None => Ok(None),
            Some("TRUE") => Ok(Some(true)),
            Some("FALSE") => Ok(Some(false)),
            Some(other) => Err(not(column, other, "TRUE or FALSE")),
        }
    }
}

/// Some logs count seconds since 1970; sums of two such numbers must not overflow.
const CENTURIES: u64 = 1000 * 366 * 86_400_000;

pub(super) fn not(column: &str, given: &str, want: &str) -> String {
    format!("`{column}` is `{}`, not {want}", shown(given))
}

/// A decimal number without sign or exponent; what is finer than a thousandth is dropped.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let part = part.bytes().chain(*b"000").take(3).fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// A time of the calendar, taken as UTC: the traces name no zone, and only differences count.
fn moment(text: &str) -> Option<Time> {
    let (date, clock) = text.split_once([' ', 'T'])?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if !(1970..3000).contains(&year) || hour >= 24 || minute >= 60 || second > 60 {
        return None;
    }
    let passed = ((hour * 60 + minute) * 60 + second) * 1000;
    Some(Time(calendar::day(year, month, day)?.0 + passed))
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(|p| {
        let plain = !p.is_empty() && p.len() <= 4 && p.bytes().all(|b| b.is_ascii_digit());
        if plain { p.parse().ok() } else { None }
    });
    let out = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout<'_> =
        Layout { cells: Cells::Commas, fixed: None, need: &["name", "gpus"], remark: None };

    fn pairs(bytes: &[u8], on_bad: OnBadRow) -> Result<Read<(String, u32)>, TraceError> {
        read("a.csv", bytes, on_bad, &LAYOUT, |r| Ok((r.text("name")?.into(), r.number("gpus")?)))
    }

    #[test]
    fn a_missing_column_is_named_with_what_is_there() {
        let e = pairs(b"name,gpu,model\nx,1,t4\n", OnBadRow::Skip).unwrap_err();
        assert_eq!(
            e.to_string(),
            "a.csv: there is no column `gpus`; there are: name, gpu, model\n  \
             hint: did you mean `gpus` where it says `gpu`?"
        );
        assert_eq!(
            pairs(b"\n\n", OnBadRow::Stop).unwrap_err().to_string(),
            "a.csv: the file is empty"
        );
    }

    #[test]
    fn a_short_row_stops_or_is_kept_in_the_list() {
        let text = b"name,gpus,x\na,1,\nb,2\n\nc,many,\n\xffd,4,\ne,5,\n";
        let e = pairs(text, OnBadRow::Stop).unwrap_err();
        assert_eq!(e.to_string(), "a.csv: row 2 (line 3): 2 of 3 columns; the file may be cut off");
        assert_eq!((e.row, e.line), (Some(2), Some(3)));
        let read = pairs(text, OnBadRow::Skip).unwrap();
        assert_eq!(read.items, [("a".into(), 1), ("e".into(), 5)]);
        let said: Vec<String> = read.skipped.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "row 2 (line 3): 2 of 3 columns; the file may be cut off",
                "row 3 (line 5): `gpus` is `many`, not a whole number",
                "row 4 (line 6): it is not text (UTF-8)",
            ]
        );
    }

    #[test]
    fn of_a_cut_off_gzip_only_whole_rows_are_used_and_only_on_demand() {
        let rows: String = (0..5000).map(|i| format!("n{i},{}\n", i * 7919 % 10_007)).collect();
        let gz = input::packed(format!("name,gpus\n{rows}").as_bytes());
        let half = &gz[..gz.len() / 2];
        let e = pairs(half, OnBadRow::Stop).unwrap_err().to_string();
        assert!(e.starts_with("a.csv: the gzip data ends early"), "{e}");
        let read = pairs(half, OnBadRow::Skip).unwrap();
        assert!(!read.items.is_empty() && read.items.len() < 5000);
        for (i, (_, gpus)) in read.items.iter().enumerate() {
            assert_eq!(*gpus as usize, i * 7919 % 10_007);
        }
        let [only] = &read.skipped[..] else { panic!("{:?}", read.skipped) };
        assert_eq!(only.row as usize, read.items.len() + 1);
        assert!(only.message.contains("ends early"));
    }

    #[test]
    fn quotes_are_understood() {
        let read = pairs(b"\"name\",gpus\r\n\"a, \"\"b\"\"\",3\r\n", OnBadRow::Stop).unwrap();
        assert_eq!(read.items, [("a, \"b\"".into(), 3)]);
    }

    #[test]
    fn times_of_the_calendar() {
        let at = |t| moment(t).map(|t| t.0 / 1000);
        assert_eq!(at("1970-01-01 00:00:00"), Some(0));
        assert_eq!(at("2017-10-09 07:01:55"), Some(1_507_532_515));
        assert_eq!(at("2016-02-29T23:59:59"), Some(1_456_790_399));
        assert_eq!(at("2000-03-01 00:00:00"), Some(951_868_800));
        for bad in ["2017-02-29 00:00:00", "2017-13-01 00:00:00", "2017-00-01 00:00:00", "x", ""] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert_eq!(thousandths("66.0"), Some(66_000));
        assert_eq!(thousandths("0.4567"), Some(456));
        for bad in ["", ".5", "-1", "1e3", "99999999999999999999", "1.2.3"] {
            assert_eq!(thousandths(bad), None, "{bad}");
        }
    }
}
