/* Runs a fuzz target without libFuzzer: each file of its corpus, then inputs made from these, as a test.
 *
 *     fuzz_shard_replay DIRECTORY COUNT       the files, then COUNT mutations; PSD_TEST_SEED is their seed
 *     fuzz_shard_replay FILE...               these inputs alone: those that a campaign found
 *
 * A mutation is made of a file by a few edits: a bit, a byte, a run that is doubled, left out or taken from another
 * file. Each has a seed of its own, printed when it is what ended the program; given as PSD_TEST_SEED it comes first.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/fuzz/bytes.h"

#define INPUTS_MAX 256
#define INPUT_MAX  4096
#define SEED       20260101

struct replay_input {
    char *name;
    uint8_t *data;
    size_t size;
};

static struct replay_input corpus[INPUTS_MAX];
static size_t corpus_len;

/* ---- Inputs ---- */

static void
read_input(const char *path)
{
    FILE *in = fopen(path, "rbe");
    struct replay_input *to = &corpus[corpus_len++];
    struct stat st;

    ps_assert(corpus_len <= INPUTS_MAX);
    to->name = strdup(path);
    if (to->name == NULL || in == NULL || fstat(fileno(in), &st) != 0 ||
        (to->data = malloc((size_t)st.st_size + 1)) == NULL ||
        (to->size = fread(to->data, 1, (size_t)st.st_size, in)) != (size_t)st.st_size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(in);
}

/* In the order of their names, so that a seed means the same everywhere. */
static void
read_directory(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    char file[4096];

    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
            read_input(file);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

/* In memory of exactly its length. */
static void
replay_run(const struct replay_input *input)
{
    uint8_t *exact = malloc(input->size + (input->size == 0));

    ps_assert(exact != NULL);
    memcpy(exact, input->data, input->size);
    LLVMFuzzerTestOneInput(exact, input->size);
    free(exact);
}

/* ---- Mutations ---- */

static uint64_t state;

/* xorshift */
static uint64_t
replay_below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* Replace a run of `to` by a run of `from`, which may be the same input; either may be empty. */
static void
replay_exchange(struct replay_input *to, const struct replay_input *from)
{
    size_t at = replay_below(to->size + 1), out = replay_below(16);
    size_t first = replay_below(from->size + 1), in = replay_below(4) == 0 ? replay_below(512) : replay_below(16);
    uint8_t piece[512];

    out = MIN(out, to->size - at);
    in = MIN(in, from->size - first);
    if (to->size - out + in > INPUT_MAX)
        return;
    memcpy(piece, from->data + first, in);
    memmove(to->data + at + in, to->data + at + out, to->size - at - out);
    memcpy(to->data + at, piece, in);
    to->size += in - out;
}

static void
replay_edit(struct replay_input *input)
{
    uint8_t *at = input->data + replay_below(input->size + 1);

    if (at == input->data + input->size || replay_below(3) == 0)
        replay_exchange(input, replay_below(2) == 0 ? input : &corpus[replay_below(corpus_len)]);
    else if (replay_below(2) == 0)
        *at ^= (uint8_t)(1 << replay_below(8));
    else
        *at = (uint8_t)replay_below(256);
}

static void
replay_mutation(uint64_t seed)
{
    uint8_t data[INPUT_MAX];
    const struct replay_input *from;
    struct replay_input input = {.data = data};

    state = seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < 4; i++)
        replay_below(2);
    from = &corpus[replay_below(corpus_len)];
    input.size = MIN(from->size, INPUT_MAX);
    memcpy(data, from->data, input.size);
    for (uint64_t edits = 1 + replay_below(12); edits > 0; edits--)
        replay_edit(&input);
    replay_run(&input);
}

/* ---- The program ---- */

/* The input that runs now. */
static const char *name_now; /* NULL: a mutation */
static uint64_t seed_now;

static void
say_input(int sig)
{
    char text[4200];
    int len = name_now != NULL ? snprintf(text, sizeof text, "# ended in %s\n", name_now)
                               : snprintf(text, sizeof text, "# ended with PSD_TEST_SEED=%" PRIu64 "\n", seed_now);

    (void)!write(STDERR_FILENO, text, (size_t)len);
    signal(sig, SIG_DFL);
    raise(sig);
}

static int
as_test(const char *directory, uint64_t mutations)
{
    const char *seed_text = getenv("PSD_TEST_SEED");
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 0) : SEED;

    read_directory(directory);
    printf("1..2\n");
    signal(SIGABRT, say_input);
    for (size_t i = 0; i < corpus_len; i++) {
        name_now = corpus[i].name;
        replay_run(&corpus[i]);
    }
    name_now = NULL;
    printf("%s 1 - %zu inputs of the corpus\n", corpus_len > 0 ? "ok" : "not ok", corpus_len);
    if (corpus_len == 0)
        return 1;
    for (seed_now = seed; seed_now < seed + mutations; seed_now++)
        replay_mutation(seed_now);
    printf("ok 2 - %" PRIu64 " mutations of them, seeds %" PRIu64 " and up\n", mutations, seed);
    return 0;
}

int
main(int argc, char **argv)
{
    struct stat st;
    int status = 0;

    if (argc == 3 && stat(argv[1], &st) == 0 && S_ISDIR(st.st_mode))
        status = as_test(argv[1], strtoull(argv[2], NULL, 0));
    else
        for (int i = 1; i < argc; i++) {
            read_input(argv[i]);
            replay_run(&corpus[corpus_len - 1]);
        }
    for (size_t i = 0; i < corpus_len; i++) {
        free(corpus[i].name);
        free(corpus[i].data);
    }
    return status;
}
