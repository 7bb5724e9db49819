//! The watch between feed and log.
