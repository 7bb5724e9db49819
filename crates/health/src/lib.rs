//! What is known of how often hardware fails, and what follows from it: how often to write
//! checkpoints, how many spares to hold, what a job can expect.
