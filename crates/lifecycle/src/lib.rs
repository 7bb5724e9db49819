//! Where each node stands, and which steps are allowed.
