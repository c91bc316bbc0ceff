/* thrashes MIB SECONDS: looks at pages of so much memory in no order, and never at rest. */
#include "pages.h"
#include <time.h>

int main(int argc, char **argv) {
    must(argc == 3);
    size_t len = atol(argv[1]) * MIB;
    uint64_t *memory = map(len), x = 1, sum = 0;
    fill(memory, len, 1);
    for (time_t end = time(NULL) + atol(argv[2]); time(NULL) < end;)
        for (int i = 0; i < 100; i++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            sum += memory[(x >> 33) % (len / PAGE) * 512 + 1] >> 32;
        }
    must(sum % 100 == 0);
    return 0;
}
