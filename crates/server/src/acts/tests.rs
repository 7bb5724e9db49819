//! Acts outside the log, without a brain: files, webhooks, commands.
