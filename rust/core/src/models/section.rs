//! Sections: a replacement waits for threads that are inside. A thread that enters later sees the new value.

use super::{
    current::{bodies, read, Version},
    explore,
};
use crate::sync::{
    current::Current,
    grace::{pin, wait},
    section::{self, Section},
    thread, Arc,
};
use crossbeam_epoch::Collector;

#[test]
fn either_it_is_seen_inside_or_it_sees_the_new_value() {
    explore(2, 20, &["old", "new"], |seen| {
        let (collector, bodies, section) = (Collector::new(), bodies(), Section::take());
        let current = Arc::new(Current::new(Version::make(0, &bodies)));
        let reader = thread::spawn({
            let (current, bodies) = (current.clone(), bodies.clone());
            move || {
                let inside = section.enter();
                read(current.load_inside(&inside), &bodies)
            }
        });
        let local = collector.register();
        let retired = current.swap(Version::make(1, &bodies), &pin(&local));
        section::wait([section]);
        retired.free(&wait(&local));
        let number = reader.join().unwrap();
        seen.note("old", number == 0);
        seen.note("new", number == 1);
    });
}
