//! Messages from sending to receipt: finds the pairs, and passes them on to the rows of a table.
//!
//! A message becomes a row when it is received or given up: at the end, or when too many are pending. A receipt without a sending
//! in the trace is a row, too; its cells about the sending are null. Events of tokens (`seq_trace`) fill cells of the message
//! that carried the token.

use super::{
    message_rows::{Carried, MessageRows, SentMessage},
    state::Class,
    Moment, Options, Rows, Sheet, State,
};
use crate::{
    event::{Event, Seq, Trace, What},
    pairs::{self, Pairing, Pairs},
    scan::Bytes,
};
use inviso_term::record::{numbered::MessageKind, Kind};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The largest number of pending messages. The oldest ones above it are given up.
const UNDER_WAY: usize = 1 << 18;

/// A sending, borrowed from its event.
struct Sending<'a> {
    from: Bytes<'a>,
    to: Bytes<'a>,
    value: Bytes<'a>,
    said: MessageKind,
}

/// A receipt without a number, kept until the next message of its process: that may be an event of its token.
struct Held {
    receiver: i64,
    tracee: Box<[u8]>,
    value: Box<[u8]>,
    at: Option<i64>,
}

/// Receipts of messages from another operating system process whose sendings come later in the trace. This happens because a
/// `put` is recorded after its success, and because clocks differ.
#[derive(Default)]
struct EarlyReceipts {
    receipts: FxHashMap<u64, Held>,
    order: VecDeque<u64>,
}

/// Replaces the serial of a message's token while its receipt is in [`EarlyReceipts`].
const EARLY: i64 = i64::MIN;

/// Builds a table of messages.
pub struct Messages {
    pairs: Pairs<SentMessage>,
    rows: MessageRows,
    count: i64,
    /// The last message that each process sent, until its next event.
    last_sent: FxHashMap<i64, u64>,
    /// The serial of the token of each process's last received message. An event of that token is not another message.
    last_received: FxHashMap<i64, Option<i64>>,
    held: FxHashMap<i64, Held>,
    early: EarlyReceipts,
}

impl Messages {
    /// Builds the table of this name; None for an unknown one.
    pub fn new(table: &str, options: &Options) -> Option<Messages> {
        let rows = MessageRows::new(table, options)?;
        Some(Messages {
            pairs: Pairs::new(UNDER_WAY, options.erlang),
            rows,
            count: 0,
            last_sent: FxHashMap::default(),
            last_received: FxHashMap::default(),
            held: FxHashMap::default(),
            early: EarlyReceipts::default(),
        })
    }

    fn id(&mut self) -> i64 {
        self.count += 1;
        self.count - 1
    }

