//! speedscope's file format: an evented profile for each process.
//!
//! The events of a profile are together in the file, so all events are kept until the end: by process in memory, and in a
//! temporary file when they are too many.

use crate::{
    event::{Event, What},
    export::{Times, Write},
    json,
    tracks::{Step, Tracks},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write as _},
    path::PathBuf,
};

/// The largest size of events in memory, in bytes.
const KEPT: usize = 4 << 20;

/// Bytes of a kept event: frame and open or close in 4, the time in 8.
const EVENT: usize = 12;

const CLOSES: u32 = 1 << 31;

/// The writer.
pub struct Speedscope {
    tracks: Tracks,
    times: Times,
    profiles: Vec<EventProfile>,
    /// The profile of each lane.
    of_lane: Vec<usize>,
    /// The profile of the losses, and its frames' names.
    lost: Option<usize>,
    lost_names: Vec<String>,
    buffered: usize,
    path: PathBuf,
    file: Option<File>,
    at: u64,
    last: i64,
    /// Profiles that were written, and parts of the next one.
    written: usize,
    part: usize,
}

#[derive(Default)]
struct EventProfile {
    title: String,
    events: Vec<u8>,
    /// The places of earlier events in the file.
    parts: Vec<(u64, u32)>,
    first: Option<i64>,
    last: i64,
    open: Vec<u32>,
    is_lost: bool,
}

impl EventProfile {
    fn put(&mut self, frame: u32, closes: bool, at: i64) {
        self.first.get_or_insert(at);
        self.last = at;
        if closes {
            self.open.pop();
        } else {
            self.open.push(frame);
        }
        let word = frame | if closes { CLOSES } else { 0 };
        self.events.extend_from_slice(&word.to_le_bytes());
        self.events.extend_from_slice(&at.to_le_bytes());
    }
}

impl Speedscope {
    /// `path` is the place of the temporary file if one is needed. It is deleted at the end.
    #[must_use]
    pub fn new(path: PathBuf) -> Speedscope {
        Speedscope {
            tracks: Tracks::default(),
            times: Times { clock: None, first: 0 },
            profiles: Vec::new(),
            of_lane: Vec::new(),
            lost: None,
            lost_names: Vec::new(),
            buffered: 0,
            path,
            file: None,
            at: 0,
            last: 0,
            written: 0,
            part: 0,
        }
    }

    fn flush_if_full(&mut self, events: usize) -> io::Result<()> {
        self.buffered += events * EVENT;
        if self.buffered < KEPT {
            return Ok(());
        }
        if self.file.is_none() {
            let open = OpenOptions::new().read(true).write(true).create_new(true).open(&self.path)?;
            self.file = Some(open);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut all = Vec::with_capacity(self.buffered);
        for profile in &mut self.profiles {
            if !profile.events.is_empty() {
                profile.parts.push((self.at + all.len() as u64, profile.events.len() as u32));
                all.append(&mut profile.events);
                profile.events = Vec::new();
            }
        }
        file.write_all(&all)?;
        self.at += all.len() as u64;
        self.buffered = 0;
        Ok(())
    }

    fn time(&self, at: i64) -> i128 {
        let unit = if self.times.clock.is_none() { 1000 } else { 1 };
        (i128::from(at) - i128::from(self.times.first)) / unit
    }

    /// Writes the next part of a profile: its head, its events in the file, the rest. Answers whether it was the last part.
    fn profile(&self, profile: &EventProfile, part: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        let end = profile.last.max(if profile.open.is_empty() { i64::MIN } else { self.last });
        let names = if profile.is_lost { self.tracks.names.len() as u32 } else { 0 };
        if part == 0 {
            out.extend_from_slice(b"{\"type\":\"evented\",");
            json::field("name", &profile.title, out);
            let unit = if self.times.clock.is_none() { "none" } else { "nanoseconds" };
            let (start, end) = (self.time(profile.first.unwrap_or(0)), self.time(end));
            let _ = write!(out, ",\"unit\":\"{unit}\",\"startValue\":{start},\"endValue\":{end},\"events\":[");
        }
        let mut put = |events: &[u8]| {
            for event in events.chunks_exact(EVENT) {
                let (Some(word), Some(at)) = (event.first_chunk(), event.last_chunk()) else { continue };
                let (word, at) = (u32::from_le_bytes(*word), i64::from_le_bytes(*at));
                let kind = if word & CLOSES == 0 { 'O' } else { 'C' };
                let (frame, at) = ((word & !CLOSES) + names, self.time(at));
                let _ = write!(out, "{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}},");
            }
        };
        if let (Some((at, length)), Some(mut file)) = (profile.parts.get(part), self.file.as_ref()) {
            let mut events = vec![0; *length as usize];
            file.seek(SeekFrom::Start(*at))?;
            file.read_exact(&mut events)?;
            put(&events);
            return Ok(false);
        }
        put(&profile.events);
        for frame in profile.open.iter().rev() {
            let mut event = (frame | CLOSES).to_le_bytes().to_vec();
            event.extend_from_slice(&end.to_le_bytes());
            put(&event);
        }
        if out.ends_with(b",") {
            out.pop();
        }
        out.extend_from_slice(b"]}");
        Ok(true)
    }
}

impl Write for Speedscope {
    fn begin(&mut self, tracks: Tracks, times: Times, _: &mut Vec<u8>) {
        (self.tracks, self.times, self.last) = (tracks, times, times.first);
    }

