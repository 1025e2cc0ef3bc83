/* ps_err.h: the one list of error codes and their sentences, shared by psd, libpsclient and the wire; and struct
 * ps_error, which says what went wrong. Part of psclient.h.
 *
 * Codes travel in frames, so their numbers are part of the protocol: add at the end, never renumber. Every function
 * that can fail returns enum ps_err; PS_OK is 0.
 *
 * Threads: any. */
#ifndef PS_ERR_H
#define PS_ERR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every code: its name without PS_ERR_, its number, its sentence.
 * Since: 0.1 */
/* clang-format off */
#define PS_ERR_LIST(X)                                                                                    \
    X(INVALID,          1, "an argument is not valid")                                                    \
    X(NOMEM,            2, "out of memory in this process")                                               \
    X(TIMEOUT,          3, "the deadline passed")                                                         \
    X(CANCELLED,        4, "the operation was cancelled")                                                 \
    X(UNREACHABLE,      5, "the peer cannot be reached")                                                  \
    X(CLOSED,           6, "the connection was closed")                                                   \
    X(PROTOCOL,         7, "the peer broke the protocol")                                                 \
    X(VERSION,          8, "the peer speaks a protocol version that is not known here")                   \
    X(CLUSTER,          9, "the peer belongs to another cluster or is another shard of it")               \
    X(NOT_FOUND,       10, "no such variable, block or job")                                              \
    X(MISMATCH,        11, "declared before with a different definition")                                 \
    X(SHAPE,           12, "the payload does not match the declared shape")                               \
    X(NONFINITE,       13, "the gradient holds NaN or Inf, or weights would overflow")                                               \
    X(STALE,           14, "the push was dropped: its age passed the cutoff")                             \
    X(LATE,            15, "the push was dropped: its step already had its gradients")                    \
    X(SEQUENCE,        16, "a sequence number was skipped")                                               \
    X(CLOCK,           17, "a clock may not go back")                                                     \
    X(TASK_TAKEN,      18, "another live process holds this worker index")                                \
    X(FENCED,          19, "this worker incarnation was replaced or evicted")                             \
    X(LEASE_LAPSED,    20, "the worker's lease lapsed; it must rejoin")                                   \
    X(STEP_FAILED,     21, "a worker that the step needs was lost")                                       \
    X(LIMIT,           22, "a documented limit was exceeded")                                             \
    X(FULL,            23, "the shard's memory is full")                                                  \
    X(IO,              24, "the operating system reported an input/output error")                         \
    X(DRAINING,        25, "the shard is shutting down")                                                  \
    X(ROLLED_BACK,     26, "the shard restarted older than what it had acknowledged")                     \
    X(UNKNOWN_OUTCOME, 27, "given up while unanswered: the push may or may not have been applied")        \
    X(CONFIG,          28, "the configuration is not valid")                                              \
    X(DATA,            29, "a data file is not valid")                                                    \
    X(UNSUPPORTED,     30, "not supported by this build or machine")                                      \
    X(BUSY,            31, "in use by another process")                                                   \
    X(INTERNAL,        32, "an internal error; please report it")                                         \
    X(NOT_DURABLE,     33, "the push was applied, but could not be written to disk")                      \
    X(RESTORED,        34, "the shard was restored from a checkpoint")                                    \
    X(TLS,             35, "the two sides could not agree on TLS")                                   \
    X(DENIED,          36, "no token, or not one that may do this")                                       \
    X(DROPPED,         37, "the job or variable was dropped")
/* clang-format on */

/* What a call ended with.
 * Since: 0.1 */
enum ps_err {
    PS_OK = 0,
#define PS_ERR_ENUM(name, number, text) PS_ERR_##name = number,
    PS_ERR_LIST(PS_ERR_ENUM)
#undef PS_ERR_ENUM
        PS_ERR_COUNT /* one past the last code */
};

/* Marks of declarations: the result must be looked at; the library exports it; it takes a format as printf() does.
 * Since: 0.1 */
#if defined(__GNUC__)
#define PS_MUST_USE                          __attribute__((warn_unused_result))
#define PS_API                               __attribute__((visibility("default")))
#define PS_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define PS_MUST_USE
#define PS_API
#define PS_PRINTF(format_index, first_index)
#endif

/* The sentence for a code, and its name as written in documents and logs.
 *
 * Parameters:
 *   err  a code
 * Returns:
 *   ps_strerror()  "the deadline passed"; "unknown error code" for a number that is not in the list. Never NULL, static
 *   ps_err_name()  "TIMEOUT". Never NULL, static
 * Since: 0.1 */
PS_API const char *ps_strerror(enum ps_err err);
PS_API const char *ps_err_name(enum ps_err err);

/* Bytes of an error's sentence and of its peer, and what always holds the line that ps_error_format() makes of them.
 * Since: 0.1 */
#define PS_ERROR_TEXT_MAX 512
#define PS_ERROR_PEER_MAX 128
#define PS_ERROR_LINE_MAX (PS_ERROR_TEXT_MAX + PS_ERROR_PEER_MAX + 32)

/* What went wrong, in full. Plain data, owned by whoever declared it; text is always terminated.
 * Since: 0.1 */
struct ps_error {
    enum ps_err code;
    char text[PS_ERROR_TEXT_MAX]; /* one sentence that says what happened, with names and numbers */
    char peer[PS_ERROR_PEER_MAX]; /* "shard 1 at 127.0.0.1:4000", "worker 2", or "" */
};

/* Fill an error with a code and a formatted sentence; the peer becomes "".
 *
 * What could not be seen in it is written out: a line end as \n, a byte order mark as \ufeff, a byte that is no UTF-8
 * as \xff. The sentence is one line.
 *
 * Parameters:
 *   e       filled; may be NULL
 *   code    the code
 *   format  as of printf()
 * Since: 0.1 */
PS_API void ps_error_set(struct ps_error *e, enum ps_err code, const char *format, ...) PS_PRINTF(3, 4);

/* Fill an error as ps_error_set() does, with the code as value, so that a failure reads `return ps_fail(e,
 * PS_ERR_SHAPE, "...")`. Inline, so that the compiler sees that it is a failure.
 *
 * Since: 0.1 */
#define ps_fail(e, code, ...) (ps_error_set((e), (code), __VA_ARGS__), ps_fail_code(code))
static inline enum ps_err
ps_fail_code(enum ps_err code)
{
    return code;
}

/* All of an error as one line for people, without a newline: "TIMEOUT: waited 500 ms for ... (shard 1 at
 * 127.0.0.1:4000)".
 *
 * The code is left out when it is PS_OK (an event), the peer when there is none or the sentence names it.
 *
 * Parameters:
 *   e     the error
 *   out   [size] bytes, terminated, cut off when size is too small
 *   size  in bytes; PS_ERROR_LINE_MAX always does
 * Since: 0.1 */
PS_API void ps_error_format(const struct ps_error *e, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
