//! Collections held back.

#[cfg(not(Py_3_12))]
use pyo3::ffi as api;

/// No collection begins while this exists. From 3.12 on collections wait for the next instruction of Python code
/// anyway.
#[derive(Debug)]
pub struct Uncollected {
    #[cfg(not(Py_3_12))]
    was: std::ffi::c_int,
}

impl Uncollected {
    /// Holds collections back.
    ///
    /// # Safety
    /// The calling thread is attached, and still is when this is dropped.
    #[inline(always)]
    pub unsafe fn new() -> Uncollected {
        Uncollected {
            #[cfg(not(Py_3_12))]
            // SAFETY: the caller promises that the calling thread is attached, and still is when this is dropped.
            was: unsafe { api::PyGC_Disable() },
        }
    }
}

#[cfg(not(Py_3_12))]
impl Drop for Uncollected {
    fn drop(&mut self) {
        if self.was != 0 {
            // SAFETY: the thread is attached, as the caller of `new` promised.
            unsafe { api::PyGC_Enable() };
        }
    }
}
