//! Public traces, read row by row.
