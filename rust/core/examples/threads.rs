//! A program with three threads and its own trace points. One session counts calls, another collects messages.
//!
//! `cargo run -p inviso-core --example threads`

use inviso_core::{drain, kinds, lost, Class, Error, Flags, Op, Options, Point, Program, What, Who};
use inviso_term::{etf::decode, record::Kind};
use std::thread;

/// The traceable functions of this program.
struct Shop {
    order: Point,
    pack: Point,
}

impl Shop {
    fn order(&self, customer: &str, items: u64) -> u64 {
        let _call = self.order.enter(|out| {
            out.str(customer)?;
            out.int(items as i64)
        });
        (1..=items).map(|n| self.pack(n)).sum()
    }

    fn pack(&self, item: u64) -> u64 {
        let _call = self.pack.enter(|out| out.int(item as i64));
        (0..1_000).fold(item, |weight, n| weight ^ n)
    }
}

fn main() -> Result<(), Error> {
    let program = Program::new();
    let shop = Shop { order: program.point("shop", "order", 2), pack: program.point("shop", "pack", 1) };

    let counters = program.session("counters", Options::default())?;
    program.flags(&counters, Who::All(Class::Process), true, Flags::CALL)?;
    program.function(&counters, &[&shop.order, &shop.pack], kinds::COUNT | kinds::TIME, Op::On)?;

    let messages = program.session("messages", Options::default())?;
    program.flags(&messages, Who::New(Class::Process), true, Flags::CALL | Flags::MONOTONIC_TIMESTAMP)?;
    program.function(&messages, &[&shop.order], kinds::LOCAL, Op::On)?;

    thread::scope(|scope| {
        for (customer, items) in [("ann", 3), ("ben", 40), ("cy", 500)] {
            let shop = &shop;
            scope.spawn(move || (0..4).map(|n| shop.order(customer, items + n)).sum::<u64>());
        }
    });

    for point in [&shop.order, &shop.pack] {
        let name = point.name();
        let calls = program.count(&counters, point).unwrap_or_default();
        println!("{}:{}/{} was called {calls} times", name.module, name.function, name.arity);
        for (pid, calls, nanos) in program.time(&counters, point).unwrap_or_default() {
            println!("    process {:3}: {calls:5} calls, own time {:6} us", pid >> 2, nanos / 1000);
        }
    }

    drain(&messages, usize::MAX, |record| match record.what {
        What::Event(event) if event.kind == Kind::Call as u8 => {
            let name = program.name(event.what).map_or_else(|| "?".into(), |name| name.function.clone());
            let arguments = decode(&event.payload).map_or_else(|e| e.to_string(), |term| format!("{term:?}"));
            println!("{:9} ns, process {:3} calls {name} {arguments}", program.nanos(record.ticks), event.tracee >> 2);
        }
        What::Event(event) => println!("an event of kind {}", event.kind),
        What::Lost(count) => println!("{count} messages were lost here"),
    })
    .unwrap_or_default();
    println!("{} messages lost", lost(&messages));

    program.destroy(&messages);
    program.destroy(&counters);
    Ok(())
}
