/* The least cost of an event: callbacks for sys.monitoring (and, on 3.11, frame functions) that do the smallest piece
 * of work that the job needs, and nothing for safety, sessions or names. They serve only for comparison with a tracer.
 *
 * All keep their data about a code object in a cell attached to it, and their data about a thread in a lane.
 * Threads share cells and add to them without locks: figures of several threads are not exact.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef LIMITS_FRAMES
#if PY_VERSION_HEX >= 0x030E0000
#include "pycore_interpframe.h"
#include "pycore_stackref.h"
#else
#include "pycore_frame.h"
#endif
#endif

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#endif

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t ticks(void) { return __rdtsc(); }
#else
static inline uint64_t ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))
#define RARE __attribute__((cold, noinline))
#define LINE 64

enum { DEPTH = 4096, SLOTS = 1 << 14 };

/* ---- data about a code object ---- */

struct cell {
    uint64_t calls;
    uint64_t spent; /* ticks of its own */
    uint64_t asked; /* bytes of its own */
    uint64_t unused[5];
};

static Py_ssize_t place = -1; /* of our pointer among a code object's extras */

static RARE struct cell *new_cell(PyObject *code)
{
    struct cell *cell = aligned_alloc(LINE, sizeof *cell);
    if (cell == NULL)
        Py_FatalError("limits: no memory for a cell");
    *cell = (struct cell){0};
    PyUnstable_Code_SetExtra(code, place, cell);
    return cell;
}

static inline struct cell *cell_of(PyObject *code)
{
    void *known = NULL;
    PyUnstable_Code_GetExtra(code, place, &known);
    return __builtin_expect(known == NULL, 0) ? new_cell(code) : known;
}

/* ---- data about a thread ---- */

struct entry { /* of the ring: 32 bytes */
    uint64_t when;
    PyObject *code;
    uint64_t value;
    uint64_t event;
};
enum { ENTERED = 1, LEFT = 2 };

struct ring {
    _Alignas(LINE) _Atomic uint64_t written;
    uint64_t read_before; /* `read` as the writer saw it last */
    uint64_t lost;
    _Alignas(LINE) _Atomic uint64_t read;
    struct ring *next;
    _Alignas(LINE) struct entry entries[SLOTS];
};

struct open_call {
    struct cell *cell;
    uint64_t since;
    uint64_t inner;
};

struct lane {
    int depth;
    struct ring ring;
    struct open_call calls[DEPTH];
};

THREAD_LOCAL struct lane *my_lane;
THREAD_LOCAL uint64_t my_bytes;

static _Atomic(struct ring *) every_ring;

static RARE struct lane *new_lane(void)
{
    struct lane *lane = aligned_alloc(LINE, (sizeof *lane + LINE - 1) / LINE * LINE);
    if (lane == NULL)
        Py_FatalError("limits: no memory for a thread");
    memset(lane, 0, sizeof *lane);
    struct ring *first = atomic_load(&every_ring);
    do
        lane->ring.next = first;
    while (!atomic_compare_exchange_weak(&every_ring, &first, &lane->ring));
    return my_lane = lane;
}

static inline struct lane *lane_here(void)
{
    struct lane *lane = my_lane;
    return __builtin_expect(lane == NULL, 0) ? new_lane() : lane;
}

/* ---- the ring and its reader ---- */

static pthread_t reader;
static int reading;
static _Atomic int enough;
static uint64_t checksum;

static RARE int no_room(struct ring *ring, uint64_t at)
{
    if (!reading) { /* no reader: the oldest entry goes */
        ring->read_before = at;
        return 0;
    }
    ring->read_before = atomic_load_explicit(&ring->read, memory_order_acquire);
    if (at - ring->read_before < SLOTS)
        return 0;
    ring->lost++;
    return 1;
}

