//! Messages from sending to receipt: the messages, their channels, who talks to whom, how long they waited, how many waited.
//!
//! A message becomes a row when it is received or given up: at the end, or when too many are pending. A receipt without a sending
//! in the trace is a row, too; its cells about the sending are null. Events of tokens (`seq_trace`) fill cells of the message
//! that carried the token.

use super::{state::Class, Moment, Options, Rows, Sheet, State};
use crate::{
    event::{Event, Seq, Trace, What},
    pairs::{self, Pairing, Pairs},
    scan::Bytes,
    table::Type,
};
use inviso_term::record::{numbered::MessageKind, Kind};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

pub const MESSAGES: &[(&str, Type)] = &[
    ("message_id", Type::Int64),
    ("node", Type::Names),
    ("sender_id", Type::Int64),
    ("channel_id", Type::Int64),
    ("receiver_id", Type::Int64),
    ("kind", Type::Names),
    ("sent", Type::Time),
    ("sent_mono_ns", Type::Int64),
    ("received", Type::Time),
    ("received_mono_ns", Type::Int64),
    ("wait_ns", Type::Int64),
    ("depth_at_send", Type::Int64),
    ("content", Type::Text),
    ("size_bytes", Type::Int64),
    ("seq_label", Type::Names),
    ("seq_previous", Type::Int64),
    ("seq_current", Type::Int64),
    ("pairing", Type::Names),
];

pub const CHANNELS: &[(&str, Type)] = &[
    ("channel_id", Type::Int64),
    ("node", Type::Names),
    ("pid", Type::Text),
    ("kind", Type::Names),
    ("class", Type::Names),
    ("name", Type::Text),
    ("maxsize", Type::Int64),
    ("sent", Type::Int64),
    ("received", Type::Int64),
    ("deepest", Type::Int64),
];

pub const TALKS: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("sender_id", Type::Int64),
    ("channel_id", Type::Int64),
    ("receiver_id", Type::Int64),
    ("messages", Type::Int64),
    ("bytes", Type::Int64),
    ("wait_ns", Type::Int64),
    ("longest_ns", Type::Int64),
];

pub const WAITS: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("of_id", Type::Int64),
    ("messages", Type::Int64),
    ("never_received", Type::Int64),
    ("p50_ns", Type::Int64),
    ("p90_ns", Type::Int64),
    ("p99_ns", Type::Int64),
    ("longest_ns", Type::Int64),
];

pub const DEPTHS: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("channel_id", Type::Int64),
    ("at", Type::Time),
    ("at_mono_ns", Type::Int64),
    ("depth", Type::Int64),
];

/// The largest number of pending messages. The oldest ones above it are given up.
const UNDER_WAY: usize = 1 << 18;

/// The contents of a token.
#[derive(Clone, Debug)]
struct Carried {
    label: Box<str>,
    previous: i64,
    current: i64,
}

/// The facts of a sending, or of a receipt without a sending.
#[derive(Debug, Default)]
struct SentMessage {
    id: i64,
    sender: Option<i64>,
    channel: Option<i64>,
    kind: &'static str,
    at: Option<i64>,
    depth: Option<i64>,
    content: Box<str>,
    size: i64,
    carried: Option<Carried>,
}

/// A sending, borrowed from its event.
struct Sending<'a> {
    from: Bytes<'a>,
    to: Bytes<'a>,
    value: Bytes<'a>,
    said: MessageKind,
}

/// A destination of messages.
#[derive(Debug)]
struct Channel {
    /// Its pid, port or name.
    of: Box<[u8]>,
    title: Box<str>,
    class: Class,
    under_way: i64,
    sent: i64,
    received: i64,
    deepest: i64,
}

/// The kind of table.
enum Output {
    /// A row for each message.
    Rows,
    /// A row for each channel.
    Channels,
    /// A row for each sender, channel and receiver.
    Talks(FxHashMap<[Option<i64>; 3], Talk>),
    /// A row for each channel, sender or receiver.
    Waits(By, FxHashMap<i64, (Vec<i64>, i64)>),
    /// A row for each change of a channel's depth; of one channel, or of all.
    Depths(Option<i64>),
}

/// The key that messages are grouped by.
#[derive(Clone, Copy)]
enum By {
    Channel,
    Sender,
    Receiver,
}

