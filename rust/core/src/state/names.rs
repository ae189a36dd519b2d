//! Names of functions, each with a number that fits a trace record.
#![forbid(unsafe_code)]

use crate::{
    state::mfa::Mfa,
    sync::{RwLock, Unpoisoned},
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// All names that were ever traced: as many as the program has names, however often they are traced.
#[derive(Default)]
pub struct Names(RwLock<Table>);

#[derive(Default)]
struct Table {
    numbers: FxHashMap<Arc<Mfa>, u32>,
    names: Vec<Arc<Mfa>>,
}

impl Names {
    /// The number of a name.
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

    /// The number of a name that was traced before.
    #[must_use]
    pub fn known(&self, name: &Mfa) -> Option<u32> {
        self.0.read().unpoisoned().numbers.get(name).copied()
    }

    /// The name of a number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<Arc<Mfa>> {
        self.0.read().unpoisoned().names.get(number as usize).cloned()
    }
}
