//! The table of trace messages: each kind of record, its tag, and the elements of its message.
//!
//! A renderer walks the elements of a kind: one for the external term format, one for terms, one for Python objects. The exports
//! parse messages by the same table. The shapes are those of trace.md and seq_trace.md.
//!
//! ```
//! use inviso_term::record::{Element, Kind};
//! let shape = Kind::ReturnFrom.shape();
//! assert_eq!((shape.tag, shape.own), ("return_from", &[Element::Function, Element::Value][..]));
//! assert_eq!(Kind::of_tag(b"return_from"), Some(Kind::ReturnFrom));
//! ```

/// The first word of a message about a tracee without a timestamp.
/// Only other crates of the workspace use it.
pub const TRACE: &str = "trace";
/// The first word of a message about a tracee with a timestamp.
/// Only other crates of the workspace use it.
pub const TRACE_TS: &str = "trace_ts";

/// One element of a message. `what` and the payload are fields of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// [`TRACE`], or [`TRACE_TS`] in a message with a timestamp.
    Trace,
    /// The process or port of the event.
    Tracee,
    /// The kind's tag.
    Tag,
    /// `{Module, Function, Arguments}`: the name `what`, and the payload. Without a payload, the arity is in the arguments'
    /// place.
    Call,
    /// `{Module, Function, Arity}`: the name `what`.
    Function,
    /// The function that a call returns to: the payload, or the name `what` if there is none.
    Caller,
    /// The payload. It may stand for an object of the program.
    Value,
    /// The same, for a message that is sent. If `what` is 0, the payload also contains its [`Element::Receiver`].
    Message,
    /// The receiver of a message: the process `what`, or a term.
    Receiver,
    /// The other process or port, `what`.
    Peer,
    /// The payload: the start of a process or port, usually `{Module, Function, Arguments}`.
    Start,
    /// The payload: the present function of a process, `{Module, Function, Arity}` or 0.
    Place,
    /// The payload, any term.
    Term,
    /// Two elements: those of the pair in the payload.
    Pair,
    /// The number `what`.
    Count,
    /// The term that a match specification added, if there is one.
    Extra,
    /// The scheduler's number, if it was requested.
    Scheduler,
    /// The timestamp, if one was requested.
    Stamp,
}

/// The shape of a kind's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The tag of the event; "" for a record without a message.
    pub tag: &'static str,
    /// All elements of the message, in order.
    pub elements: &'static [Element],
    /// The kind's own elements: those between the head, which all messages about a tracee share, and the optional ones at the
    /// end.
    pub own: &'static [Element],
}

impl Shape {
    /// Whether its messages have this element.
    #[must_use]
    pub fn has(&self, element: Element) -> bool {
        self.elements.contains(&element)
    }
}

/// All elements of a message, around a kind's own.
macro_rules! elements {
    // a match specification can add to it
    (matched $($own:ident)*) => { elements!(none Trace Tracee Tag $($own)* Extra Scheduler Stamp) };
    (trace $($own:ident)*) => { elements!(none Trace Tracee Tag $($own)* Scheduler Stamp) };
    (monitor $($own:ident)*) => { elements!(none Tag Tracee $($own)*) };
    (seq $($own:ident)*) => { elements!(none Tag $($own)* Stamp) };
    (bare $($own:ident)*) => { elements!(none Tag $($own)*) };
    (none $($all:ident)*) => { &[$(Element::$all),*] };
}

