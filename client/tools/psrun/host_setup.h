/* The resources of processes on their machine when they start: ports, directories, memory. Glue over the system, for
 * psrun and for its agent on other machines. */
#ifndef CLIENT_TOOLS_PSRUN_HOST_SETUP_H
#define CLIENT_TOOLS_PSRUN_HOST_SETUP_H

#include "client/tools/shared/strlist.h"
#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* A free port of 127.0.0.1, held by a socket that does not listen: no other process is given it, and a worker that
 * listens on its address still can (SO_REUSEADDR on both sides). *fd is the caller's to close, -1 after a failure. */
enum ps_err host_setup_port(int *fd, uint16_t *port, struct ps_error *e) PS_MUST_USE;

/* A token for a run, "name:role:secret": the one of the environment (common/system/token.h), else a random one when
 * `make`; else *token is NULL. Heap memory, freed with free(). PS_ERR_CONFIG, PS_ERR_IO. */
enum ps_err host_setup_token(bool make, char **token, struct ps_error *e) PS_MUST_USE;

/* Write it to a file that only its owner can read. */
enum ps_err host_setup_token_file(const char *path, const char *token, struct ps_error *e) PS_MUST_USE;

/* A new directory for a run of so many shards, in memory where there is enough; *disk: it is on disk instead. Into out.
 * need_memory: false when the data goes elsewhere. */
enum ps_err host_setup_run_dir(uint32_t shards, bool need_memory, char *out, size_t size, bool *disk,
                               struct ps_error *e) PS_MUST_USE;

/* The same for a run's directory that was named elsewhere: dirs, and psd's argument --live-dir, are moved from /dev/shm
 * to disk when it has no space for so many shards; those of a shard that ran here before stay where they were.
 * *remove_dir is "" for a shard that has no directory of the run, and heap memory. */
void host_setup_move_to_disk(struct strlist *dirs, struct strlist *argv, char **remove_dir, uint32_t shards);

/* Make each that is not there yet, 0700; one that is there must be a directory of ours. */
enum ps_err host_setup_dirs(const struct strlist *dirs, struct ps_error *e) PS_MUST_USE;

/* Remove it with all that is in it, as far as possible. */
void host_setup_remove(const char *dir);

/* The same for a shard's directory, "" for none; after the last one the run's directory that contains them is
 * removed. */
void host_setup_remove_shard(const char *dir);

/* Append --memory=BYTES to psd's argv: its part of 80 % of what is free in the filesystem of its live directory, when
 * so many share it, and the space of its files there; under a memory limit (cgroup.h) no more than its part of half of
 * that, since messages, gradients and workers take of it too. shards 0: nothing. */
void host_setup_memory(struct strlist *argv, const char *live_dir, uint32_t shards);

#endif
