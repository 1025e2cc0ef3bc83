/* Power loss in memory: a disk's copy of a kit's shard, and the shard that is rebuilt from it.
 *
 *     disk_save(&disk, &k);                  // an instant, as in a save
 *     ... k.redo grows ...
 *     disk_take(&disk, &k, k.redo);          // pieces of the redo log, up to there
 *     power_loss(&disk, &k, boot);           // a new store of the instant, and the log replayed over it */
#ifndef TESTS_UNIT_KITS_POWER_KIT_H
#define TESTS_UNIT_KITS_POWER_KIT_H

#include "tests/unit/kits/shard_kit.h"

struct disk_bytes {
    struct store_key key;
    enum store_table table; /* of a row: then what follows the key is its own */
    uint8_t row_key[STORE_ROW_KEY_MAX];
    size_t row_key_len;
    uint8_t *bytes;
    size_t len;
};

struct power_disk {
    struct disk_bytes *blocks, *rows, *pieces;
    size_t blocks_len, rows_len, pieces_len;
    uint64_t redo; /* pieces before this one are in the save */
    uint64_t next; /* piece that the disk does not have */
    enum store_mem_fail fail;
    uint64_t fail_nth; /* of the new live store's operations, once it holds the save; 0: none fails */
};

void disk_save(struct power_disk *d, struct kit *k);
void disk_take(struct power_disk *d, struct kit *k, uint64_t until);
void disk_finish(struct power_disk *d);

/* A store that holds the save and nothing else. */
struct store *disk_store(const struct power_disk *d);

/* The live store is gone. The error of shard_replay_piece() or shard_replay_end() when the log is damaged; then there
 * is no shard. */
enum ps_err power_loss_error(const struct power_disk *d, struct kit *k, uint64_t boot, struct ps_error *e);

/* The same, which must succeed. Returns how many records were replayed. */
uint64_t power_loss(const struct power_disk *d, struct kit *k, uint64_t boot);

/* Every block: its version and arrays, bit by bit. */
uint64_t blocks_hash(struct store *store);

#endif
