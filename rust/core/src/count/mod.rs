//! Counters of calls: cells, counts of threads, histograms of latency.

pub mod cells;
pub mod counts;
pub mod latency;
