//! Applies an operation to one setting.
#![forbid(unsafe_code)]

use super::{settle::Leftovers, Op};
use crate::{
    count::latency::Latency,
    state::{
        control::Control,
        node::Node,
        setting::{kinds, Setting},
    },
    sync::{mutants::mutant, Unpoisoned},
};
use inviso_match::Program;
use std::sync::Arc;

fn same(a: &Option<Arc<Program>>, b: &Option<Arc<Program>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

impl Node {
    /// Applies an operation to these kinds of a setting; `false` if that changes nothing. Rules: trace.md `function/4`; gold
    /// README 23, 25, 26.
    pub(super) fn apply(
        &self, control: &mut Control, setting: &mut Setting, kinds: u16, op: &Op, left: &mut Leftovers,
    ) -> bool {
        setting.gather();
        let before = (setting.has, setting.run);
        let specs = [setting.spec.clone(), setting.meta_spec.clone()];
        let mut renewed = false;
        for kind in [kinds::COUNT, kinds::TIME, kinds::MEMORY, kinds::LATENCY, kinds::LOCAL, kinds::GLOBAL, kinds::META]
        {
            if kinds & kind == 0 {
                continue;
            }
            let counter = kind & kinds::COUNTERS != 0;
            match op {
                Op::Off => self.remove(setting, kind, left),
                Op::Pause if counter => setting.run &= !kind,
                Op::Restart if counter && setting.has & kind == 0 => {}
                _ => {
                    let rivals = if kind == kinds::GLOBAL { !kinds::GLOBAL } else { kinds::GLOBAL };
                    for rival in 0..16 {
                        self.remove(setting, rivals & 1 << rival, left);
                    }
                    if counter {
                        self.remove(setting, kind, left);
                        self.renew(control, setting, kind);
                        renewed = true;
                    }
                    let spec = if let Op::Match(spec) = op { Some(spec.clone()) } else { None };
                    match kind {
                        kinds::META => {
                            setting.meta_spec = spec;
                            setting.renew_meta();
                        }
                        kinds::LOCAL | kinds::GLOBAL => setting.spec = spec,
                        _ => {}
                    }
                    setting.has |= kind;
                    setting.run |= kind;
                }
            }
        }
        let other_spec = !same(&specs[0], &setting.spec) || !same(&specs[1], &setting.meta_spec);
        let (restarted, paused) = (renewed, before.1 & !setting.run != 0);
        #[allow(clippy::nonminimal_bool)] // a mutant's test is a constant
        if restarted && !mutant!("restart_unsettled") || paused && !mutant!("pause_unsettled") {
            left.changed_running = true;
        }
        if other_spec && before.1 & kinds::MESSAGES != 0 {
            left.changed_running = true;
        }
        renewed || other_spec || before != (setting.has, setting.run)
    }

    fn remove(&self, setting: &mut Setting, kind: u16, left: &mut Leftovers) {
        if setting.has & kind & kinds::COUNT != 0 {
            left.counters.push(setting.count);
        }
        match kind {
            kinds::LATENCY => setting.latency = None,
            kinds::META => (setting.meta_spec, setting.meta_lost) = (None, None),
            _ => {}
        }
        setting.has &= !kind;
        setting.run &= !kind;
        if setting.has & (kinds::LOCAL | kinds::GLOBAL) == 0 {
            setting.spec = None;
        }
    }

    fn renew(&self, control: &mut Control, setting: &mut Setting, kind: u16) {
        match kind {
            kinds::COUNT => {
                let mut threads = self.threads.lock().unpoisoned();
                let live = threads.live.clone();
                setting.count = threads.pool.take(|c| live.iter().map(|t| t.counts.read(c)).sum());
            }
            kinds::TIME => setting.time = control.generation(),
            kinds::MEMORY => setting.memory = control.generation(),
            _ => setting.latency = Some(Arc::new(Latency::default())),
        }
    }
}
