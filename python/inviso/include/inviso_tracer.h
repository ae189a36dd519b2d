/*
 * Tracer modules in C, for inviso. A tracer module is a shared library. Its callbacks are called when a trace event happens, in the
 * thread of the event.
 *
 *     cc -shared -fPIC -I"$(python -c 'import inviso; print(inviso.include_dir())')" -o my_tracer.so my_tracer.c
 *
 *     tracer = inviso.tracer.load("./my_tracer.so")
 *     session = inviso.trace.session_create("mine", (tracer, state))
 *
 * A library defines an inviso_tracer and names it: INVISO_TRACER(my_table). Use the inline functions below for everything else.
 *
 * - Terms are handles. A handle is valid in the callback that got or made it: until the callback returns, in its thread, with its env.
 *   The handle 0 is not a term.
 * - Callbacks run in several threads at the same time. They hold the interpreter's lock, if there is one: be short, and don't wait. The
 *   functions declared here run no Python code and don't release that lock. So a callback may hold a lock of the library.
 * - Messages and calls of a callback are not reported to any tracer module.
 * - A C++ exception that leaves a callback ends the program.
 * - Each inviso.tracer.load() calls the library's load, has its own priv_data, and ends with unload. But the code and the static
 *   variables of a file are in memory only once, also if it is loaded twice. Keep the data of one load in priv_data.
 */
#ifndef INVISO_TRACER_H
#define INVISO_TRACER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with each change below that a compiled library relies on. A library with another number is refused. */
#define INVISO_TRACER_ABI 1u

typedef uint64_t inviso_term;

typedef struct {
    uint64_t number;
} inviso_pid;

typedef enum {
    INVISO_NOTHING = 0,
    INVISO_INT,        /* within 64 bits */
    INVISO_BIG,        /* a larger one */
    INVISO_FLOAT,
    INVISO_ATOM,
    INVISO_STR,        /* text; in Erlang a binary */
    INVISO_BYTES,      /* a binary */
    INVISO_TUPLE,
    INVISO_LIST,
    INVISO_MAP,
    INVISO_PID,
    INVISO_PORT,
    INVISO_REFERENCE,
    INVISO_OTHER       /* objects that are not copied, functions, records, sets, bit strings, improper lists, cut terms */
} inviso_kind;

typedef enum {
    INVISO_TRACE = 0,   /* report the event */
    INVISO_DISCARD = 1, /* don't report it */
    INVISO_REMOVE = 2   /* don't report it, and stop tracing the tracee in this session */
} inviso_answer;

typedef struct inviso_env inviso_env;

/* The functions of inviso. Call them by the inline functions below. A result of type int is 1 for yes or done, 0 for no. */
typedef struct {
    uint32_t abi;
    uint32_t size; /* bytes of this table */
    inviso_kind (*kind)(inviso_env *env, inviso_term term);
    int (*is_identical)(inviso_env *env, inviso_term one, inviso_term other);
    int (*get_int)(inviso_env *env, inviso_term term, int64_t *value);
    int (*get_float)(inviso_env *env, inviso_term term, double *value);
    int (*get_text)(inviso_env *env, inviso_term term, const char **text, size_t *length);
    int (*get_length)(inviso_env *env, inviso_term term, size_t *length);
    inviso_term (*get_element)(inviso_env *env, inviso_term term, size_t n);
    int (*get_map_value)(inviso_env *env, inviso_term map, inviso_term key, inviso_term *value);
    int (*get_local_pid)(inviso_env *env, inviso_term term, inviso_pid *pid);
    int (*is_process_alive)(inviso_env *env, const inviso_pid *pid);
    inviso_term (*make_atom)(inviso_env *env, const char *name);
    inviso_term (*make_int)(inviso_env *env, int64_t value);
    inviso_term (*make_float)(inviso_env *env, double value);
    inviso_term (*make_str)(inviso_env *env, const char *text, size_t length);
    inviso_term (*make_bytes)(inviso_env *env, const void *bytes, size_t length);
    inviso_term (*make_tuple)(inviso_env *env, const inviso_term *elements, size_t n);
    inviso_term (*make_list)(inviso_env *env, const inviso_term *elements, size_t n);
    inviso_term (*make_map)(inviso_env *env, const inviso_term *keys, const inviso_term *values, size_t n);
    inviso_term (*make_pid)(inviso_env *env, const inviso_pid *pid);
    int (*send)(inviso_env *env, const inviso_pid *to, inviso_term message);
} inviso_host;

struct inviso_env {
    const inviso_host *host;
    void *priv_data; /* set by load or upgrade */
    /* private fields of inviso follow */
};

typedef inviso_answer (*inviso_enabled)(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee);
typedef void (*inviso_trace)(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term,
                             inviso_term opts);

/* The functions of a library. Tags, states, tracees, terms and opts are those of inviso.tracer.Tracer. An absent tracee is the atom
 * undefined. Load, upgrade and unload may be NULL. So may all pairs of enabled and trace but the first, which is called in their place. */