static inline void put(PyObject *code, uint64_t value, uint64_t event)
{
    struct ring *ring = &lane_here()->ring;
    uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed);
    if (__builtin_expect(at - ring->read_before >= SLOTS, 0) && no_room(ring, at))
        return;
    ring->entries[at % SLOTS] = (struct entry){ticks(), code, value, event};
    atomic_store_explicit(&ring->written, at + 1, memory_order_release);
}

static void sweep(void)
{
    for (struct ring *ring = atomic_load(&every_ring); ring != NULL; ring = ring->next) {
        uint64_t end = atomic_load_explicit(&ring->written, memory_order_acquire);
        uint64_t at = atomic_load_explicit(&ring->read, memory_order_relaxed);
        for (; at < end; at++)
            checksum ^= ring->entries[at % SLOTS].when + (uintptr_t)ring->entries[at % SLOTS].code;
        atomic_store_explicit(&ring->read, at, memory_order_release);
    }
}

static void *read_on(void *unused)
{
    struct timespec nap = {0, 100 * 1000};
    (void)unused;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        sweep();
        nanosleep(&nap, NULL);
    }
    sweep();
    return NULL;
}

static PyObject *read_rings(PyObject *module, PyObject *on)
{
    int wanted = PyObject_IsTrue(on);
    (void)module;
    if (wanted && !reading) {
        atomic_store(&enough, 0);
        for (struct ring *ring = atomic_load(&every_ring); ring != NULL; ring = ring->next)
            atomic_store(&ring->read, ring->read_before = atomic_load(&ring->written));
        if (pthread_create(&reader, NULL, read_on, NULL) != 0)
            return PyErr_SetString(PyExc_OSError, "limits: the reader's thread can't be made"), NULL;
        reading = 1;
    } else if (!wanted && reading) {
        atomic_store(&enough, 1);
        Py_BEGIN_ALLOW_THREADS
        pthread_join(reader, NULL);
        Py_END_ALLOW_THREADS
        reading = 0;
    }
    Py_RETURN_NONE;
}

/* ---- the callbacks: each is called with (code, ...) ---- */

#define CALLBACK(name) static PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t count)
#define DONE return (void)module, (void)args, (void)count, Py_NewRef(Py_None)

CALLBACK(count)
{
    cell_of(args[0])->calls++;
    DONE;
}

/* The end of a call adds its cost to its function, less the costs of its callees. */
static inline struct open_call *opened(PyObject *code)
{
    struct lane *lane = lane_here();
    int depth = lane->depth++;
    if (__builtin_expect(depth >= DEPTH, 0))
        return NULL;
    struct open_call *call = &lane->calls[depth];
    call->cell = cell_of(code);
    call->inner = 0;
    return call;
}

static inline struct open_call *closed(void)
{
    struct lane *lane = lane_here();
    if (__builtin_expect(lane->depth == 0, 0))
        return NULL;
    int depth = --lane->depth;
    return depth < DEPTH ? &lane->calls[depth] : NULL;
}

static inline uint64_t own_part(struct open_call *call, uint64_t all)
{
    if (my_lane->depth > 0)
        call[-1].inner += all;
    return all - call->inner;
}

static inline void time_from(PyObject *code, int calls)
{
    struct open_call *call = opened(code);
    if (call != NULL) {
        call->cell->calls += calls;
        call->since = ticks();
    }
}

static inline void time_to_here(void)
{
    uint64_t now = ticks();
    struct open_call *call = closed();
    if (call != NULL)
        call->cell->spent += own_part(call, now - call->since);
}

CALLBACK(time_start)
{
    time_from(args[0], 1);
    DONE;
}

CALLBACK(time_resume)
{
    time_from(args[0], 0);
    DONE;
}

CALLBACK(time_end)
{
    time_to_here();
    DONE;
}

static inline void memory_from(PyObject *code, int calls)
{
    struct open_call *call = opened(code);
    if (call != NULL) {
        call->cell->calls += calls;
        call->since = my_bytes;
    }
}

CALLBACK(memory_start)
{
    memory_from(args[0], 1);
    DONE;
}