    /// The kind of a message: the one that its sender recorded, else the one of its destination.
    fn kind(said: MessageKind, class: Class) -> &'static str {
        match (said, class) {
            (MessageKind::Call, _) => "call",
            (MessageKind::Result, _) => "result",
            (MessageKind::Exception, _) => "exception",
            (MessageKind::Item, Class::Queue) => "item",
            (MessageKind::Item, Class::Port) => "port",
            (MessageKind::Item, Class::Thread | Class::Task | Class::Name) => "message",
        }
    }

    fn sending(
        &mut self, Sending { from, to, value, said }: Sending<'_>, at: Option<i64>, state: &mut State,
        sheet: &mut Sheet,
    ) -> SentMessage {
        let (sender, channel, class) = (state.key(from), state.key(to), state.class(to));
        let depth = self.rows.add_sending(channel, to, class);
        let content = if self.rows.has_rows() { state.show(value) } else { "" };
        let content = content.into();
        self.rows.depth(channel, depth + 1, at, state, sheet);
        SentMessage {
            id: self.count,
            sender: Some(sender),
            channel: Some(channel),
            kind: Self::kind(said, class),
            at,
            depth: Some(depth),
            content,
            size: value.len() as i64,
            carried: None,
        }
    }

    fn drop_oldest(&mut self, all: bool, state: &mut State, sheet: &mut Sheet) {
        while let Some((_, sent)) = self.pairs.forget(all) {
            self.rows.row(sent, None, "none", state, sheet);
        }
    }

    /// Gives up receipts whose sendings do not come.
    fn drop_oldest_receipts(&mut self, all: bool, state: &mut State, sheet: &mut Sheet) {
        while let Some(held) = self.early.forget(all) {
            let receipt = Receipt { receiver: held.receiver, value: &held.value, at: held.at };
            self.received(None, receipt, Pairing::Exact, state, sheet);
        }
    }

    fn received(
        &mut self, found: Option<(u64, SentMessage)>, receipt: Receipt<'_>, pairing: Pairing, state: &mut State,
        sheet: &mut Sheet,
    ) {
        let Receipt { receiver, value, at } = receipt;
        let (sent, pairing) = match found {
            Some((_, sent)) => {
                let word = match pairing {
                    Pairing::Exact => "exact",
                    Pairing::Serial => "serial",
                    Pairing::Content => "content",
                };
                (sent, word)
            }
            None => {
                let id = self.id();
                let kind = if is_timeout(value) { "timeout" } else { "message" };
                let content = if self.rows.has_rows() { state.show(value) } else { "" };
                (
                    SentMessage {
                        id,
                        kind,
                        content: content.into(),
                        size: value.len() as i64,
                        ..SentMessage::default()
                    },
                    "none",
                )
            }
        };
        self.last_received.insert(receiver, sent.carried.as_ref().map(|carried| carried.current));
        self.rows.row(sent, Some((receiver, at)), pairing, state, sheet);
    }

    /// A process's held receipt has no token: finds its sending by the contents.
    fn match_by_contents(&mut self, receiver: i64, state: &mut State, sheet: &mut Sheet) {
        let Some(held) = self.held.remove(&receiver) else { return };
        let found = self.pairs.alike(&held.tracee, &held.value);
        let receipt = Receipt { receiver: held.receiver, value: &held.value, at: held.at };
        self.received(found, receipt, Pairing::Content, state, sheet);
    }

    fn trace(&mut self, trace: &Trace<'_>, at: Option<i64>, state: &mut State, sheet: &mut Sheet) {
        let is_send = trace.kind == Some(Kind::Send);
        if !is_send && trace.kind != Some(Kind::Receive) {
            return;
        }
        let Some(value) = trace.value else { return };
        let own = state.key(trace.tracee);
        if !self.held.is_empty() {
            self.match_by_contents(own, state, sheet);
        }
        if is_send {
            let Some(to) = trace.other else { return };
            let said = trace.number.map_or(MessageKind::Item, |number| number.kind);
            let sent = self.sending(Sending { from: trace.tracee, to, value, said }, at, state, sheet);
            self.count += 1;
            if let Some(held) = self.early.remove(trace) {
                let receipt = Receipt { receiver: held.receiver, value: &held.value, at: held.at };
                self.received(Some((0, sent)), receipt, Pairing::Exact, state, sheet);
            } else if let Some(place) = self.pairs.sent(trace, sent) {
                self.last_sent.insert(own, place);
            }
            return self.drop_oldest(false, state, sheet);
        }
        let held = || Held { receiver: own, tracee: trace.tracee.into(), value: value.into(), at };
        if let Some(number) = trace.number {
            let found = self.pairs.numbered(trace);
            // a second receipt of one message: its bytes were passed on
            if found.is_none() && number.sender != 0 && !self.early.has(trace) {
                self.early.add(trace, held());
                self.last_received.insert(own, Some(EARLY));
                return self.drop_oldest_receipts(false, state, sheet);
            }
            return self.received(found, Receipt { receiver: own, value, at }, Pairing::Exact, state, sheet);
        }
        self.held.insert(own, held());
    }

    fn seq(&mut self, seq: &Seq<'_>, at: Option<i64>, state: &mut State, sheet: &mut Sheet) {
        let (Some((previous, current)), Some(from), Some(to), Some(value)) = (seq.serial, seq.from, seq.to, seq.value)
        else {
            return;
        };
        let carried = |state: &mut State| Carried { label: state.show(seq.label).into(), previous, current };
        match seq.word {
            b"send" => {
                let carried = carried(state);
                let sending = Sending { from, to, value, said: MessageKind::Item };
                self.seq_sent(seq, sending, carried, at, state, sheet);
            }
            b"receive" => {
                let receiver = state.key(to);
                let last = self.last_received.remove(&receiver);
                if let Some(held) = self.held.remove(&receiver) {
                    return self.seq_received_held(seq, &held, state, sheet);
                }
                // the row of the receipt exists already
                if last == Some(Some(current)) || last == Some(Some(EARLY)) {
                    return;
                }
                let found = self.pairs.with(seq);
                let carried = carried(state);
                let receipt = Receipt { receiver, value, at };
                match found {
                    Some(found) => self.received(Some(found), receipt, Pairing::Serial, state, sheet),
                    None => {
                        let id = self.id();
                        let sender = Some(state.key(from));
                        let content = state.show(value).into();
                        let size = value.len() as i64;
                        let carried = Some(carried);
                        let kind = "message";
                        let sent = SentMessage { id, sender, kind, content, size, carried, ..SentMessage::default() };
                        self.rows.row(sent, Some((receiver, at)), "none", state, sheet);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a token to the message that carried it: the process's last one, if it has the same destination. Else adds a message.
    fn seq_sent(
        &mut self, seq: &Seq<'_>, sending: Sending<'_>, carried: Carried, at: Option<i64>, state: &mut State,
        sheet: &mut Sheet,
    ) {
        let (sender, channel) = (state.key(sending.from), state.key(sending.to));
        let known = self.last_sent.remove(&sender);
        if let Some(sent) = known.and_then(|place| self.pairs.carries(place, seq)) {
            if sent.channel == Some(channel) && sent.carried.is_none() {
                sent.carried = Some(carried);
                return;
            }
        }
        let mut sent = self.sending(sending, at, state, sheet);
        self.count += 1;
        sent.carried = Some(carried);
        self.pairs.sent_with(seq, sent);
        self.drop_oldest(false, state, sheet);
    }

    /// Adds the held receipt of a token's message.
    fn seq_received_held(&mut self, seq: &Seq<'_>, held: &Held, state: &mut State, sheet: &mut Sheet) {
        let receipt = Receipt { receiver: held.receiver, value: &held.value, at: held.at };
        match self.pairs.with(seq) {
            Some(found) => self.received(Some(found), receipt, Pairing::Serial, state, sheet),
            None => {
                let found = self.pairs.alike(&held.tracee, &held.value);
                self.received(found, receipt, Pairing::Content, state, sheet);
            }
        }
    }
}

impl EarlyReceipts {
    fn add(&mut self, trace: &Trace<'_>, held: Held) {
        if let Some(key) = pairs::numbered(trace) {
            self.receipts.insert(key, held);
            self.order.push_back(key);
        }
    }

    fn has(&self, trace: &Trace<'_>) -> bool {
        pairs::numbered(trace).is_some_and(|key| self.receipts.contains_key(&key))
    }

    /// Removes the receipt of this sending.
    fn remove(&mut self, trace: &Trace<'_>) -> Option<Held> {
        if self.receipts.is_empty() {
            return None;
        }
        self.receipts.remove(&pairs::numbered(trace)?)
    }

    /// Removes the oldest receipt if there are too many, or at the end.
    fn forget(&mut self, all: bool) -> Option<Held> {
        while all || self.order.len() > UNDER_WAY {
            let key = self.order.pop_front()?;
            if let Some(held) = self.receipts.remove(&key) {
                return Some(held);
            }
        }
        None
    }
}

/// The receiver, contents and time of a receipt.
struct Receipt<'a> {
    receiver: i64,
    value: &'a [u8],
    at: Option<i64>,
}

/// Whether the contents are the atom for a receive that timed out.
fn is_timeout(value: Bytes<'_>) -> bool {
    crate::scan::Scan(value).name() == Some(b"timeout")
}

impl Rows for Messages {
    #[inline]
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let at = at.is_known.then_some(at.at);
        match event.what {
            What::Trace(trace) => self.trace(&trace, at, state, sheet),
            What::Seq(seq) => self.seq(&seq, at, state, sheet),
            _ => {}
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        let mut held: Vec<_> = self.held.keys().copied().collect();
        held.sort_unstable();
        for receiver in held {
            self.match_by_contents(receiver, state, sheet);
        }
        self.drop_oldest_receipts(true, state, sheet);
        self.drop_oldest(true, state, sheet);
        self.rows.end(state, sheet);
    }
}
