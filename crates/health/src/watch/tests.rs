//! What the watch says of rows and steps.
