//! Counters of calls: their cells, a thread's own counts, histograms of latency.

pub mod cells;
pub mod counts;
pub mod latency;
