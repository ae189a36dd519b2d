//! The records that wait for the client of an IP port.

use crate::frame;
use std::{collections::VecDeque, io};

/// Records, at most `limit` of them terms. Later terms are counted after them. While there is a client, one term may be in the
/// queue whatever the limit.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Terms in `waiting`, and those that are being sent.
    terms: usize,
    limit: usize,
    has_client: bool,
    /// Terms that were refused or not sent.
    lost: u64,
}

#[derive(Debug)]
enum Waiting {
    /// A whole record.
    Term(Vec<u8>),
    /// This many messages were lost here.
    Dropped(u64),
}

/// Records that are being sent, as bytes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// The end of each record in `bytes`, and the number of messages that a drop record counts (`None` for a term).
    ends: Vec<(usize, Option<u64>)>,
    terms: usize,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        Queue { waiting: VecDeque::new(), terms: 0, limit, has_client: false, lost: 0 }
    }

    pub(crate) fn term(&mut self, term: &[u8]) -> io::Result<()> {
        if self.is_full() {
            self.dropped(1);
            self.lost += 1;
            return Ok(());
        }
        let mut record = Vec::new();
        frame::put_term(&mut record, term)?;
        self.waiting.push_back(Waiting::Term(record));
        self.terms += 1;
        Ok(())
    }

    pub(crate) fn dropped(&mut self, n: u64) {
        match self.waiting.back_mut() {
            Some(Waiting::Dropped(before)) => *before = before.saturating_add(n),
            _ if n > 0 => self.waiting.push_back(Waiting::Dropped(n)),
            _ => {}
        }
    }

    /// Whether there is a client now.
    pub(crate) fn set_client(&mut self, has_client: bool) {
        self.has_client = has_client;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.terms >= self.limit.max(usize::from(self.has_client))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn terms(&self) -> usize {
        self.terms
    }

    /// Moves the first records, of about this many bytes, to the batch. They keep their place until [`Queue::sent`].
    pub(crate) fn move_to(&mut self, bytes: usize, batch: &mut Batch) {
        batch.bytes.clear();
        batch.ends.clear();
        batch.terms = 0;
        while batch.bytes.len() < bytes {
            let dropped = match self.waiting.pop_front() {
                Some(Waiting::Term(record)) => {
                    batch.bytes.extend_from_slice(&record);
                    batch.terms += 1;
                    None
                }
                Some(Waiting::Dropped(n)) => {
                    frame::put_dropped(&mut batch.bytes, n);
                    Some(n)
                }
                None => return,
            };
            batch.ends.push((batch.bytes.len(), dropped));
        }
    }

    /// Ends a batch of which this many bytes were sent. The messages of the rest are lost.
    pub(crate) fn sent(&mut self, batch: &Batch, bytes: usize) {
        self.terms -= batch.terms;
        let rest = batch.ends.iter().filter(|(end, _)| *end > bytes);
        let mut lost: u64 = 0;
        for (_, dropped) in rest {
            lost = lost.saturating_add(dropped.unwrap_or(1));
            self.lost += u64::from(dropped.is_none());
        }
        match self.waiting.front_mut() {
            Some(Waiting::Dropped(after)) => *after = after.saturating_add(lost),
            _ if lost > 0 => self.waiting.push_front(Waiting::Dropped(lost)),
            _ => {}
        }
    }

    /// Counts the waiting records as lost.
    pub(crate) fn give_up(&mut self) {
        self.lost += self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::Term(_))).count() as u64;
    }

    /// Terms that were refused or not sent.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// How many messages wait, or were lost and not reported.
    pub(crate) fn messages(&self) -> u64 {
        self.waiting.iter().fold(0, |sum: u64, waiting| match waiting {
            Waiting::Term(_) => sum.saturating_add(1),
            Waiting::Dropped(n) => sum.saturating_add(*n),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &mut Queue) -> Vec<u8> {
        let mut batch = Batch::default();
        queue.move_to(usize::MAX, &mut batch);
        queue.sent(&batch, batch.bytes.len());
        batch.bytes
    }

    fn term(n: u8) -> Vec<u8> {
        vec![0, 0, 0, 0, 3, 131, 97, n]
    }

    #[test]
    fn the_oldest_are_kept_and_the_rest_is_counted_after_them() {
        let mut queue = Queue::new(2);
        (0..5).for_each(|n| queue.term(&[97, n]).unwrap());
        assert_eq!(queue.messages(), 5);
        assert_eq!(all(&mut queue), [term(0), term(1), vec![1, 0, 0, 0, 3]].concat());
        assert!(queue.is_empty());
        (0..2).for_each(|n| queue.term(&[97, n]).unwrap());
        assert_eq!(all(&mut queue), [term(0), term(1)].concat());
    }

    #[test]
    fn records_being_sent_keep_their_place_until_they_are_sent() {
        let mut queue = Queue::new(2);
        (0..2).for_each(|n| queue.term(&[97, n]).unwrap());
        let mut batch = Batch::default();
        queue.move_to(1, &mut batch);
        assert_eq!(batch.bytes, term(0));
        queue.term(&[97, 2]).unwrap();
        queue.sent(&batch, batch.bytes.len());
        queue.term(&[97, 3]).unwrap();
        assert_eq!(queue.lost(), 1);
        assert_eq!(all(&mut queue), [term(1), vec![1, 0, 0, 0, 1], term(3)].concat());
    }

    #[test]
    fn a_partly_sent_record_is_lost_and_reported_first() {
        let mut queue = Queue::new(9);
        queue.dropped(5);
        (0..3).for_each(|n| queue.term(&[97, n]).unwrap());
        let mut batch = Batch::default();
        queue.move_to(16, &mut batch);
        assert_eq!(batch.bytes.len(), 21);
        queue.sent(&batch, 20);
        assert_eq!(queue.lost(), 1);
        assert_eq!(all(&mut queue), [vec![1, 0, 0, 0, 1], term(2)].concat());
        queue.dropped(4);
        queue.move_to(16, &mut batch);
        queue.dropped(1);
        queue.sent(&batch, 0);
        assert_eq!(queue.messages(), 5);
        assert_eq!(all(&mut queue), [1, 0, 0, 0, 5]);
    }

    #[test]
    fn a_queue_without_places_drops_everything() {
        let mut queue = Queue::new(0);
        queue.term(&[106]).unwrap();
        queue.dropped(0);
        assert_eq!(all(&mut queue), [1, 0, 0, 0, 1]);
        queue.dropped(0);
        assert!(queue.is_empty());
        queue.set_client(true);
        (1..3).for_each(|n| queue.term(&[97, n]).unwrap());
        assert_eq!(all(&mut queue), [term(1), vec![1, 0, 0, 0, 1]].concat());
    }
}
