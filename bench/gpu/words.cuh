// The codec `words` (crates/acomp/src/words/codec.rs) for a GPU: a warp takes a page, 32 words at
// a time. Blocks are byte for byte those of the Rust code where that one keeps `words`; pages that
// it gives to lz4 are not given up here.
#pragma once
#include <cstdint>

constexpr int PAGE = 4096;
constexpr unsigned ALL = 0xffffffffu;
constexpr int LANES = 32, ROUNDS = PAGE / 8 / LANES;
// Pages of a thread block.
constexpr int WARPS = 4;
// One byte that says `words`, pieces, classes, which groups are there; rounded up to 16.
constexpr int SLOT = 4304;
constexpr uint8_t WORDS = 0;
// Bytes that stand for a word of each class, 4 bits each, class 0 the lowest.
constexpr uint32_t LEN = 0x54842310;

// What a warp keeps in shared memory. `words` is the ring of recent words.
struct alignas(16) Warp {
    uint8_t block[SLOT];
    uint64_t words[256];
    uint8_t by_upper[256], by_lower[256];
    uint8_t classes[PAGE / 8 / 8 * 3];
};

__device__ inline void clear(Warp &warp, int lane) {
    for (int i = lane; i < 256; i += LANES) {
        warp.words[i] = 0;
        warp.by_upper[i] = warp.by_lower[i] = 0;
    }
    __syncwarp();
}

__device__ inline int sum_up_to(int value, int lane) {
    for (int step = 1; step < LANES; step *= 2) {
        int other = __shfl_up_sync(ALL, value, step);
        value += lane >= step ? other : 0;
    }
    return value;
}

// The lane of this round that holds what place `at` of the ring held when this lane's word came;
// 32 or more: none, so the ring has it. The ring is written after each round only.
__device__ inline int lane_of(int at, int base, int lane, unsigned active) {
    int from = (at - base) & 255;
    return from < lane && active >> from & 1 ? from : LANES;
}

// The last place before this lane where a word with `hash` was seen.
__device__ inline int last_seen(uint8_t *table, int hash, bool is_present, int base, int lane) {
    unsigned same = __match_any_sync(ALL, is_present ? hash : 256 + lane);
    unsigned before = same & ((1u << lane) - 1);
    int at = before ? base + 31 - __clz(before) : table[hash];
    __syncwarp();
    if (is_present && same >> lane == 1) table[hash] = base + lane;
    __syncwarp();
    return at;
}

__device__ inline int class_of(uint64_t word, uint64_t upper, uint64_t lower) {
    uint64_t difference = upper ^ word;
    if (word == 0) return 0;
    if (difference == 0) return 1;
    if (word < 1 << 16) return 3;
    if (difference < 1 << 16) return 2;
    if (word >> 32 == 0) return 4;
    if (uint32_t(word) == 0) return 6;
    return uint32_t(lower) == uint32_t(word) ? 7 : 5;
}

// Compress a page to `slot`; returns the length of the block.
__device__ inline int compress_page(Warp &warp, const uint64_t *page, uint8_t *slot, int lane) {
    // All loads at once: from host memory each takes a microsecond.
    uint64_t words[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) words[r] = page[r * LANES + lane];
    clear(warp, lane);
    int at = 1, groups = 0;
    uint64_t present = 0;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t word = words[r];
        unsigned nonzero = __ballot_sync(ALL, word != 0);
        bool is_present = nonzero >> (lane & ~7) & 0xff;
        unsigned active = __ballot_sync(ALL, is_present);
        if (active == 0) continue;
        int base = r * LANES & 255;
        int upper_hash = (word >> 16) * 0x9e3779b97f4a7c15ull >> 56;
        int lower_hash = uint32_t(word) * 0x9e3779b9u >> 24;
        int upper = last_seen(warp.by_upper, upper_hash, is_present, base, lane);
        int lower = last_seen(warp.by_lower, lower_hash, is_present, base, lane);
        int upper_lane = lane_of(upper, base, lane, active);
        int lower_lane = lane_of(lower, base, lane, active);
        uint64_t of_upper = __shfl_sync(ALL, word, upper_lane), of_lower = __shfl_sync(ALL, word, lower_lane);
        if (upper_lane == LANES) of_upper = warp.words[upper];
        if (lower_lane == LANES) of_lower = warp.words[lower];
        __syncwarp();
        if (is_present) warp.words[base + lane] = word;

        int kind = class_of(word, of_upper, of_lower);
        int len = is_present ? LEN >> 4 * kind & 15 : 0;
        uint64_t piece = kind <= 2 ? word << 8 | upper : kind >= 6 ? uint64_t(lower) << 32 | word >> 32 : word;
        int end = sum_up_to(len, lane);
        for (int i = 0; i < len; i++) warp.block[at + end - len + i] = piece >> 8 * i;
        at += __shfl_sync(ALL, end, 31);

        unsigned tags = kind << 3 * (lane & 7);
        for (int step = 1; step < 8; step *= 2) tags |= __shfl_xor_sync(ALL, tags, step);
        unsigned leaders = active & 0x01010101;
        if (leaders >> lane & 1) {
            int group = groups + __popc(leaders & ((1u << lane) - 1));
            for (int i = 0; i < 3; i++) warp.classes[group * 3 + i] = tags >> 8 * i;
            present |= 1ull << (r * 4 + lane / 8);
        }
        groups += __popc(leaders);
    }
    for (int step = 8; step < LANES; step *= 2) present |= __shfl_xor_sync(ALL, present, step);
    present = __shfl_sync(ALL, present, 0);
    __syncwarp();
    for (int i = lane; i < groups * 3; i += LANES) warp.block[at + i] = warp.classes[i];
    at += groups * 3;
    if (lane < 8) warp.block[at + lane] = present >> 8 * lane;
    at += 8;
    if (lane == 0) warp.block[0] = WORDS;
    __syncwarp();
    auto from = reinterpret_cast<const uint4 *>(warp.block);
    for (int i = lane; i * 16 < at; i += LANES) reinterpret_cast<uint4 *>(slot)[i] = from[i];
    __syncwarp();
    return at;
}

