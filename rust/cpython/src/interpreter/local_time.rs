//! The system's local time.

/// The local time of a second since 1970, as `2026-11-25 12:00:00`; `None` where the system has none for it.
#[cfg(unix)]
pub fn local_time(second: i64) -> Option<String> {
    // SAFETY: a struct of numbers, and of a pointer to text that is not looked at.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both stand during the call.
    if unsafe { libc::localtime_r(&second, &mut parts) }.is_null() {
        return None;
    }
    let libc::tm { tm_year, tm_mon, tm_mday, tm_hour, tm_min, tm_sec, .. } = parts;
    let year = i64::from(tm_year) + 1900;
    Some(format!("{year}-{:02}-{tm_mday:02} {tm_hour:02}:{tm_min:02}:{tm_sec:02}", tm_mon + 1))
}

/// None.
#[cfg(not(unix))]
pub fn local_time(_: i64) -> Option<String> {
    None
}
