/* ioctl(2) with addresses inside of what it is given, of memory that is out or was never touched. */
#include "pages.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define MUCH (48 * MIB)

#ifdef PROCMAP_QUERY
typedef struct procmap_query query_of_maps;
#else
/* Linux 6.11; the same as the kernel's. */
typedef struct {
    uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
} query_of_maps;
#define PROCMAP_QUERY _IOWR('f', 17, query_of_maps)
#endif

static char *much;

/* Others are touched, so that what was touched before leaves. */
static void make_cold(void) {
    for (int round = 0; round < 2; round++)
        fill(much, MUCH, round);
}

/* A driver of the network reads a command where a request says, and writes its answer there. */
static void ask_for_link(int rounds) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char *cold = map(16 * MIB), *other = map(16 * MIB);
    fill(cold, 16 * MIB, 5);
    fill(other, 16 * MIB, 6);
    for (int round = 0; round < rounds; round++) {
        struct ethtool_value *value = (void *)(cold + round * 4 * MIB + 3 * PAGE + 40);
        struct ifreq *request = (void *)(other + (rounds - round) * 3 * MIB);
        *value = (struct ethtool_value){.cmd = ETHTOOL_GLINK};
        strcpy(request->ifr_name, "lo");
        request->ifr_data = (void *)value;
    }
    make_cold();
    for (int round = 0; round < rounds; round++) {
        struct ethtool_value *value = (void *)(cold + round * 4 * MIB + 3 * PAGE + 40);
        int result = ioctl(fd, SIOCETHTOOL, other + (rounds - round) * 3 * MIB);
        printf("link: %d, errno %d, %u %u\n", result, result ? errno : 0, value->cmd, value->data);
    }
}

/* The kernel writes a name to memory that nobody has touched, over the border of a page. */
static void ask_for_name(int rounds) {
    int fd = open("/proc/self/maps", O_RDONLY);
    must(fd >= 0);
    char *untouched = map(64 * MIB);
    fill(untouched, 8 * MIB, 7);
    make_cold();
    for (int round = 0; round < rounds; round++) {
        char *name = untouched + (32 + round) * MIB + 5 * PAGE - 3;
        query_of_maps query = {.size = sizeof query, .query_addr = (size_t)&ask_for_name, .vma_name_size = 2000,
                               .vma_name_addr = (size_t)name};
        int result = ioctl(fd, PROCMAP_QUERY, &query);
        if (result && errno == ENOTTY)
            return;
        printf("name: %d, errno %d, %u bytes, %s\n", result, result ? errno : 0, query.vma_name_size,
               result ? "" : strrchr(name, '/'));
    }
}

/* The program's own userfaultfd is filled from memory that is out. */
static void ask_to_copy(int rounds) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        return;
    char *cold = map(16 * MIB), *filled = map(MIB);
    fill(cold, 16 * MIB, 8);
    make_cold();
    struct uffdio_register all = {{(size_t)filled, MIB}, UFFDIO_REGISTER_MODE_MISSING, 0};
    must(ioctl(fd, UFFDIO_REGISTER, &all) == 0);
    for (int round = 0; round < rounds; round++) {
        struct uffdio_copy copy = {.dst = (size_t)filled, .src = (size_t)cold + round * 4 * MIB, .len = 8 * PAGE};
        copy.dst += round * copy.len;
        int result = ioctl(fd, UFFDIO_COPY, &copy);
        printf("copy: %d, errno %d, %lld\n", result, result ? errno : 0, (long long)copy.copy);
        fflush(stdout);
        if (copy.copy != (long long)copy.len)
            _exit(5); /* whoever looks there waits */
        must(memcmp(filled + round * copy.len, cold + round * 4 * MIB, copy.len) == 0);
    }
}

int main(void) {
    much = map(MUCH);
    ask_for_link(3);
    ask_for_name(3);
    ask_to_copy(3);
    return 0;
}
