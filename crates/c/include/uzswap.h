/* Memory that pages itself: cold pages are compressed, and come back when they are touched.
 *
 *     uzswap_limit(64 << 20);
 *     uzswap_region *region = uzswap_region_new(256 << 20);
 *     double *numbers = uzswap_region_data(region);
 *
 * docs/library.md says what to know: system calls on cold memory, fork, signal handlers.
 * Any thread may call any function. Whatever fails says why by uzswap_error.
 */
#ifndef UZSWAP_H
#define UZSWAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Have all regions of this process together stay below `bytes`. 0, or -1. */
int uzswap_limit(uint64_t bytes);

/* What can be chosen before the first region. Zeros and nulls are what holds otherwise. */
struct uzswap_settings {
    uint64_t limit;         /* as uzswap_limit */
    const char *swap;       /* where the swap file is: a directory, or the name of a file to be made */
    uint64_t swap_max;      /* its most bytes */
    const char *compressor; /* words, lz4, zstd, deflate; the last three with :LEVEL */
};

/* Begin with these settings. 0, or -1: one breaks a rule, or it has begun already. */
int uzswap_start(const struct uzswap_settings *settings);

typedef struct uzswap_region uzswap_region;

/* `len` bytes of zeros. Null: they cannot be had. */
uzswap_region *uzswap_region_new(size_t len);
/* Its first byte, at the beginning of a page. */
void *uzswap_region_data(const uzswap_region *region);
size_t uzswap_region_len(const uzswap_region *region);
/* Nobody may use its memory any more. Null is nothing to free. */
void uzswap_region_free(uzswap_region *region);
/* Its whole pages in `[offset, offset + len)` are zeros, and take no memory. Nobody else may use
 * them meanwhile. 0, or -1. */
int uzswap_region_discard(uzswap_region *region, size_t offset, size_t len);

typedef struct uzswap_pinned uzswap_pinned;

/* Bring `[offset, offset + len)` and keep it where it is, for system calls, until uzswap_unpin.
 * Null: it is not in the region, or more than half of the limit would be pinned. */
uzswap_pinned *uzswap_region_pin(const uzswap_region *region, size_t offset, size_t len);
void uzswap_unpin(uzswap_pinned *pinned);

/* A figure by its name: memory.max, memory.current, memory.peak, limit_exceeded, resident,
 * pool_total_size, swapped, serves_system_calls, pgfault, zswpin, zswpout... 0, or -1: there is
 * none of that name, or no region and no limit yet. */
int uzswap_stat(const char *name, uint64_t *value);

/* Why the last function that failed in this thread did: one line, until the next one fails. */
const char *uzswap_error(void);

#ifdef __cplusplus
}
#endif
#endif
