//! Collections held back.

#[cfg(not(Py_3_12))]
use pyo3::ffi as api;

/// No collection begins while this is there. From 3.12 on collections wait for the next instruction of Python code anyway.
#[derive(Debug)]
pub struct Uncollected {
    #[cfg(not(Py_3_12))]
    was: std::ffi::c_int,
}

impl Uncollected {
    /// Holds them back.
    ///
    /// # Safety
    /// The calling thread is attached, and still is when this is dropped.
    #[inline(always)]
    pub unsafe fn new() -> Uncollected {
        Uncollected {
            #[cfg(not(Py_3_12))]
            // SAFETY: the caller's promise.
            was: unsafe { api::PyGC_Disable() },
        }
    }
}

#[cfg(not(Py_3_12))]
impl Drop for Uncollected {
    fn drop(&mut self) {
        if self.was != 0 {
            // SAFETY: attached, as `new` was promised.
            unsafe { api::PyGC_Enable() };
        }
    }
}