CALLBACK(memory_resume)
{
    memory_from(args[0], 0);
    DONE;
}

CALLBACK(memory_end)
{
    struct open_call *call = closed();
    if (call != NULL)
        call->cell->asked += own_part(call, my_bytes - call->since);
    DONE;
}

CALLBACK(pair_start)
{
    put(args[0], 0, ENTERED);
    DONE;
}

CALLBACK(pair_end)
{
    put(args[0], 0, LEFT);
    DONE;
}

#if defined(LIMITS_FRAMES) && PY_VERSION_HEX >= 0x030C0000
static inline PyObject *first_argument(PyObject *code)
{
    if (((PyCodeObject *)code)->co_argcount == 0)
        return NULL;
#if PY_VERSION_HEX >= 0x030E0000
    return PyStackRef_AsPyObjectBorrow(PyThreadState_Get()->current_frame->localsplus[0]);
#elif PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame->localsplus[0];
#else
    return PyThreadState_Get()->cframe->current_frame->localsplus[0];
#endif
}

CALLBACK(filter_start)
{
    PyObject *first = first_argument(args[0]);
    int over;
    if (first == NULL || !PyLong_CheckExact(first) || PyLong_AsLongLongAndOverflow(first, &over) <= 1000)
        cell_of(args[0])->calls++;
    DONE;
}

CALLBACK(argument_start)
{
    PyObject *first = first_argument(args[0]);
    uint64_t value = (uintptr_t)first;
    if (first != NULL && PyLong_CheckExact(first)) {
        int over;
        value = (uint64_t)PyLong_AsLongLongAndOverflow(first, &over);
    }
    put(args[0], value, ENTERED);
    DONE;
}
#endif

/* ---- frame functions, for the version without sys.monitoring ---- */

#if defined(LIMITS_FRAMES) && PY_VERSION_HEX < 0x030C0000
static PyObject *counted_frame(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing)
{
    cell_of((PyObject *)frame->f_code)->calls++;
    return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

static PyObject *timed_frame(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing)
{
    time_from((PyObject *)frame->f_code, 1);
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwing);
    time_to_here();
    return result;
}

static PyObject *frames(PyObject *module, PyObject *what)
{
    const char *kind = PyUnicode_AsUTF8(what);
    (void)module;
    if (kind == NULL)
        return NULL;
    _PyFrameEvalFunction run = _PyEval_EvalFrameDefault;
    if (strcmp(kind, "count") == 0)
        run = counted_frame;
    else if (strcmp(kind, "time") == 0)
        run = timed_frame;
    else if (strcmp(kind, "off") != 0)
        return PyErr_Format(PyExc_ValueError, "limits: frames are for 'count', 'time' or 'off', not %R", what);
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), run);
    Py_RETURN_NONE;
}
#endif

/* ---- the allocators ---- */

