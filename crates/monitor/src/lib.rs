//! What a node sees of itself: samples of its devices and host, the kernel log, and the exporter.
