//! Arrow's C data and stream interface, as far as a stream of tables needs it.
//!
//! The structures and their rules: arrow.apache.org/docs/format/CDataInterface, CStreamInterface and
//! CDataInterface/PyCapsuleInterface. The holder of a structure releases it, once; a structure whose `release` is null
//! has no holder. A structure's pointers point into its `private_data`, a Box that `release` takes back.

use inviso_export::table::{Batch, Column, Data, Strings, Type};
use pyo3::{prelude::*, types::PyCapsule};
use std::{
    borrow::Cow,
    ffi::{c_char, c_int, c_void, CStr, CString},
    ptr,
    sync::Arc,
};

/// A source of batches.
pub trait Batches: Send {
    /// The next batch; None at the end.
    fn next(&mut self) -> Result<Option<Batch>, String>;
}

/// One cell as an object: None, an int or a str.
pub fn cell<'py>(py: Python<'py>, column: &Column, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let is_there = column.valid.get(row / 8).is_some_and(|byte| byte & 1 << (row % 8) != 0);
    let text = |ends: &[i32], data: &[u8], at: usize| {
        let end = |at: usize| ends.get(at).map_or(0, |end| *end as usize);
        String::from_utf8_lossy(data.get(end(at)..end(at + 1)).unwrap_or_default()).into_owned()
    };
    match &column.data {
        _ if !is_there => Ok(py.None().into_bound(py)),
        Data::Int64(values) => Ok(values.get(row).copied().into_pyobject(py)?),
        Data::Int32(values) => Ok(values.get(row).copied().into_pyobject(py)?),
        Data::Names(codes, names) => {
            let code = codes.get(row).map_or(0, |code| *code as usize);
            Ok(text(&names.ends, &names.data, code).into_pyobject(py)?.into_any())
        }
        Data::Bytes(ends, data) => Ok(text(ends, data, row).into_pyobject(py)?.into_any()),
    }
}

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: each structure owns what it points to, and any thread may release it.
unsafe impl Send for ArrowSchema {}
// SAFETY: the stream owns what it points to, and its reader uses it in one thread at a time.
unsafe impl Send for ArrowArrayStream {}

const NULLABLE: i64 = 2;