enum { DOMAINS = 3 };
static const PyMemAllocatorDomain domains[DOMAINS] = {PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx plain[DOMAINS];
static int hooked;

static void *counted_malloc(void *context, size_t size)
{
    PyMemAllocatorEx *under = context;
    my_bytes += size;
    return under->malloc(under->ctx, size);
}

static void *counted_calloc(void *context, size_t items, size_t size)
{
    PyMemAllocatorEx *under = context;
    my_bytes += items * size;
    return under->calloc(under->ctx, items, size);
}

static void *counted_realloc(void *context, void *block, size_t size)
{
    PyMemAllocatorEx *under = context;
    my_bytes += size;
    return under->realloc(under->ctx, block, size);
}

static void counted_free(void *context, void *block)
{
    PyMemAllocatorEx *under = context;
    under->free(under->ctx, block);
}

static PyObject *count_bytes(PyObject *module, PyObject *on)
{
    int wanted = PyObject_IsTrue(on);
    (void)module;
    for (int i = 0; i < DOMAINS && wanted != hooked; i++) {
        if (wanted) {
            PyMem_GetAllocator(domains[i], &plain[i]);
            PyMemAllocatorEx ours = {&plain[i], counted_malloc, counted_calloc, counted_realloc, counted_free};
            PyMem_SetAllocator(domains[i], &ours);
        } else {
            PyMem_SetAllocator(domains[i], &plain[i]);
        }
    }
    hooked = wanted;
    Py_RETURN_NONE;
}

/* ---- the seen events, for the checks ---- */

static PyObject *seen(PyObject *module, PyObject *code)
{
    (void)module;
    if (!PyCode_Check(code))
        return PyErr_SetString(PyExc_TypeError, "limits: seen() takes a code object"), NULL;
    struct cell *cell = cell_of(code);
    return Py_BuildValue("KKK", (unsigned long long)cell->calls, (unsigned long long)cell->spent,
                         (unsigned long long)cell->asked);
}

static PyObject *rings(PyObject *module, PyObject *unused)
{
    uint64_t written = 0, lost = 0;
    (void)module, (void)unused;
    for (struct ring *ring = atomic_load(&every_ring); ring != NULL; ring = ring->next) {
        written += atomic_load(&ring->written);
        lost += ring->lost;
    }
    return Py_BuildValue("KK", (unsigned long long)written, (unsigned long long)lost);
}

/* The newest entries of this thread, oldest first: [(entered or left, code's address, value)]. */
static PyObject *newest(PyObject *module, PyObject *how_many)
{
    struct ring *ring = &lane_here()->ring;
    uint64_t end = atomic_load(&ring->written);
    unsigned long long wanted = PyLong_AsUnsignedLongLong(how_many);
    (void)module;
    if (PyErr_Occurred())
        return NULL;
    if (wanted > end || wanted > SLOTS)
        return PyErr_SetString(PyExc_ValueError, "limits: so many entries are not there"), NULL;
    PyObject *list = PyList_New(0);
    for (uint64_t at = end - wanted; list != NULL && at < end; at++) {
        struct entry *entry = &ring->entries[at % SLOTS];
        PyObject *item = Py_BuildValue("KKK", (unsigned long long)entry->event,
                                       (unsigned long long)(uintptr_t)entry->code, (unsigned long long)entry->value);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *forget(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    lane_here()->depth = 0;
    Py_RETURN_NONE;
}

#define EVENT(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    EVENT(count),
    EVENT(time_start),
    EVENT(time_resume),
    EVENT(time_end),
    EVENT(memory_start),
    EVENT(memory_resume),
    EVENT(memory_end),
    EVENT(pair_start),
    EVENT(pair_end),
#if defined(LIMITS_FRAMES) && PY_VERSION_HEX >= 0x030C0000
    EVENT(argument_start),
    EVENT(filter_start),
#endif
#if defined(LIMITS_FRAMES) && PY_VERSION_HEX < 0x030C0000
    {"frames", frames, METH_O, "Sets the function that runs frames: 'count', 'time' or 'off'."},
#endif
    {"read_rings", read_rings, METH_O, "Starts or stops the thread that empties the rings every 100 microseconds."},
    {"count_bytes", count_bytes, METH_O, "Puts the counting allocators before Python's, or takes them away."},
    {"seen", seen, METH_O, "(calls, ticks, bytes) of a code object."},
    {"rings", rings, METH_NOARGS, "(written, lost) of all rings."},
    {"newest", newest, METH_O, "The newest entries of this thread's ring."},
    {"forget", forget, METH_NOARGS, "Forgets the calls of this thread that are open."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_limits", .m_doc = "What an event costs at least.", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__limits(void)
{
    place = PyUnstable_Eval_RequestCodeExtraIndex(NULL);
    if (place < 0)
        return PyErr_SetString(PyExc_ImportError, "limits: code objects have no room left"), NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "slots", SLOTS) < 0)
        Py_CLEAR(module);
#ifdef Py_GIL_DISABLED
    if (module != NULL)
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