typedef struct {
    uint32_t abi;  /* INVISO_TRACER_ABI */
    uint32_t size; /* sizeof(inviso_tracer) */
    const char *name;
    /* Returns 0 on success. With any other result the library is refused. */
    int (*load)(inviso_env *env, void **priv_data, inviso_term info);
    /* This library replaces another one, or an older build of itself. *old_priv_data is the data of the replaced one. Its callbacks may
     * still be running, with that data. After the last has returned, the replaced one's unload is called with the value that
     * *old_priv_data has by then. Set it to NULL if this library takes the data over. Don't free anything here that those callbacks use. */
    int (*upgrade)(inviso_env *env, void **priv_data, void **old_priv_data, inviso_term info);
    /* Called after the last callback with this data has returned. */
    void (*unload)(inviso_env *env, void *priv_data);
    inviso_enabled enabled;
    inviso_trace trace;
    inviso_enabled enabled_call;
    inviso_trace trace_call;
    inviso_enabled enabled_send;
    inviso_trace trace_send;
    inviso_enabled enabled_receive;
    inviso_trace trace_receive;
    inviso_enabled enabled_procs;
    inviso_trace trace_procs;
    inviso_enabled enabled_ports;
    inviso_trace trace_ports;
    inviso_enabled enabled_running_procs;
    inviso_trace trace_running_procs;
    inviso_enabled enabled_running_ports;
    inviso_trace trace_running_ports;
    inviso_enabled enabled_garbage_collection;
    inviso_trace trace_garbage_collection;
} inviso_tracer;

#if defined(_WIN32)
#define INVISO_EXPORT __declspec(dllexport)
#else
#define INVISO_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define INVISO_EXTERN_C extern "C"
#else
#define INVISO_EXTERN_C
#endif

/* The only symbol of the library. It is called first, with the INVISO_TRACER_ABI of the inviso that loads the library. Write no semicolon
 * after this macro. */
#define INVISO_TRACER(table)                                                  \
    INVISO_EXTERN_C INVISO_EXPORT const inviso_tracer *inviso_tracer_entry(   \
        uint32_t host_abi);                                                   \
    INVISO_EXTERN_C INVISO_EXPORT const inviso_tracer *inviso_tracer_entry(   \
        uint32_t host_abi)                                                    \
    {                                                                         \
        (void)host_abi;                                                       \
        return &(table);                                                      \
    }

static inline inviso_kind inviso_kind_of(inviso_env *env, inviso_term term) { return env->host->kind(env, term); }

/* Compares as Erlang's =:= does: 1 and 1.0 differ. Text is equal to its bytes in UTF-8. Python's None, True and False are the atoms
 * undefined, true and false. */
static inline int inviso_is_identical(inviso_env *env, inviso_term one, inviso_term other)
{
    return env->host->is_identical(env, one, other);
}

static inline int inviso_get_int(inviso_env *env, inviso_term term, int64_t *value)
{
    return env->host->get_int(env, term, value);
}

static inline int inviso_get_float(inviso_env *env, inviso_term term, double *value)
{
    return env->host->get_float(env, term, value);
}

/* The text of an atom, a str or bytes. It doesn't end with a zero byte. It is valid as long as the term. */
static inline int inviso_get_text(inviso_env *env, inviso_term term, const char **text, size_t *length)
{
    return env->host->get_text(env, term, text, length);
}

/* The length of a tuple, a list or a map. */
static inline int inviso_get_length(inviso_env *env, inviso_term term, size_t *length)
{
    return env->host->get_length(env, term, length);
}

/* Element n of a tuple or a list, counted from 0. Returns 0 beyond its end. */
static inline inviso_term inviso_get_element(inviso_env *env, inviso_term term, size_t n)
{
    return env->host->get_element(env, term, n);
}

/* The value of an identical key. */
static inline int inviso_get_map_value(inviso_env *env, inviso_term map, inviso_term key, inviso_term *value)
{
    return env->host->get_map_value(env, map, key, value);
}

/* Returns 0 if the term is not a pid, or is a pid of another node. */
static inline int inviso_get_local_pid(inviso_env *env, inviso_term term, inviso_pid *pid)
{
    return env->host->get_local_pid(env, term, pid);
}

static inline int inviso_is_process_alive(inviso_env *env, const inviso_pid *pid)
{
    return env->host->is_process_alive(env, pid);
}

/* The name ends with a zero byte. It has to be UTF-8, like all text; otherwise the result is 0. */
static inline inviso_term inviso_make_atom(inviso_env *env, const char *name) { return env->host->make_atom(env, name); }

static inline inviso_term inviso_make_int(inviso_env *env, int64_t value) { return env->host->make_int(env, value); }

static inline inviso_term inviso_make_float(inviso_env *env, double value) { return env->host->make_float(env, value); }

static inline inviso_term inviso_make_str(inviso_env *env, const char *text, size_t length)
{
    return env->host->make_str(env, text, length);
}

static inline inviso_term inviso_make_bytes(inviso_env *env, const void *bytes, size_t length)
{
    return env->host->make_bytes(env, bytes, length);
}

/* This function and those below return 0 if one of the elements is not a term. */
static inline inviso_term inviso_make_tuple(inviso_env *env, const inviso_term *elements, size_t n)
{
    return env->host->make_tuple(env, elements, n);
}

static inline inviso_term inviso_make_list(inviso_env *env, const inviso_term *elements, size_t n)
{
    return env->host->make_list(env, elements, n);
}

static inline inviso_term inviso_make_map(inviso_env *env, const inviso_term *keys, const inviso_term *values, size_t n)
{
    return env->host->make_map(env, keys, values, n);
}

static inline inviso_term inviso_make_pid(inviso_env *env, const inviso_pid *pid)
{
    return env->host->make_pid(env, pid);
}

/* Puts a message into a process's mailbox, after the messages that traces have sent there before. Returns 0 if the process has ended or is
 * a queue, or if the message is not a term. A term that nests too deeply is cut. */
static inline int inviso_send(inviso_env *env, const inviso_pid *to, inviso_term message)
{
    return env->host->send(env, to, message);
}

#ifdef __cplusplus
}
#endif

#endif
