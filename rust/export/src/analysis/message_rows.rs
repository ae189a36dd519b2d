//! The rows of tables of messages: a message, a channel, who talks to whom, how long they waited, how many waited.

use super::{state::Class, Options, Sheet, State};
use crate::{scan::Bytes, table::Type};
use rustc_hash::FxHashMap;

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

/// The contents of a token.
#[derive(Clone, Debug)]
pub struct Carried {
    pub label: Box<str>,
    pub previous: i64,
    pub current: i64,
}

/// The facts of a sending, or of a receipt without a sending.
#[derive(Debug, Default)]
pub struct SentMessage {
    pub id: i64,
    pub sender: Option<i64>,
    pub channel: Option<i64>,
    pub kind: &'static str,
    pub at: Option<i64>,
    pub depth: Option<i64>,
    pub content: Box<str>,
    pub size: i64,
    pub carried: Option<Carried>,
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

/// The rows of one table.
pub struct MessageRows {
    channels: FxHashMap<i64, Channel>,
    output: Output,
}

impl MessageRows {
    /// The rows of the table of this name; None for an unknown one.
    pub fn new(table: &str, options: &Options) -> Option<MessageRows> {
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
        Some(MessageRows { channels: FxHashMap::default(), output })
    }

    /// Adds a sending to its channel. Answers how many messages were pending there before.
    pub fn add_sending(&mut self, key: i64, to: Bytes<'_>, class: Class) -> i64 {
        let channel = self.channels.entry(key).or_insert_with(|| Channel {
            of: to.into(),
            title: crate::text::who(to).into(),
            class,
            under_way: 0,
            sent: 0,
            received: 0,
            deepest: 0,
        });
        let depth = channel.under_way;
        channel.under_way += 1;
        channel.sent += 1;
        channel.deepest = channel.deepest.max(channel.under_way);
        depth
    }

    /// Adds the row of a message that was received or given up.
    pub fn row(
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
        put_message(&sent, receipt, wait, pairing, state, sheet);
    }

    pub fn has_rows(&self) -> bool {
        matches!(self.output, Output::Rows)
    }

    /// Records the depth of a channel.
    pub fn depth(&self, channel: i64, depth: i64, at: Option<i64>, state: &State, sheet: &mut Sheet) {
        let Output::Depths(only) = self.output else { return };
        if only.is_none_or(|only| only == channel) {
            sheet.name(0, state.node_of(channel));
            sheet.int(1, channel);
            state.put_time(sheet, 2, at);
            sheet.int(4, depth);
            sheet.next();
        }
    }

    /// Adds the rows that are sums of all messages.
    pub fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        match &mut self.output {
            Output::Rows | Output::Depths(_) => {}
            Output::Talks(talks) => end_talks(talks, state, sheet),
            Output::Waits(_, waits) => end_waits(waits, state, sheet),
            Output::Channels => self.end_channels(state, sheet),
        }
    }

    fn end_channels(&mut self, state: &State, sheet: &mut Sheet) {
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
            if let Some(facts) = state.tracks.titles().channel(&channel.of) {
                sheet.name(4, &facts.class);
                if !facts.name.is_empty() {
                    sheet.text(5, &facts.name);
                }
                sheet.int(6, facts.maxsize);
            }
            sheet.int(7, channel.sent);
            sheet.int(8, channel.received);
            sheet.int(9, channel.deepest);
            sheet.next();
        }
    }
}

/// The row of one message.
fn put_message(
    sent: &SentMessage, receipt: Option<(i64, Option<i64>)>, wait: Option<i64>, pairing: &str, state: &State,
    sheet: &mut Sheet,
) {
    let (receiver, received) = (receipt.map(|(receiver, _)| receiver), receipt.and_then(|(_, at)| at));
    sheet.int(0, sent.id);
    sheet.name(1, state.node_of(sent.sender.or(receiver).unwrap_or(-1)));
    sheet.int(2, sent.sender);
    sheet.int(3, sent.channel);
    sheet.int(4, receiver);
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

fn end_talks(talks: &mut FxHashMap<[Option<i64>; 3], Talk>, state: &State, sheet: &mut Sheet) {
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
}

fn end_waits(waits: &mut FxHashMap<i64, (Vec<i64>, i64)>, state: &State, sheet: &mut Sheet) {
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
}

/// The value at this percentile of sorted values, by nearest rank.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}
