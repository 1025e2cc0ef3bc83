"""Blocks and where they lie: section 8 of proto/PROTOCOL.md. First values: section 9, as far as they are exact."""

import math

MASK = (1 << 64) - 1
SIZES = 262144, 65536, 4032


def hash_of(data, seed):
    x = 0xCBF29CE484222325 ^ seed
    for byte in data:
        x = ((x ^ byte) * 0x100000001B3) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def layout(elements, slots=0):
    """How many elements each block has."""
    out = []
    for size in SIZES:
        capacity = size // (4 * (1 + slots)) // 16 * 16
        fit = elements // capacity
        out += [capacity] * fit
        elements -= capacity * fit
    return out + [elements] * (elements > 0)


def place(job, name, block, shards):
    """The shard of a block."""
    around = 65536 - 65536 % shards
    start = hash_of(name.encode(), hash_of(job.encode(), 0)) % around
    return (start + block) % around % shards


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    low = 0xFFFFFFFF
    (a, b, c, d), (k, l) = counter, key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ k, q & low, p >> 32 ^ d ^ l, p & low
        k, l = (k + 0x9E3779B9) & low, (l + 0xBB67AE85) & low
    return a, b, c, d


def words(seed, element, draw=0):
    group = element // 4
    return philox((group & 0xFFFFFFFF, group >> 32, draw, 0), (seed & 0xFFFFFFFF, seed >> 32))


def uniform(seed, element, low, high):
    return low + (high - low) * (words(seed, element)[element % 4] / 2**32)


def fans(dims):
    if len(dims) < 2:
        return (dims or [1])[0], (dims or [1])[0]
    rest = math.prod(dims[:-2])
    return dims[-2] * rest, dims[-1] * rest
