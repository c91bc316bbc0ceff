// Times batches of pages that go from host memory through a GPU and back to host memory.
// Usage: gpu PAGES PREFIX; a line of JSON for each figure. PREFIX-<codec> gets the blocks of all
// pages, for `pages check`. Each page that comes back is compared.
#include "codecs.cuh"

#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

constexpr int BATCHES[] = {1, 8, 32, 128, 512, 4096, 65536}, LARGEST = 65536;
// Room for the block of a page: nvCOMP's deflate asks for most.
constexpr size_t MOST = 9312;
// Blocks of up to so many pages are fetched before their lengths are known: it saves a wait.
constexpr int FETCHED_UNSEEN = 32;

// Where the blocks of a batch lie. They follow those entries that count, each at a multiple of 16.
struct Directory {
    struct Entry { uint32_t at, size; };
    uint32_t used, unused;
    Entry entries[LARGEST];

    __host__ __device__ static size_t bytes(int count) { return (8 + sizeof(Entry) * size_t(count) + 15) / 16 * 16; }
    __host__ __device__ uint8_t *blocks(int count) { return reinterpret_cast<uint8_t *>(this) + bytes(count); }
};

// Moves blocks from their slots to where they lie one behind the other. A warp takes a block.
__global__ void pack(const uint8_t *slots, size_t slot, const size_t *sizes, int count, Directory *directory) {
    int page = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (page >= count) return;
    uint32_t size = sizes[page], room = (size + 15) / 16 * 16, at;
    if (lane == 0) {
        at = atomicAdd(&directory->used, room);
        directory->entries[page] = {at, size};
    }
    at = __shfl_sync(ALL, at, 0);
    auto from = reinterpret_cast<const uint4 *>(slots + page * slot);
    auto to = reinterpret_cast<uint4 *>(directory->blocks(count) + at);
    for (uint32_t i = lane; i * 16 < room; i += LANES) to[i] = from[i];
}

// Lists the blocks of a batch as decompressors want them.
__global__ void list(Directory *directory, int count, const void **blocks, size_t *sizes) {
    int page = blockIdx.x * blockDim.x + threadIdx.x;
    if (page >= count) return;
    blocks[page] = directory->blocks(count) + directory->entries[page].at;
    sizes[page] = directory->entries[page].size;
}

double wall() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

void must(bool is_so, const std::string &what) {
    if (is_so) return;
    fprintf(stderr, "failed: %s\n", what.c_str());
    exit(1);
}

template <typename T> T *on_host(size_t bytes, bool is_pinned) {
    void *memory = nullptr;
    if (is_pinned) CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
    else CHECK(posix_memalign(&memory, PAGE, bytes));
    memset(memory, 0x5a, bytes);
    return static_cast<T *>(memory);
}

