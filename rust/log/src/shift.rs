//! The correction of a host's wall clock to another host's: measured at some times, and interpolated between them.

/// Measured offsets, sorted by time.
///
/// ```
/// use inviso_log::shift::Shift;
///
/// let shift = Shift::new(vec![(100, 10), (200, 20)]);
/// assert_eq!([0, 100, 150, 200, 900].map(|ns| shift.of(ns)), [10, 10, 15, 20, 20]);
/// assert_eq!(Shift::default().of(7), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    /// Points: the time by the shifted clock and the offset, in nanoseconds.
    points: Vec<(i128, i128)>,
}

impl Shift {
    /// Creates a shift from points in any order: the time by the shifted clock and the offset. Without points nothing is shifted.
    #[must_use]
    pub fn new(mut points: Vec<(i128, i128)>) -> Shift {
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
        Shift { points }
    }

    /// The offset at a time. Before the first point and after the last one it is that point's.
    #[must_use]
    pub fn of(&self, ns: i128) -> i128 {
        let after = self.points.partition_point(|point| point.0 <= ns);
        match (after.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(after)) {
            (Some(&(from, first)), Some(&(to, last))) => first + (last - first) * (ns - from) / (to - from),
            (Some(&(_, only)), None) | (None, Some(&(_, only))) => only,
            (None, None) => 0,
        }
    }
}
