#include "tests/unit/kits/store_lmdb_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/memory_dir.h"
#include "tests/unit/kits/store_suite.h"
#include "tests/user_namespace.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

char kit_base[64], kit_dir[128];
static bool kit_durable;

void
kit_setup(bool durable)
{
    kit_durable = durable;
    snprintf(kit_base, sizeof kit_base, "%s/psd-test-XXXXXX", memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(kit_base));
    snprintf(kit_dir, sizeof kit_dir, "%s/%s", kit_base, durable ? "durable" : "live");
}

void
kit_teardown(void)
{
    remove_tree(kit_base);
}

enum ps_err
kit_try_open(uint64_t max_bytes, struct store **out, struct store_dir_report *report, struct ps_error *e)
{
    struct store_lmdb_options o = {.dir = kit_dir, .max_bytes = max_bytes, .durable = kit_durable};

    return store_lmdb_open(&o, out, report, e);
}

struct store *
kit_open(uint64_t max_bytes)
{
    struct store_dir_report report;
    struct ps_error e = {0};
    struct store *s = NULL;
    enum ps_err err = kit_try_open(max_bytes, &s, &report, &e);

    ck_assert_msg(err == PS_OK, "%s", e.text);
    return s;
}

void
kit_refused(uint64_t max_bytes, enum ps_err want, const char *says)
{
    struct store *s = NULL;
    struct store_dir_report report;
    struct ps_error e = {0};

    ck_assert_int_eq(kit_try_open(max_bytes, &s, &report, &e), want);
    ck_assert_msg(strstr(e.text, says) != NULL, "\"%s\" does not say \"%s\"", e.text, says);
    ck_assert_ptr_null(s);
}

struct store *
kit_make(bool durable)
{
    kit_setup(durable);
    return kit_open(STORE_SUITE_BYTES);
}

struct store *
kit_crash(struct store *s, bool writing)
{
    if (writing)
        s->ops->abort(s);
    s->ops->close(s);
    return kit_open(STORE_SUITE_BYTES);
}

void
kit_unmake(struct store *s)
{
    s->ops->close(s);
    kit_teardown();
}

enum ps_err
kit_update(struct store *s, uint32_t var, uint32_t block, int size_class, uint64_t version)
{
    struct store_key key = {.var = var, .block = block};
    size_t size = layout_value_size(size_class);
    enum ps_err err = s->ops->begin(s, size);
    void *place;

    if (err != PS_OK)
        return err;
    if ((err = s->ops->reserve(s, &key, size, &place)) != PS_OK) {
        s->ops->abort(s);
        return err;
    }
    store_suite_fill(place, size, &key, version);
    return s->ops->commit(s);
}

void
kit_check(struct store *s, uint32_t var, uint32_t block, uint64_t version)
{
    struct store_key key = {.var = var, .block = block};
    struct store_snapshot *snap;
    struct span v;

    OK(s->ops->snapshot_ref(s, &snap));
    OK(s->ops->snapshot_get(s, snap, &key, &v));
    ck_assert_uint_eq(store_suite_version(v.data), version);
    ck_assert(store_suite_holds(v.data, v.len, &key, version));
    s->ops->snapshot_unref(s, snap);
}

/* ---- A small filesystem ---- */

/* A user who is not root becomes root in a user namespace. */
static bool
own_mounts(void)
{
    return geteuid() == 0 ? unshare(CLONE_NEWNS) == 0 : user_namespace_enter(CLONE_NEWNS);
}

bool
kit_mount(uint64_t bytes)
{
    char options[64];
    bool ok = getenv("CK_FORK") == NULL && own_mounts() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;

    ck_assert_int_eq(mkdir(kit_dir, 0700), 0);
    snprintf(options, sizeof options, "size=%" PRIu64 ",mode=0700", bytes);
    ok = ok && mount("tmpfs", kit_dir, "tmpfs", 0, options) == 0;
    if (!ok)
        fprintf(stderr, "# skipped: cannot mount a tmpfs here\n");
    return ok;
}

void
kit_fill_disk(const char *path)
{
    static char zeros[65536];
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    ck_assert_int_ge(fd, 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    ck_assert_int_eq(errno, ENOSPC);
    close(fd);
}
