/* What process.c (the life of a process) and process_read.c (its output and reports) share. */
#ifndef CLIENT_TOOLS_PSRUN_PROCESS_INTERNAL_H
#define CLIENT_TOOLS_PSRUN_PROCESS_INTERNAL_H

#include "client/tools/psrun/process.h"

/* ---- process.c ---- */

/* To the supervisor, while it runs. */
void process_signal(struct process *p, int signal);

void process_close_stream(struct process_stream *s);
bool process_streams_open(const struct process *p);

/* The last handle: once nothing is left to be read, or the time for that is up. */
void process_close_drain(struct process *p);

/* ---- process_read.c ---- */

void process_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
void process_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

/* Of the lines of a stream; of a remote process's agent. */
void process_line(void *arg, enum lines_kind kind, const char *text, size_t len);
void process_frame(void *arg, const struct remote_header *header, const char *body);
void process_noise(void *arg, const char *bytes, size_t len);

#endif