std::vector<uint8_t> read(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The program's side.
struct Memory {
    const char *name;
    uint8_t *in, *out;
    Directory *packed;
};

struct Bench {
    const std::vector<uint8_t> bytes;
    const int pages;
    const size_t all = size_t(pages) * PAGE, room = sizeof(Directory) + 16 + pages * MOST;
    uint8_t *const d_in = on_device<uint8_t>(all), *const d_out = on_device<uint8_t>(all);
    uint8_t *const d_slots = on_device<uint8_t>(pages * MOST);
    Directory *const d_packed = reinterpret_cast<Directory *>(on_device<uint8_t>(room));
    const void **const d_blocks = on_device<const void *>(pages);
    size_t *const d_sizes = on_device<size_t>(pages);
    const Memory pinned = memory("pinned", true), pageable = memory("pageable", false);
    // Of the codec that is measured, one for each page.
    std::vector<std::vector<uint8_t>> blocks = std::vector<std::vector<uint8_t>>(pages);
    cudaStream_t stream;
    cudaEvent_t spinning, sleeping, done;

    explicit Bench(const char *path) : bytes(read(path)), pages(std::min<size_t>(bytes.size() / PAGE, LARGEST)) {
        must(pages > 0, "PAGES must have a page");
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&spinning, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&sleeping, cudaEventDisableTiming | cudaEventBlockingSync));
        done = spinning;
        for (const Memory &m : {pinned, pageable}) memcpy(m.in, bytes.data(), all);
    }
    Memory memory(const char *name, bool is_pinned) {
        auto pages_of = [&] { return on_host<uint8_t>(all, is_pinned); };
        return {name, pages_of(), pages_of(), on_host<Directory>(room, is_pinned)};
    }

    void copy(void *to, const void *from, size_t size) {
        CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
    }
    void wait() {
        CHECK(cudaEventRecord(done, stream));
        CHECK(cudaEventSynchronize(done));
    }

    // Pages `first` and on of `m.in` to blocks in `m.packed`.
    void compress(Codec &codec, const Memory &m, int first, int n) {
        CHECK(cudaMemsetAsync(d_packed, 0, 8, stream));
        copy(d_in, m.in + size_t(first) * PAGE, size_t(n) * PAGE);
        codec.compress(d_in, n, d_slots, d_sizes, stream);
        pack<<<(n + 7) / 8, 8 * LANES, 0, stream>>>(d_slots, codec.slot, d_sizes, n, d_packed);
        CHECK(cudaGetLastError());
        size_t fetched = Directory::bytes(n) + (n <= FETCHED_UNSEEN ? n * PAGE : 0);
        copy(m.packed, d_packed, fetched);
        wait();
        size_t end = Directory::bytes(n) + m.packed->used;
        if (end <= fetched) return;
        copy(reinterpret_cast<uint8_t *>(m.packed) + fetched, reinterpret_cast<uint8_t *>(d_packed) + fetched,
             end - fetched);
        wait();
    }
    // Blocks in `m.packed` to pages in `m.out`.
    void decompress(Codec &codec, const Memory &m, int n) {
        copy(d_packed, m.packed, Directory::bytes(n) + m.packed->used);
        list<<<(n + 127) / 128, 128, 0, stream>>>(d_packed, n, d_blocks, d_sizes);
        CHECK(cudaGetLastError());
        codec.decompress(d_blocks, d_sizes, n, d_out, stream);
        copy(m.out, d_out, size_t(n) * PAGE);
        wait();
    }

    // So that pages of an earlier batch do not pass for those of this one.
    void poison(const Memory &m, int n) {
        memset(m.out, 0xa5, size_t(n) * PAGE);
        CHECK(cudaMemsetAsync(d_out, 0xa5, size_t(n) * PAGE, stream));
        wait();
    }
    void compare(const Memory &m, int first, int n, const std::string &name) {
        must(memcmp(m.out, bytes.data() + size_t(first) * PAGE, size_t(n) * PAGE) == 0, name);
    }
    // The blocks of a batch to `m.packed`, as `compress` leaves them.
    void gather(const Memory &m, int first, int n) {
        m.packed->used = 0;
        for (int i = 0; i < n; i++) {
            const auto &block = blocks[first + i];
            m.packed->entries[i] = {m.packed->used, uint32_t(block.size())};
            memcpy(m.packed->blocks(n) + m.packed->used, block.data(), block.size());
            m.packed->used += (block.size() + 15) / 16 * 16;
        }
        poison(m, n);
    }

    // Runs `work` on one batch after the other, each given by its first page. `before` and `after`
    // are not timed.
    template <typename Before, typename Work, typename After>
    void measure(const std::string &codec, const char *memory, const char *way, int batch, Before before, Work work,
                 After after) {
        if (batch > pages) return;
        std::vector<double> walls, processors;
        int most = batch == 1 ? 4000 : 400;
        double began = wall();
        for (int i = 0; i < most && (i < 7 || wall() - began < 300e3); i++) {
            int first = int(i * 7919ll % (pages / batch)) * batch;
            before(first);
            double w = wall(), p = processor();
            work(first);
            p = processor() - p, w = wall() - w;
            after(first);
            // The first runs load code.
            if (i >= 2) walls.push_back(w), processors.push_back(p);
        }
        std::sort(walls.begin(), walls.end()), std::sort(processors.begin(), processors.end());
        size_t n = walls.size();
        printf("{\"side\":\"gpu\",\"codec\":\"%s\",\"memory\":\"%s\",\"way\":\"%s\",\"batch\":%d,\"us_a_page\":%.4f,"
               "\"cpu_us_a_page\":%.4f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"runs\":%zu}\n",
               codec.c_str(), memory, way, batch, walls[n / 2] / batch, processors[n / 2] / batch, walls[n / 2],
               walls[n * 99 / 100], n);
        fflush(stdout);
    }

    // The floor: pages there, pages back.
    void copies(const Memory &m, int n) {
        auto nothing = [](int) {};
        auto to = [&](int first) { copy(d_in, m.in + size_t(first) * PAGE, size_t(n) * PAGE), wait(); };
        auto from = [&](int) { copy(m.out, d_in, size_t(n) * PAGE), wait(); };
        measure("copy", m.name, "to", n, nothing, to, nothing);
        measure("copy", m.name, "from", n, nothing, from, nothing);
    }

    void both_ways(Codec &codec, const Memory &m, const char *name, int n) {
        measure(codec.name, name, "compress", n, [&](int) { poison(m, n); },
                [&](int first) { compress(codec, m, first, n); },
                [&](int first) { decompress(codec, m, n), compare(m, first, n, codec.name); });
        measure(codec.name, name, "decompress", n, [&](int first) { gather(m, first, n); },
                [&](int) { decompress(codec, m, n); }, [&](int first) { compare(m, first, n, codec.name); });
    }

    // All pages once: for `blocks`, and for whoever checks them.
    void compress_all(Codec &codec, const std::string &path) {
        compress(codec, pinned, 0, pages);
        std::ofstream file(path, std::ios::binary);
        size_t stored = 0, poor = 0;
        for (int i = 0; i < pages; i++) {
            auto [at, size] = pinned.packed->entries[i];
            const uint8_t *block = pinned.packed->blocks(pages) + at;
            blocks[i].assign(block, block + size);
            file.write(reinterpret_cast<const char *>(&size), 4);
            file.write(reinterpret_cast<const char *>(block), size);
            stored += size, poor += size > PAGE;
        }
        printf("{\"side\":\"gpu\",\"codec\":\"%s\",\"pages\":%d,\"ratio\":%.3f,\"poor\":%zu}\n", codec.name.c_str(),
               pages, double(all) / stored, poor);
    }

    // The work alone, all pages in the memory of the GPU.
    void on_device_alone(Codec &codec) {
        gather(pinned, 0, pages);
        decompress(codec, pinned, pages);
        copy(d_in, pinned.in, all);
        cudaEvent_t start, end;
        CHECK(cudaEventCreate(&start));
        CHECK(cudaEventCreate(&end));
        for (bool is_back : {true, false}) {
            float best = 1e9, ms = 0;
            for (int i = 0; i < 5; i++, best = std::min(best, ms)) {
                CHECK(cudaEventRecord(start, stream));
                if (is_back) codec.decompress(d_blocks, d_sizes, pages, d_out, stream);
                else codec.compress(d_in, pages, d_slots, d_sizes, stream);
                CHECK(cudaEventRecord(end, stream));
                CHECK(cudaEventSynchronize(end));
                CHECK(cudaEventElapsedTime(&ms, start, end));
            }
            printf("{\"side\":\"gpu\",\"codec\":\"%s\",\"memory\":\"device\",\"way\":\"%s\",\"batch\":%d,"
                   "\"us_a_page\":%.5f}\n",
                   codec.name.c_str(), is_back ? "decompress" : "compress", pages, best * 1e3 / pages);
        }
    }

    // Without copies: the kernel reads and writes pinned memory of the host.
    void mapped(Codec &codec) {
        auto slots = on_host<uint8_t>(pages * codec.slot, true);
        auto sizes = on_host<size_t>(pages * 8, true);
        auto places = on_host<const void *>(pages * 8, true);
        for (int n : BATCHES) {
            auto place = [&](int first) {
                gather(pinned, first, n);
                for (int i = 0; i < n; i++) {
                    places[i] = pinned.packed->blocks(n) + pinned.packed->entries[i].at;
                    sizes[i] = pinned.packed->entries[i].size;
                }
            };
            auto is_as_before = [&](int first) {
                for (int i = 0; i < n; i++) {
                    const auto &block = blocks[first + i];
                    must(sizes[i] == block.size() && memcmp(slots + i * codec.slot, block.data(), sizes[i]) == 0,
                         "blocks in mapped memory");
                }
            };
            measure(codec.name, "mapped", "compress", n, [&](int) { memset(slots, 0xa5, n * codec.slot); },
                    [&](int first) {
                        codec.compress(pinned.in + size_t(first) * PAGE, n, slots, sizes, stream);
                        wait();
                    },
                    is_as_before);
            measure(codec.name, "mapped", "decompress", n, place,
                    [&](int) { codec.decompress(places, sizes, n, pinned.out, stream), wait(); },
                    [&](int first) { compare(pinned, first, n, "pages in mapped memory"); });
        }
    }

    // Without launches too: a warp of `words` waits for blocks.
    void resident() {
        auto bell = on_host<Doorbell>(sizeof(Doorbell), true);
        bell->asked = bell->answered = 0;
        words_resident<<<1, LANES, 0, stream>>>(bell);
        CHECK(cudaGetLastError());
        uint32_t request = 0;
        auto ask = [&](int first) {
            memcpy(bell->block, blocks[first].data(), blocks[first].size());
            bell->size = blocks[first].size();
            __atomic_thread_fence(__ATOMIC_RELEASE);
            bell->asked = ++request;
            double began = wall();
            while (bell->answered != request) must(wall() - began < 2e6, "an answer within two seconds");
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
        };
        measure("words", "resident", "decompress", 1, [&](int) { memset(bell->page, 0xa5, PAGE); }, ask,
                [&](int first) {
                    must(memcmp(bell->page, bytes.data() + size_t(first) * PAGE, PAGE) == 0, "the resident warp");
                });
        bell->asked = LEAVE;
        CHECK(cudaStreamSynchronize(stream));
    }
};

int main(int argc, char **argv) {
    must(argc == 3, "usage: gpu PAGES PREFIX");
    Bench bench(argv[1]);
    for (const Memory &m : {bench.pinned, bench.pageable})
        for (int n : BATCHES) bench.copies(m, n);
    for (auto &codec : codecs(bench.d_in, bench.d_slots, bench.d_out, bench.pages)) {
        must(codec->slot <= MOST, "MOST must be the largest slot");
        bench.compress_all(*codec, std::string(argv[2]) + "-" + codec->name);
        for (const Memory &m : {bench.pinned, bench.pageable})
            for (int n : BATCHES) bench.both_ways(*codec, m, m.name, n);
        // The processor's time where it need not spin.
        bench.done = bench.sleeping;
        for (int n : {512, 4096, 65536}) bench.both_ways(*codec, bench.pinned, "pinned, asleep", n);
        bench.done = bench.spinning;
        bench.on_device_alone(*codec);
        if (codec->name == "words") bench.mapped(*codec), bench.resident();
    }
}
