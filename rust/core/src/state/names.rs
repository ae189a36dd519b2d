//! Names of functions, each with a number for trace records.
//!
//! # Roles
//! Any thread adds names and reads them.
//!
//! # States
//! A name keeps its number for good.
//!
//! # Orderings
//! The lock's.
//!
//! # Checked by
//! `tests/messages.rs`, `tests/message.rs`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::{
    state::mfa::Mfa,
    sync::{RwLock, Unpoisoned},
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// All names that were ever traced. Their number is bounded by the program's names.
#[derive(Default)]
pub struct Names(RwLock<Table>);

#[derive(Default)]
struct Table {
    numbers: FxHashMap<Arc<Mfa>, u32>,
    names: Vec<Arc<Mfa>>,
}

impl Names {
    /// The number of a name; adds the name if it is new.
    pub fn number(&self, name: &Arc<Mfa>) -> u32 {
        if let Some(n) = self.0.read().unpoisoned().numbers.get(name) {
            return *n;
        }
        let mut table = self.0.write().unpoisoned();
        if let Some(n) = table.numbers.get(name) {
            return *n;
        }
        let number = table.names.len() as u32;
        table.names.push(name.clone());
        table.numbers.insert(name.clone(), number);
        number
    }

    /// The number of a name, if it was traced before.
    #[must_use]
    pub fn known(&self, name: &Mfa) -> Option<u32> {
        self.0.read().unpoisoned().numbers.get(name).copied()
    }

    /// The name with this number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<Arc<Mfa>> {
        self.0.read().unpoisoned().names.get(number as usize).cloned()
    }
}
