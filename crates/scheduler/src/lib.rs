//! Which work runs where, when, and why not.