/// The memory that an array's pointers point to.
#[derive(Default)]
struct Owned {
    /// Kept for the buffers that point into it.
    _data: Option<Data>,
    _valid: Cow<'static, [u8]>,
    _strings: Option<Arc<Strings>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

/// The memory that a schema's pointers point to.
struct OwnedSchema {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// # Safety
/// `schema` was made by [`schema`] and not released yet.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller promises that the schema is ours and not released. Children and dictionary are boxes of this
    // module; one that was moved away has no release.
    unsafe {
        let schema = &mut *schema;
        let owned = Box::from_raw(schema.private_data.cast::<OwnedSchema>());
        for child in owned.children.iter().copied().chain(Some(schema.dictionary).filter(|child| !child.is_null())) {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        schema.release = None;
    }
}

/// # Safety
/// `array` was made by [`array`] and not released yet.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller promises that the array is ours and not released; as in `release_schema`.
    unsafe {
        let array = &mut *array;
        let owned = Box::from_raw(array.private_data.cast::<Owned>());
        for child in owned.children.iter().copied().chain(Some(array.dictionary).filter(|child| !child.is_null())) {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        array.release = None;
    }
}

fn schema(
    format: &CStr, name: &str, flags: i64, children: Vec<ArrowSchema>, dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let mut owned =
        Box::new(OwnedSchema { _format: format.to_owned(), _name: CString::new(name).unwrap_or_default(), children });
    ArrowSchema {
        format: owned._format.as_ptr(),
        name: owned._name.as_ptr(),
        metadata: ptr::null(),
        flags,
        n_children: owned.children.len() as i64,
        children: owned.children.as_mut_ptr(),
        dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
        release: Some(release_schema),
        private_data: Box::into_raw(owned).cast(),
    }
}

fn field(name: &str, of: Type) -> ArrowSchema {
    let format = match of {
        Type::Int64 => c"l",
        Type::Time => c"tsn:UTC",
        Type::Int32 | Type::Names => c"i",
        Type::Text => c"u",
        Type::Binary => c"z",
    };
    let dictionary = (of == Type::Names).then(|| schema(c"u", "", NULLABLE, Vec::new(), None));
    schema(format, name, NULLABLE, Vec::new(), dictionary)
}

fn table_schema(fields: &[(&'static str, Type)]) -> ArrowSchema {
    schema(c"+s", "", 0, fields.iter().map(|(name, of)| field(name, *of)).collect(), None)
}

fn array(length: usize, nulls: usize, mut owned: Box<Owned>, dictionary: Option<ArrowArray>) -> ArrowArray {
    ArrowArray {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: owned.buffers.len() as i64,
        n_children: owned.children.len() as i64,
        buffers: owned.buffers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
        release: Some(release_array),
        private_data: Box::into_raw(owned).cast(),
    }
}

fn strings(strings: &Arc<Strings>) -> ArrowArray {
    let buffers = vec![ptr::null(), strings.ends.as_ptr().cast(), strings.data.as_ptr().cast()];
    let owned = Box::new(Owned { _strings: Some(strings.clone()), buffers, ..Owned::default() });
    array(strings.ends.len().saturating_sub(1), 0, owned, None)
}

fn column(column: Column, rows: usize) -> ArrowArray {
    let valid = if column.nulls == 0 { ptr::null() } else { column.valid.as_ptr().cast() };
    let (buffers, dictionary) = match &column.data {
        Data::Int64(values) => (vec![valid, values.as_ptr().cast()], None),
        Data::Int32(values) => (vec![valid, values.as_ptr().cast()], None),
        Data::Names(codes, names) => (vec![valid, codes.as_ptr().cast()], Some(strings(names))),
        Data::Bytes(ends, data) => (vec![valid, ends.as_ptr().cast(), data.as_ptr().cast()], None),
    };
    // the memory stays where it is when its owners move
    let owned = Owned { _data: Some(column.data), _valid: column.valid, buffers, ..Owned::default() };
    array(rows, column.nulls, Box::new(owned), dictionary)
}

fn table(batch: Batch) -> ArrowArray {
    let rows = batch.rows;
    let children = batch.columns.into_iter().map(|one| Box::into_raw(Box::new(column(one, rows)))).collect();
    array(rows, 0, Box::new(Owned { buffers: vec![ptr::null()], children, ..Owned::default() }), None)
}

/// The private data of a stream.
struct Stream {
    fields: Vec<(&'static str, Type)>,
    batches: Box<dyn Batches>,
    error: CString,
}

/// The result of a stream's functions after an error; `EIO`.
const FAILED: c_int = 5;

/// # Safety
/// `stream` was made by [`stream_capsule`] and not released, and `out` has space for a schema.
unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the caller promises that the stream is ours and not released, and `out` has space.
    unsafe {
        let stream = &*(*stream).private_data.cast::<Stream>();
        out.write(table_schema(&stream.fields));
    }
    0
}

/// # Safety
/// As [`get_schema`]; `out` has space for an array.
unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the caller promises that the stream is ours and not released.
    let stream = unsafe { &mut *(*stream).private_data.cast::<Stream>() };
    // a panic must not cross the C boundary
    let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.batches.next()));
    let next = next.unwrap_or_else(|_| Err("a panic".to_owned()));
    let array = match next {
        Ok(Some(batch)) => table(batch),
        Ok(None) => {
            // the end: an array that is released
            let mut end = array(0, 0, Box::default(), None);
            // SAFETY: it was just made.
            unsafe { release_array(&raw mut end) };
            end
        }
        Err(error) => {
            stream.error = CString::new(error.replace('\0', " ")).unwrap_or_default();
            return FAILED;
        }
    };
    // SAFETY: the caller promises that `out` has space.
    unsafe { out.write(array) };
    0
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: the caller promises that the stream is ours and not released.
    unsafe { (*(*stream).private_data.cast::<Stream>()).error.as_ptr() }
}

/// # Safety
/// `stream` was made by [`stream_capsule`] and not released yet.
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the caller promises that the stream is ours and not released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Stream>()));
        (*stream).release = None;
    }
}

/// A structure in a capsule, released with it unless a reader took it.
#[repr(transparent)]
struct Held<T: Release>(T);

trait Release {
    fn release(&mut self);
}

impl Release for ArrowSchema {
    fn release(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` is not null, so the structure has not been released.
            unsafe { release(self) };
        }
    }
}

impl Release for ArrowArrayStream {
    fn release(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: `release` is not null, so the structure has not been released.
            unsafe { release(self) };
        }
    }
}

impl<T: Release> Drop for Held<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A capsule `arrow_schema`.
///
/// # Errors
/// The error of making it.
pub fn schema_capsule<'py>(py: Python<'py>, fields: &[(&'static str, Type)]) -> PyResult<Bound<'py, PyCapsule>> {
    // the structure is all of the value, so the capsule points to it
    PyCapsule::new_with_value(py, Held(table_schema(fields)), c"arrow_schema")
}

/// A capsule `arrow_array_stream`.
///
/// # Errors
/// The error of making it.
pub fn stream_capsule<'py>(
    py: Python<'py>, fields: Vec<(&'static str, Type)>, batches: Box<dyn Batches>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = Box::new(Stream { fields, batches, error: CString::default() });
    let stream = ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(stream).cast(),
    };
    PyCapsule::new_with_value(py, Held(stream), c"arrow_array_stream")
}
