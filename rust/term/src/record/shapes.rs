//! The one table of trace messages: each kind of record, its tag, and the elements of its message.
//!
//! Whoever makes messages walks the elements of a kind and renders each: the external term format, terms, Python objects. The
//! exports read them back by the same table. The shapes are those of trace.md and seq_trace.md.
//!
//! ```
//! use inviso_term::record::{Element, Kind};
//! let shape = Kind::ReturnFrom.shape();
//! assert_eq!((shape.tag, shape.own), ("return_from", &[Element::Function, Element::Value][..]));
//! assert_eq!(Kind::of_tag(b"return_from"), Some(Kind::ReturnFrom));
//! ```

/// The first word of a message about a tracee that has no time stamp.
pub const TRACE: &str = "trace";
/// The first word of a message about a tracee that has one.
pub const TRACE_TS: &str = "trace_ts";

/// One element of a message. `what` and the payload are the record's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// [`TRACE`], or [`TRACE_TS`] in a message with a time stamp.
    Trace,
    /// The process or port that the event is about.
    Tracee,
    /// The kind's tag.
    Tag,
    /// `{Module, Function, Arguments}`: the name `what`, and the payload. The arity, where there is no payload.
    Call,
    /// `{Module, Function, Arity}`: the name `what`.
    Function,
    /// The function to which a call returns: the name `what`, or the payload, where there is one.
    Caller,
    /// The payload, which may stand for an object of the program's.
    Value,
    /// The same of a message that is sent. Where `what` is 0, its [`Element::Receiver`] is in the payload too.
    Message,
    /// Who gets a message: the process `what`, or a term.
    Receiver,
    /// The other process or port, `what`.
    Peer,
    /// The payload: what a process or port begins with, most often `{Module, Function, Arguments}`.
    Start,
    /// The payload: where a process is, `{Module, Function, Arity}` or 0.
    Place,
    /// The payload, any term.
    Term,
    /// Two elements: those of the pair that is the payload.
    Pair,
    /// The number `what`.
    Count,
    /// What a match specification adds, if it does.
    Extra,
    /// The scheduler's number, if it was asked for.
    Scheduler,
    /// The time stamp, if one was asked for.
    Stamp,
}

/// What the message of a kind looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What the message calls its event; "" of a record that has no message.
    pub tag: &'static str,
    /// All elements of the message, in order.
    pub elements: &'static [Element],
    /// Those of them that are the kind's own: what stands between the head, which all messages about a tracee share, and what
    /// they may have at the end.
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

/// Makes the kinds of the table's rows: documentation, name = number, tag: what is around [its own elements].
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $tag:literal: $around:ident [$($own:ident)*];)*) => {
        /// What happened.
        ///
        /// Events have numbers from 1 up, records about the log itself from 240 up. A number is never used for anything else
        /// later.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// Every kind, by number.
            pub const ALL: [Kind; [$($number),*].len()] = [$(Kind::$kind),*];

            /// The kind of a number.
            #[inline]
            #[must_use]
            pub fn from_u8(n: u8) -> Option<Kind> {
                match n {
                    $($number => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// The kind whose messages have this tag: the first one, where more have.
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

            /// What its messages look like.
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
    /// A call, without its arguments.
    CallArity = 2, "call": matched [Function];
    /// Execution goes on in the function that the payload names.
    ReturnTo = 3, "return_to": trace [Caller];
    /// The process started another; the payload says with what.
    Spawn = 4, "spawn": trace [Peer Start];
    /// The process was started by another.
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
    /// The process was linked to by the process `what`.
    GettingLinked = 16, "getting_linked": trace [Peer];
    /// The process `what` is linked to it no longer.
    GettingUnlinked = 17, "getting_unlinked": trace [Peer];
    /// It begins to run; the payload is where.
    In = 18, "in": trace [Place];
    /// It stops running; the payload is where.
    Out = 19, "out": trace [Place];
    /// It begins to run while it ends.
    InExiting = 20, "in_exiting": trace [Place];
    /// It stops running while it ends.
    OutExiting = 21, "out_exiting": trace [Place];
    /// It has stopped running for ever.
    OutExited = 22, "out_exited": trace [Place];
    /// A collection of the young generation begins; the payload is a list of pairs.
    GcMinorStart = 23, "gc_minor_start": trace [Term];
    /// It ends.
    GcMinorEnd = 24, "gc_minor_end": trace [Term];
    /// A full collection begins.
    GcMajorStart = 25, "gc_major_start": trace [Term];
    /// It ends.
    GcMajorEnd = 26, "gc_major_end": trace [Term];
    /// The limit of memory was passed in a collection.
    GcMaxHeapSize = 27, "gc_max_heap_size": trace [Term];
    /// A port was opened by the process `what`; the payload is its driver.
    Open = 28, "open": trace [Peer Start];
    /// A port was closed; the payload is the reason.
    Closed = 29, "closed": trace [Term];
    /// A system event that `system/3` watches for; the payload is a pair of its name and what is said about it.
    Monitor = 30, "monitor": monitor [Pair];
    /// An event of sequential tracing; the core's `seq_event` says what it holds.
    Seq = 31, "seq_trace": seq [Pair];
    /// Here `what` records were lost; no payload.
    Drop = 240, "drop": bare [Count];
    /// All that was traced before is delivered; `what` is the number of the reference that was asked with.
    Delivered = 241, "": none [];
}

impl Kind {
    /// What its messages call the event; "" of a record that has no message.
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
    fn a_kind_is_known_by_its_number_alone() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!((0..=255).filter_map(Kind::from_u8).count(), Kind::ALL.len());
        assert_eq!(crate::record::Header::default().kind(), None);
    }

    #[test]
    fn a_kind_says_what_its_messages_have() {
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
