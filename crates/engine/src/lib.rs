//! The brain: command or tick in, events and desired state out.