__device__ inline uint64_t word_of(int kind, uint64_t piece, uint64_t recent) {
    if (kind == 1) return recent;
    if (kind == 2) return recent & ~0xffffull | piece >> 8;
    if (kind == 6) return piece << 32;
    return kind == 7 ? (recent & ALL) | piece << 32 : piece;
}

// The inverse. False: the block is damaged, `page` is undefined.
__device__ inline bool decompress_page(Warp &warp, const uint8_t *block, int size, uint64_t *page, int lane) {
    if (size < 9 || size > SLOT) return false;
    auto to = reinterpret_cast<uint4 *>(warp.block);
    for (int i = lane; i * 16 < size; i += LANES) to[i] = reinterpret_cast<const uint4 *>(block)[i];
    clear(warp, lane);
    uint64_t present = 0;
    for (int i = 0; i < 8; i++) present |= uint64_t(warp.block[size - 8 + i]) << 8 * i;
    int ends = size - 8 - 3 * __popcll(present);
    if (ends < 1 || warp.block[0] != WORDS) return false;
    const uint8_t *classes = warp.block + ends;
    int at = 1;
    for (int r = 0; r < ROUNDS; r++) {
        unsigned here = present >> 4 * r & 15;
        bool is_present = here >> lane / 8 & 1;
        unsigned active = __ballot_sync(ALL, is_present);
        const uint8_t *tags = classes + 3 * __popc(here & ((1u << lane / 8) - 1));
        classes += 3 * __popc(here);
        int kind = is_present ? (tags[0] | tags[1] << 8 | tags[2] << 16) >> 3 * (lane & 7) & 7 : 0;
        int len = LEN >> 4 * kind & 15;
        int end = sum_up_to(len, lane);
        int start = at + end - len;
        at += __shfl_sync(ALL, end, 31);
        if (at > ends) return false;
        uint64_t piece = 0;
        for (int i = 0; i < len; i++) piece |= uint64_t(warp.block[start + i]) << 8 * i;

        // Words that refer to words of this round wait for them: chains are short.
        int base = r * LANES & 255;
        bool refers = kind == 1 || kind == 2 || kind == 7;
        int place = (kind == 7 ? piece >> 32 : piece) & 255;
        int from = refers ? lane_of(place, base, lane, active) : LANES;
        uint64_t word = word_of(kind, piece, warp.words[place]);
        unsigned done = __ballot_sync(ALL, from == LANES);
        while (done != ALL) {
            uint64_t recent = __shfl_sync(ALL, word, from);
            bool comes = !(done >> lane & 1) && done >> (from & 31) & 1;
            if (comes) word = word_of(kind, piece, recent);
            done |= __ballot_sync(ALL, comes);
        }
        __syncwarp();
        if (is_present) warp.words[base + lane] = word;
        page[r * LANES + lane] = word;
        __syncwarp();
    }
    return at == ends;
}

__global__ void words_compress(const uint8_t *pages, int count, uint8_t *slots, size_t *sizes) {
    __shared__ Warp warps[WARPS];
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int page = blockIdx.x * WARPS + warp;
    if (page >= count) return;
    auto from = reinterpret_cast<const uint64_t *>(pages + size_t(page) * PAGE);
    int size = compress_page(warps[warp], from, slots + size_t(page) * SLOT, lane);
    if (lane == 0) sizes[page] = size;
}

__global__ void words_decompress(const void *const *blocks, const size_t *sizes, int count, uint8_t *pages) {
    __shared__ Warp warps[WARPS];
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int page = blockIdx.x * WARPS + warp;
    if (page >= count) return;
    auto to = reinterpret_cast<uint64_t *>(pages + size_t(page) * PAGE);
    bool is_whole = decompress_page(warps[warp], static_cast<const uint8_t *>(blocks[page]), sizes[page], to, lane);
    // The caller compares pages; a damaged block must not pass for one that was done before.
    if (!is_whole) to[lane] = ~0ull;
}

// One request at a time between host and `words_resident`, in host memory that both see.
struct Doorbell {
    volatile uint32_t asked, answered;
    volatile uint32_t size;
    alignas(16) uint8_t block[SLOT];
    alignas(16) uint64_t page[PAGE / 8];
};
constexpr uint32_t LEAVE = ~0u;

// A warp that stays on the GPU and waits for blocks, so that no launch and no copy is in the way.
// It leaves by itself after ten seconds without a request.
__global__ void words_resident(Doorbell *bell) {
    __shared__ Warp warp;
    int lane = threadIdx.x;
    uint32_t done = 0;
    uint64_t start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    for (;;) {
        uint32_t asked = __shfl_sync(ALL, lane == 0 ? bell->asked : 0, 0);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        now = __shfl_sync(ALL, now, 0);
        if (asked == LEAVE || now - start > 10'000'000'000ull) return;
        if (asked == done) continue;
        __threadfence_system();
        if (!decompress_page(warp, bell->block, bell->size, bell->page, lane)) bell->page[lane] = ~0ull;
        __threadfence_system();
        __syncwarp();
        if (lane == 0) bell->answered = asked;
        done = asked, start = now;
    }
}
