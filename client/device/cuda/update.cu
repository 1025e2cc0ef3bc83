/* Optimizers on the GPU: one kernel for each rule, which reads gradient, weights and slots once and writes them once.
 */
#include "client/device/cuda/module.cuh"

#include "client/device/cuda/rules.h"

typedef void update_fn(PS_MODULE_DEVICE, size_t n, const struct update_args *k);

#define RUN_RULE(NAME, name, number)                                                                                   \
    static void run_##name(PS_MODULE_DEVICE, size_t n, const struct update_args *k)                                    \
    {                                                                                                                  \
        run_elements<struct update_args, name##_update_element>(d, #name, n, *k);                                      \
    }
PS_OPTIMIZER_LIST(RUN_RULE)

/* By their numbers: C++ has no entries by number, so the list must be in their order. */
#define RULE_ENTRY(NAME, name, number) run_##name,
static update_fn *const rules[] = {PS_OPTIMIZER_LIST(RULE_ENTRY)};

#define SIZE_ENTRY(NAME, name, number) sizeof(struct name##_step),
extern const uint16_t module_step_size[] = {PS_OPTIMIZER_LIST(SIZE_ENTRY)};
extern const uint32_t module_optimizers = PS_OPTIMIZER_KINDS;

#define IN_ORDER(NAME, name, number) +(PS_##NAME == number ? 1 : 0)
static_assert(0 PS_OPTIMIZER_LIST(IN_ORDER) == PS_OPTIMIZER_KINDS, "numbers are dense");

void
run_update(PS_MODULE_DEVICE, unsigned optimizer, const struct ps_module_step *step, size_t n, const float *gradient,
           float *weights, float *const slot[PS_MODULE_SLOTS_MAX])
{
    const struct update_args k = {*step, gradient, {weights, {slot[0], slot[1], slot[2]}}, d->flags};

    rules[optimizer](d, n, &k);
}
