/* Disks that fail, for tests: a shared library that is loaded before libc and makes chosen calls on chosen files fail.
 *
 * In a test program: link with fail_io_dep and call fail_io_set(). In any program, such as psd: start it with
 *
 *     LD_PRELOAD=<build>/tests/faults/libfail_io.so FAIL_IO=/path/control
 *
 * and write into the control file, at any time, what fails. The file has one line, is read again at each call on a
 * matching file, and is replaced by rename (fail_io_write(), or `echo ... >control.new && mv control.new control`). No
 * file, or an empty one: nothing fails.
 *
 *     CALLS ERROR [NTH [COUNT [END]]]
 *
 *     CALLS  of pwrite pwritev write writev sendmsg fdatasync fsync msync ftruncate fallocate,
 *            joined by commas; or any
 *     ERROR  EIO ENOSPC EDQUOT EROFS EDEADLK EINTR ENOMEM
 *            SHORT: half is written, as on a disk that becomes full; calls that write no bytes succeed
 *            STALL: waits until the control file changes, then continues
 *     NTH    the first that fails, counted from when the line was put there; 1 is the next
 *     COUNT  how many fail from then on; 0: all, until the line changes. Default 1.
 *     END    of the file's path; socket: any socket; else data.mdb
 *
 *     fdatasync EIO            the next sync of the data file fails, once
 *     any ENOSPC 1 0           its disk is full
 *     fsync EIO 1 0 manifest   no file whose path ends so can be synced
 *
 * Each call that failed or stalled adds a line "CALL ERROR" to the file CONTROL.hits, so that a test can wait for it.
 *
 * Memory-mapped writes are no calls: the live store writes so, and only its growth (fallocate, ftruncate) and msync are
 * seen. A call that reaches libc another way (io_uring, posix_fallocate, pwritev2) is not seen either; psd and liblmdb
 * do no such thing. AddressSanitizer must be loaded first: ASAN_OPTIONS=verify_asan_link_order=0 with LD_PRELOAD. */
#ifndef TESTS_FAULTS_FAIL_IO_H
#define TESTS_FAULTS_FAIL_IO_H

#include <stdbool.h>
#include <stdio.h>

/* For this process, and instead of a control file: such a line; NULL or "": nothing fails. False: not understood. */
bool fail_io_set(const char *line);

/* Calls that failed or stalled since the line was set. */
unsigned fail_io_hits(void);

/* Calls on matching files of the kinds that the line names, since it was set. */
unsigned fail_io_calls(void);

/* Replace a control file's line. */
static inline bool
fail_io_write(const char *control, const char *line)
{
    char fresh[4096];
    FILE *f;
    bool ok;

    snprintf(fresh, sizeof fresh, "%s.new", control);
    f = fopen(fresh, "w");
    ok = f != NULL && fprintf(f, "%s\n", line) >= 0;
    if (f != NULL)
        ok = fclose(f) == 0 && ok;
    return ok && rename(fresh, control) == 0;
}

#endif
