//! A node's eyes and hands: inventory, running ranks, logs, the job's voice.