    fn about(&mut self, of: &[u8], items: Vec<inviso_log::about::Item>) {
        self.tracks.about(of, items);
    }

    fn event(&mut self, event: &Event<'_>, at: i64, _: &mut Vec<u8>) -> io::Result<()> {
        let What::Trace(trace) = event.what else { return Ok(()) };
        let applied = self.tracks.apply(&trace, at);
        self.last = self.last.max(applied.at);
        let lane = applied.lane as usize;
        if applied.is_new {
            if self.of_lane.len() <= lane {
                self.of_lane.resize(lane + 1, usize::MAX);
            }
            if let Some(place) = self.of_lane.get_mut(lane) {
                *place = usize::MAX;
            }
        }
        if self.tracks.steps.is_empty() {
            return Ok(());
        }
        let profile = match self.of_lane.get(lane) {
            Some(&usize::MAX) => {
                let title = self.tracks.get(applied.lane).map(|lane| lane.title.clone()).unwrap_or_default();
                self.profiles.push(EventProfile { title, ..EventProfile::default() });
                let profile = self.profiles.len() - 1;
                if let Some(place) = self.of_lane.get_mut(lane) {
                    *place = profile;
                }
                profile
            }
            Some(profile) => *profile,
            None => return Ok(()),
        };
        let Some(profile) = self.profiles.get_mut(profile) else { return Ok(()) };
        let before = profile.events.len();
        for step in &self.tracks.steps {
            match *step {
                Step::Open(name) => profile.put(name, false, applied.at),
                Step::Close(name, _) => profile.put(name, true, applied.at),
                Step::Point(name) => {
                    profile.put(name, false, applied.at);
                    profile.put(name, true, applied.at);
                }
                Step::Unmatched(_) => {}
            }
        }
        let events = (profile.events.len() - before) / EVENT;
        self.flush_if_full(events)
    }

    fn lost(&mut self, text: &str, _: Option<u64>, at: i64, _: &mut Vec<u8>) -> io::Result<()> {
        // the first thousand kinds have names of their own
        let known = self.lost_names.iter().position(|name| name == text);
        let frame = known.unwrap_or_else(|| {
            if self.lost_names.len() < 1000 {
                self.lost_names.push(text.to_owned());
            }
            self.lost_names.len() - 1
        });
        let lost = *self.lost.get_or_insert_with(|| {
            self.profiles.push(EventProfile { title: "lost".to_owned(), is_lost: true, ..EventProfile::default() });
            self.profiles.len() - 1
        });
        if let Some(lost) = self.profiles.get_mut(lost) {
            let at = lost.first.map_or(at, |_| at.max(lost.last));
            lost.put(frame as u32, false, at);
            lost.put(frame as u32, true, at);
        }
        self.flush_if_full(2)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        if (self.written, self.part) == (0, 0) {
            out.extend_from_slice(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",");
            out.extend_from_slice(b"\"exporter\":\"inviso\",\"shared\":{\"frames\":[");
            let lost = self.lost_names.iter().map(|name| &**name);
            for (n, name) in self.tracks.names.iter().map(|name| &*name.text).chain(lost).enumerate() {
                out.extend_from_slice(if n == 0 { b"\n{" } else { b",\n{" });
                json::field("name", name, out);
                out.push(b'}');
            }
            out.extend_from_slice(b"]},\"profiles\":[\n");
        }
        if let Some(profile) = self.profiles.get(self.written) {
            if self.written > 0 && self.part == 0 {
                out.extend_from_slice(b",\n");
            }
            if self.profile(profile, self.part, out)? {
                (self.written, self.part) = (self.written + 1, 0);
            } else {
                self.part += 1;
            }
            return Ok(false);
        }
        out.extend_from_slice(b"\n]}\n");
        if self.file.take().is_some() {
            fs::remove_file(&self.path)?;
        }
        Ok(true)
    }
}

impl Drop for Speedscope {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
