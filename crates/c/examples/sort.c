/* Sorts numbers in four times the memory that it may have.
 *
 *     cc -O2 sort.c -luzswap -o sort && ./sort 64 /var/tmp
 *
 * Random numbers hardly compress, so most of them go to a swap file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uzswap.h>

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, uzswap_error());
    exit(1);
}

/* In place: what is cold stays cold while a part is sorted. */
static void sort(uint32_t *a, size_t n) {
    while (n > 1) {
        uint32_t pivot = a[(n - 1) / 2];
        size_t i = 0, j = n - 1;
        for (;; i++, j--) {
            while (a[i] < pivot) i++;
            while (a[j] > pivot) j--;
            if (i >= j) break;
            uint32_t t = a[i];
            a[i] = a[j];
            a[j] = t;
        }
        size_t left = j + 1;
        /* The smaller part first, so that the stack stays small. */
        if (left < n - left) {
            sort(a, left);
            a += left;
            n -= left;
        } else {
            sort(a + left, n - left);
            n = left;
        }
    }
}

int main(int argc, char **argv) {
    size_t limit = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    size_t n = 4 * limit / sizeof(uint32_t);
    struct uzswap_settings settings = {.limit = limit, .swap = argc > 2 ? argv[2] : "/var/tmp"};
    if (uzswap_start(&settings)) fail("start");
    uzswap_region *region = uzswap_region_new(n * sizeof(uint32_t));
    if (!region) fail("region");
    uint32_t *numbers = uzswap_region_data(region);
    uint64_t state = 1, sum = 0;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = state >> 32;
        sum += numbers[i];
    }
    sort(numbers, n);
    for (size_t i = 0; i < n; i++) {
        sum -= numbers[i];
        if (i && numbers[i - 1] > numbers[i]) return puts("not sorted"), 1;
    }
    if (sum) return puts("other numbers"), 1;

    /* System calls may need what they use to be pinned. */
    uzswap_pinned *pinned = uzswap_region_pin(region, 0, 1 << 20);
    if (!pinned) fail("pin");
    FILE *out = fopen("/dev/null", "w");
    if (!out || fwrite(numbers, 1 << 20, 1, out) != 1 || fclose(out)) return puts("not written"), 1;
    uzswap_unpin(pinned);

    uint64_t max, peak, exceeded;
    if (uzswap_stat("memory.max", &max) || uzswap_stat("memory.peak", &peak)) fail("stat");
    if (uzswap_stat("limit_exceeded", &exceeded)) fail("stat");
    printf("%zu MiB sorted in %llu MiB: limit %llu MiB, exceeded %llu times\n", n * sizeof(uint32_t) >> 20,
           (unsigned long long)peak >> 20, (unsigned long long)max >> 20, (unsigned long long)exceeded);
    uzswap_region_free(region);
    return 0;
}
