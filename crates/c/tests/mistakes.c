/* What breaks a rule fails, and says which. */
#include <stdio.h>
#include <uzswap.h>

static int failed(int status) {
    puts(uzswap_error());
    return status == -1;
}

int main(void) {
    struct uzswap_settings gzip = {.compressor = "gzip"}, nowhere = {.swap_max = 4096};
    uint64_t value = 7;
    int all = failed(uzswap_limit(5));
    all &= failed(uzswap_start(&gzip));
    all &= failed(uzswap_start(&nowhere));
    all &= failed(uzswap_region_new(0) ? 0 : -1);
    all &= failed(uzswap_stat("speed", &value)) && value == 7;
    uzswap_region_free(NULL);
    uzswap_unpin(NULL);
    return !all;
}
