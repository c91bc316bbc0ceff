// Codecs that take a batch of pages on the GPU: ours, and those of nvCOMP.
#pragma once
#include "words.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define CHECK(call)                                                                    \
    do {                                                                               \
        int code = static_cast<int>(call);                                             \
        if (code != 0) {                                                               \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, code); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

template <typename T> T *on_device(size_t count) {
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

template <typename T> T *on_device(const std::vector<T> &list) {
    T *memory = on_device<T>(list.size());
    CHECK(cudaMemcpy(memory, list.data(), list.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

struct Codec {
    std::string name;
    // Bytes from the start of a block to that of the next, where `compress` writes them.
    size_t slot;
    virtual ~Codec() = default;
    virtual void compress(const uint8_t *pages, int count, uint8_t *slots, size_t *sizes, cudaStream_t) = 0;
    virtual void decompress(const void *const *blocks, const size_t *sizes, int count, uint8_t *pages,
                            cudaStream_t) = 0;
};

struct Words : Codec {
    Words() { name = "words", slot = SLOT; }
    void compress(const uint8_t *pages, int count, uint8_t *slots, size_t *sizes, cudaStream_t stream) override {
        words_compress<<<(count + WARPS - 1) / WARPS, WARPS * LANES, 0, stream>>>(pages, count, slots, sizes);
        CHECK(cudaGetLastError());
    }
    void decompress(const void *const *blocks, const size_t *sizes, int count, uint8_t *pages,
                    cudaStream_t stream) override {
        words_decompress<<<(count + WARPS - 1) / WARPS, WARPS * LANES, 0, stream>>>(blocks, sizes, count, pages);
        CHECK(cudaGetLastError());
    }
};

#ifdef NVCOMP
#include <nvcomp/deflate.h>
#include <nvcomp/gdeflate.h>
#include <nvcomp/lz4.h>
#include <nvcomp/zstd.h>

// The names of one of its interfaces; all have the same functions.
#define API(Name)                                                                            \
    struct Name {                                                                            \
        using Options = nvcompBatched##Name##CompressOpts_t;                                 \
        static Options options() { return nvcompBatched##Name##CompressDefaultOpts; }        \
        static auto back() { return nvcompBatched##Name##DecompressDefaultOpts; }            \
        static constexpr auto largest = nvcompBatched##Name##CompressGetMaxOutputChunkSize;  \
        static constexpr auto room = nvcompBatched##Name##CompressGetTempSizeAsync;          \
        static constexpr auto room_back = nvcompBatched##Name##DecompressGetTempSizeAsync;   \
        static constexpr auto compress = nvcompBatched##Name##CompressAsync;                 \
        static constexpr auto decompress = nvcompBatched##Name##DecompressAsync;             \
    };
namespace api {
API(LZ4)
API(Zstd)
API(Deflate)
API(Gdeflate)
} // namespace api

// Its lists of pointers are made once: pages are in `in`, blocks in `slots`, pages back in `out`.
template <typename Api> struct Nvcomp : Codec {
    typename Api::Options options;
    void **ins, **slots, **outs;
    size_t *page_sizes, *out_sizes;
    nvcompStatus_t *statuses;
    void *scratch;
    std::map<int, size_t> rooms, rooms_back;

    Nvcomp(std::string is, typename Api::Options with, uint8_t *in, uint8_t *to, uint8_t *out, int most)
        : options(with) {
        name = std::move(is);
        CHECK(Api::largest(PAGE, options, &slot));
        slot = (slot + 15) / 16 * 16;
        auto list = [&](uint8_t *base, size_t step) {
            std::vector<void *> all(most);
            for (int i = 0; i < most; i++) all[i] = base + i * step;
            return on_device(all);
        };
        ins = list(in, PAGE), slots = list(to, slot), outs = list(out, PAGE);
        page_sizes = on_device(std::vector<size_t>(most, PAGE));
        out_sizes = on_device<size_t>(most);
        statuses = on_device<nvcompStatus_t>(most);
        scratch = on_device<uint8_t>(std::max(room(most), room_back(most)) + 16);
    }
    ~Nvcomp() override {
        for (void *list : {ins, slots, outs}) cudaFree(list);
        for (void *memory : {static_cast<void *>(page_sizes), static_cast<void *>(out_sizes)}) cudaFree(memory);
        cudaFree(statuses), cudaFree(scratch);
    }
    size_t room(int count) {
        size_t &bytes = rooms[count];
        if (bytes == 0) CHECK(Api::room(count, PAGE, options, &bytes, size_t(count) * PAGE));
        return bytes;
    }
    size_t room_back(int count) {
        size_t &bytes = rooms_back[count];
        if (bytes == 0) CHECK(Api::room_back(count, PAGE, Api::back(), &bytes, size_t(count) * PAGE));
        return bytes;
    }
    void compress(const uint8_t *, int count, uint8_t *, size_t *sizes, cudaStream_t stream) override {
        CHECK(Api::compress(ins, page_sizes, PAGE, count, scratch, room(count), slots, sizes, options, statuses,
                            stream));
    }
    void decompress(const void *const *blocks, const size_t *sizes, int count, uint8_t *,
                    cudaStream_t stream) override {
        CHECK(Api::decompress(blocks, sizes, page_sizes, out_sizes, count, scratch, room_back(count), outs,
                              Api::back(), statuses, stream));
    }
};
#endif

// All codecs, for at most `most` pages.
inline std::vector<std::unique_ptr<Codec>> codecs(uint8_t *in, uint8_t *slots, uint8_t *out, int most) {
    std::vector<std::unique_ptr<Codec>> all;
    all.push_back(std::make_unique<Words>());
#ifdef NVCOMP
    auto add = [&](auto api, const char *name, auto options) {
        all.push_back(std::make_unique<Nvcomp<decltype(api)>>(name, options, in, slots, out, most));
    };
    add(api::LZ4{}, "lz4", api::LZ4::options());
    add(api::Zstd{}, "zstd", api::Zstd::options());
    add(api::Deflate{}, "deflate-1", api::Deflate::Options{1, {0}});
    add(api::Deflate{}, "deflate-4", api::Deflate::Options{4, {0}});
    add(api::Gdeflate{}, "gdeflate-1", api::Gdeflate::Options{1, {0}});
#endif
    return all;
}