#[derive(Default)]
struct Talk {
    messages: i64,
    bytes: i64,
    wait: i64,
    longest: Option<i64>,
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
    channels: FxHashMap<i64, Channel>,
    output: Output,
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
        let output = match table {
            "messages" => Output::Rows,
            "channels" => Output::Channels,
            "talks" => Output::Talks(FxHashMap::default()),
            "waits by channel" => Output::Waits(By::Channel, FxHashMap::default()),
            "waits by sender" => Output::Waits(By::Sender, FxHashMap::default()),
            "waits by receiver" => Output::Waits(By::Receiver, FxHashMap::default()),
            "depths" => Output::Depths(options.of),
            _ => return None,
        };
        Some(Messages {
            pairs: Pairs::new(UNDER_WAY, options.erlang),
            channels: FxHashMap::default(),
            output,
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
        let place = self.channels.entry(channel).or_insert_with(|| Channel {
            of: to.into(),
            title: crate::text::who(to).into(),
            class,
            under_way: 0,
            sent: 0,
            received: 0,
            deepest: 0,
        });
        let depth = place.under_way;
        place.under_way += 1;
        place.sent += 1;
        place.deepest = place.deepest.max(place.under_way);
        let content = if self.has_rows() { state.show(value) } else { "" };
        let content = content.into();
        self.depth(channel, depth + 1, at, state, sheet);
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

    /// Adds the row of a message that was received or given up.
    fn row(
        &mut self, sent: SentMessage, receipt: Option<(i64, Option<i64>)>, pairing: &str, state: &mut State,
        sheet: &mut Sheet,
    ) {
        let received = receipt.and_then(|(_, at)| at);
        if let Some((key, channel)) =
            sent.channel.and_then(|key| self.channels.get_mut(&key).map(|channel| (key, channel)))
        {
            channel.under_way -= 1;
            channel.received += i64::from(receipt.is_some());
            let depth = channel.under_way;
            if receipt.is_some() {
                self.depth(key, depth, received, state, sheet);
            }
        }
        let wait = received.zip(sent.at).map(|(received, sent)| received.saturating_sub(sent).max(0));
        let receiver = receipt.map(|(receiver, _)| receiver);
        match &mut self.output {
            Output::Rows => {}
            Output::Channels | Output::Depths(_) => return,
            Output::Talks(talks) => {
                let talk = talks.entry([sent.sender, sent.channel, receiver]).or_default();
                talk.messages += 1;
                talk.bytes += sent.size;
                talk.wait += wait.unwrap_or(0);
                talk.longest = talk.longest.max(wait);
                return;
            }
            Output::Waits(by, waits) => {
                let of = match by {
                    By::Channel => sent.channel,
                    By::Sender => sent.sender,
                    By::Receiver => receiver,
                };
                if let Some(of) = of {
                    let (waits, never) = waits.entry(of).or_default();
                    waits.extend(wait);
                    *never += i64::from(receipt.is_none());
                }
                return;
            }
        }
        sheet.int(0, sent.id);
        sheet.name(1, state.node_of(sent.sender.or(receipt.map(|(receiver, _)| receiver)).unwrap_or(-1)));
        sheet.int(2, sent.sender);
        sheet.int(3, sent.channel);
        sheet.int(4, receipt.map(|(receiver, _)| receiver));
        sheet.name(5, sent.kind);
        state.put_time(sheet, 6, sent.at);
        state.put_time(sheet, 8, received);
        sheet.int(10, wait);
        sheet.int(11, sent.depth);
        if state.options.values > 0 {
            sheet.text(12, &sent.content);
        }
        sheet.int(13, sent.size);
        if let Some(carried) = &sent.carried {
            sheet.name(14, &carried.label);
            sheet.int(15, carried.previous);
            sheet.int(16, carried.current);
        }
        sheet.name(17, pairing);
        sheet.next();
    }

    fn has_rows(&self) -> bool {
        matches!(self.output, Output::Rows)
    }

    /// Records the depth of a channel.
    fn depth(&self, channel: i64, depth: i64, at: Option<i64>, state: &State, sheet: &mut Sheet) {
        let Output::Depths(only) = self.output else { return };
        if only.is_none_or(|only| only == channel) {
            sheet.name(0, state.node_of(channel));
            sheet.int(1, channel);
            state.put_time(sheet, 2, at);
            sheet.int(4, depth);
            sheet.next();
        }
    }

    fn drop_oldest(&mut self, all: bool, state: &mut State, sheet: &mut Sheet) {
        while let Some((_, sent)) = self.pairs.forget(all) {
            self.row(sent, None, "none", state, sheet);
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
                let content = if self.has_rows() { state.show(value) } else { "" };
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
        self.row(sent, Some((receiver, at)), pairing, state, sheet);
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
                let sender = state.key(from);
                let with = carried(state);
                let channel = state.key(to);
                let known = self.last_sent.remove(&sender);
                // the message that carried the token: the process's last one, if it has the same destination
                if let Some(sent) = known.and_then(|place| self.pairs.carries(place, seq)) {
                    if sent.channel == Some(channel) && sent.carried.is_none() {
                        sent.carried = Some(with);
                        return;
                    }
                }
                let mut sent = self.sending(Sending { from, to, value, said: MessageKind::Item }, at, state, sheet);
                self.count += 1;
                sent.carried = Some(with);
                self.pairs.sent_with(seq, sent);
                self.drop_oldest(false, state, sheet);
            }
            b"receive" => {
                let receiver = state.key(to);
                let last = self.last_received.remove(&receiver);
                if let Some(held) = self.held.remove(&receiver) {
                    let found = self.pairs.with(seq);
                    let pairing = Pairing::Serial;
                    let receipt = Receipt { receiver, value: &held.value, at: held.at };
                    return match found {
                        Some(found) => self.received(Some(found), receipt, pairing, state, sheet),
                        None => {
                            let found = self.pairs.alike(&held.tracee, &held.value);
                            self.received(found, receipt, Pairing::Content, state, sheet);
                        }
                    };
                }
                // the row of the receipt exists already
                if last == Some(Some(current)) || last == Some(Some(EARLY)) {
                    return;
                }
                let found = self.pairs.with(seq);
                let with = carried(state);
                let receipt = Receipt { receiver, value, at };
                match found {
                    Some(found) => self.received(Some(found), receipt, Pairing::Serial, state, sheet),
                    None => {
                        let id = self.id();
                        let sender = Some(state.key(from));
                        let content = state.show(value).into();
                        let size = value.len() as i64;
                        let carried = Some(with);
                        let sent = SentMessage {
                            id,
                            sender,
                            kind: "message",
                            content,
                            size,
                            carried,
                            ..SentMessage::default()
                        };
                        self.row(sent, Some((receiver, at)), "none", state, sheet);
                    }
                }
            }
            _ => {}
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

/// The value at this percentile of sorted values, by nearest rank.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
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
        match &mut self.output {
            Output::Rows | Output::Depths(_) => return,
            Output::Talks(talks) => {
                let mut all: Vec<_> = talks.drain().collect();
                all.sort_unstable_by_key(|(of, talk)| (-talk.messages, *of));
                for ([sender, channel, receiver], talk) in all {
                    sheet.name(0, state.node_of(sender.or(receiver).unwrap_or(-1)));
                    sheet.int(1, sender);
                    sheet.int(2, channel);
                    sheet.int(3, receiver);
                    sheet.int(4, talk.messages);
                    sheet.int(5, talk.bytes);
                    sheet.int(6, talk.longest.map(|_| talk.wait));
                    sheet.int(7, talk.longest);
                    sheet.next();
                }
                return;
            }
            Output::Waits(_, waits) => {
                let mut all: Vec<_> = waits.drain().collect();
                all.sort_unstable_by_key(|(of, (waits, _))| (-(waits.len() as i64), *of));
                for (of, (mut waits, never)) in all {
                    waits.sort_unstable();
                    sheet.name(0, state.node_of(of));
                    sheet.int(1, of);
                    sheet.int(2, waits.len() as i64 + never);
                    sheet.int(3, never);
                    for (n, percent) in [50, 90, 99].into_iter().enumerate() {
                        sheet.int(4 + n, percentile(&waits, percent));
                    }
                    sheet.int(7, waits.last().copied());
                    sheet.next();
                }
                return;
            }
            Output::Channels => {}
        }
        let mut channels: Vec<_> = self.channels.drain().collect();
        channels.sort_unstable_by_key(|(key, _)| *key);
        for (key, channel) in channels {
            sheet.int(0, key);
            sheet.name(1, state.node_of(key));
            sheet.text(2, &channel.title);
            sheet.name(
                3,
                if matches!(channel.class, Class::Thread | Class::Task) { "mailbox" } else { channel.class.word() },
            );
            if let Some(told) = state.tracks.titles().channel(&channel.of) {
                sheet.name(4, &told.class);
                if !told.name.is_empty() {
                    sheet.text(5, &told.name);
                }
                sheet.int(6, told.maxsize);
            }
            sheet.int(7, channel.sent);
            sheet.int(8, channel.received);
            sheet.int(9, channel.deepest);
            sheet.next();
        }
    }
}
