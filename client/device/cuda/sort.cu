/* Sorting numbers with their places, by CUB, which comes with nvcc: a radix sort, which keeps the order of equals. */
#include <cub/device/device_radix_sort.cuh> /* first: its templates' names are macros in ours */

#include "client/device/cuda/module.cuh"

/* Bits that numbers up to `most` have. */
static int
sort_bits(size_t most)
{
    int bits = 1;

    while (bits < 32 && most >> bits != 0)
        bits++;
    return bits;
}

void
sort_pairs(PS_MODULE_DEVICE, size_t n, size_t most, const uint32_t *number, const uint32_t *place, uint32_t *sorted,
           uint32_t *places, void *rest, size_t size)
{
    int bits = sort_bits(most);
    size_t needs = 0;

    module_use(d);
    if (!module_check(
            d, cub::DeviceRadixSort::SortPairs(NULL, needs, number, sorted, place, places, (int)n, 0, bits, d->compute),
            "sorting") ||
        !module_check(d, needs > size ? cudaErrorMemoryAllocation : cudaSuccess, "sorting: the scratch memory"))
        return;
    module_check(
        d, cub::DeviceRadixSort::SortPairs(rest, needs, number, sorted, place, places, (int)n, 0, bits, d->compute),
        "sorting");
}
