//! Trace logs.