/// Defines the kinds of the table's rows: documentation, name = number, tag: the frame [its own elements].
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $tag:literal: $around:ident [$($own:ident)*];)*) => {
        /// The kind of a record.
        ///
        /// Events have numbers from 1 up, records about the log itself from 240 up. The meaning of a number never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// Every kind, by number.
            /// Only other crates of the workspace use it.
            pub const ALL: [Kind; [$($number),*].len()] = [$(Kind::$kind),*];

            /// The kind with this number.
            /// Only other crates of the workspace use it.
            #[inline]
            #[must_use]
            pub fn from_u8(n: u8) -> Option<Kind> {
                match n {
                    $($number => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// The kind whose messages have this tag; the first one of several.
            #[inline]
            #[must_use]
            #[allow(non_upper_case_globals, unreachable_patterns)]
            pub fn of_tag(tag: &[u8]) -> Option<Kind> {
                $(const $kind: &[u8] = $tag.as_bytes();)*
                match tag {
                    b"" => None,
                    $($kind => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// The shape of its messages.
            #[inline]
            #[must_use]
            pub const fn shape(self) -> &'static Shape {
                match self {
                    $(Kind::$kind => &Shape {
                        tag: $tag,
                        elements: elements!($around $($own)*),
                        own: elements!(none $($own)*),
                    },)*
                }
            }
        }
    };
}

kinds! {
    /// A call; the payload is the list of its arguments.
    Call = 1, "call": matched [Call];
    /// A call without its arguments.
    CallArity = 2, "call": matched [Function];
    /// Execution continues in the function of the payload.
    ReturnTo = 3, "return_to": trace [Caller];
    /// The process started another one. The payload is its start.
    Spawn = 4, "spawn": trace [Peer Start];
    /// The process was started by another one. The payload is its start.
    Spawned = 5, "spawned": trace [Peer Start];
    /// The process ended; the payload is the reason.
    Exit = 6, "exit": trace [Term];
    /// A call has returned; the payload is its value.
    ReturnFrom = 7, "return_from": trace [Function Value];
    /// An exception has left a call; the payload is its class and value.
    ExceptionFrom = 8, "exception_from": trace [Function Term];
    /// The process sent a message: the payload is the message; its receiver is the process `what`, or, where that is 0, a
    /// second term.
    Send = 9, "send": matched [Message Receiver];
    /// As [`Kind::Send`], to a process that does not exist.
    SendToNonExisting = 10, "send_to_non_existing_process": matched [Message Receiver];
    /// A message has arrived; the payload is the message.
    Receive = 11, "receive": matched [Value];
    /// The process got the name that is the payload.
    Register = 12, "register": trace [Term];
    /// The process lost the name that is the payload.
    Unregister = 13, "unregister": trace [Term];
    /// The process linked itself to the process `what`.
    Link = 14, "link": trace [Peer];
    /// The process removed its link to the process `what`.
    Unlink = 15, "unlink": trace [Peer];
    /// The process `what` linked itself to this one.
    GettingLinked = 16, "getting_linked": trace [Peer];
    /// The process `what` removed its link to this one.
    GettingUnlinked = 17, "getting_unlinked": trace [Peer];
    /// The process begins to run. The payload is its function.
    In = 18, "in": trace [Place];
    /// The process stops running. The payload is its function.
    Out = 19, "out": trace [Place];
    /// The process begins to run while it ends.
    InExiting = 20, "in_exiting": trace [Place];
    /// The process stops running while it ends.
    OutExiting = 21, "out_exiting": trace [Place];
    /// The process has stopped running for good.
    OutExited = 22, "out_exited": trace [Place];
    /// A collection of the young generation begins; the payload is a list of pairs.
    GcMinorStart = 23, "gc_minor_start": trace [Term];
    /// That collection ends.
    GcMinorEnd = 24, "gc_minor_end": trace [Term];
    /// A full collection begins.
    GcMajorStart = 25, "gc_major_start": trace [Term];
    /// That collection ends.
    GcMajorEnd = 26, "gc_major_end": trace [Term];
    /// A collection found more memory in use than the limit.
    GcMaxHeapSize = 27, "gc_max_heap_size": trace [Term];
    /// A port was opened by the process `what`; the payload is its driver.
    Open = 28, "open": trace [Peer Start];
    /// A port was closed; the payload is the reason.
    Closed = 29, "closed": trace [Term];
    /// A system event that `system/3` watches. The payload is a pair of its name and its details.
    Monitor = 30, "monitor": monitor [Pair];
    /// An event of sequential tracing. The core's `seq_event` defines the payload.
    Seq = 31, "seq_trace": seq [Pair];
    /// `what` records were lost here. There is no payload.
    Drop = 240, "drop": bare [Count];
    /// All earlier trace was delivered. `what` is the number of the request's reference.
    Delivered = 241, "": none [];
}

impl Kind {
    /// The tag of its messages; "" for a record without a message.
    #[inline]
    #[must_use]
    pub const fn tag(self) -> &'static str {
        self.shape().tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_number() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!((0..=255).filter_map(Kind::from_u8).count(), Kind::ALL.len());
        assert_eq!(crate::record::Header::default().kind(), None);
    }

    #[test]
    fn a_kind_knows_the_elements_of_its_messages() {
        assert_eq!([Kind::Call, Kind::Seq, Kind::Delivered].map(Kind::tag), ["call", "seq_trace", ""]);
        let has = |kind: Kind| [Element::Trace, Element::Extra, Element::Peer].map(|of| kind.shape().has(of));
        assert_eq!(has(Kind::Call), [true, true, false]);
        assert_eq!(has(Kind::Spawn), [true, false, true]);
        assert_eq!(has(Kind::Delivered), [false; 3]);
    }

    #[test]
    fn a_tag_gives_the_first_kind_that_has_it() {
        for kind in Kind::ALL {
            let first =
                Kind::ALL.into_iter().find(|other| other.tag() == kind.tag()).filter(|_| !kind.tag().is_empty());
            assert_eq!(Kind::of_tag(kind.tag().as_bytes()), first);
        }
        assert_eq!(Kind::of_tag(b"trace"), None);
    }
}
