#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "values/extremes.h"
#include "values/tensor_values.h"

// The value pass beside a loop that only reads, over data that lies in L1, L2 or memory, and over a
// tensor of a bias. Time of the processor, which other programs disturb less than wall time; wall
// time where all threads of the machine share the tensor.
namespace {

using ddpscope::ScalarKind;
using ddpscope::ValuePath;

struct Kind {
  const char* name;
  ScalarKind kind;
  int bytes;
  int fraction_bits;
};
constexpr Kind kKinds[] = {{"half", ScalarKind::kHalf, 2, 10},
                           {"bfloat16", ScalarKind::kBFloat16, 2, 7},
                           {"float", ScalarKind::kFloat, 4, 23},
                           {"double", ScalarKind::kDouble, 8, 52}};
struct Path {
  const char* name;
  ValuePath path;
};
constexpr Path kPaths[] = {
    {"avx512", ValuePath::kAvx512}, {"avx2", ValuePath::kAvx2}, {"portable", ValuePath::kPortable}};
struct Place {
  const char* name;
  std::int64_t bytes;
};
constexpr Place kPlaces[] = {
    {"bias", 256}, {"L1", 16 << 10}, {"L2", 512 << 10}, {"memory", 384 << 20}};

struct Free {
  void operator()(std::uint64_t* words) const { std::free(words); }
};
/// At a multiple of 64, as LibTorch allocates.
struct Words {
  std::unique_ptr<std::uint64_t, Free> begin;
  std::size_t size = 0;
};

/// Numbers between 1/256 and 1 of either sign, as gradients are after scaling.
Words random_words(std::int64_t bytes, Kind kind) {
  std::mt19937_64 random(1);
  const auto size = static_cast<std::size_t>(bytes / 8);
  Words words{std::unique_ptr<std::uint64_t, Free>(
                  static_cast<std::uint64_t*>(std::aligned_alloc(64, size * 8))),
              size};
  const int bits = kind.bytes * 8;
  const std::uint64_t bias = (std::uint64_t{1} << (bits - 2 - kind.fraction_bits)) - 1;
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t word = 0;
    for (int shift = 0; shift < 64; shift += bits) {
      const std::uint64_t fraction = random() >> (64 - kind.fraction_bits);
      const std::uint64_t sign = random() >> 63;
      const std::uint64_t exponent = bias - 1 - random() % 8;
      word |= (sign << (bits - 1) | exponent << kind.fraction_bits | fraction) << shift;
    }
    words.begin.get()[i] = word;
  }
  return words;
}

const Words& words_of(Place place, Kind kind) {
  static Words words;
  static std::string held;
  const std::string wanted = std::string(place.name) + kind.name;
  if (held != wanted) words = random_words(place.bytes, kind);
  held = wanted;
  return words;
}

void count(benchmark::State& state, std::int64_t elements) {
  const auto all = static_cast<double>(elements) * static_cast<double>(state.iterations());
  // An inverted rate counts seconds per item: a thousand millionth of one makes nanoseconds.
  state.counters["ns/element"] =
      benchmark::Counter(all / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

__attribute__((target_clones("avx512f", "avx2", "default"))) std::uint64_t read_all(
    const std::uint64_t* words, std::size_t size) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += words[i];
  return sum;
}

/// Work over a tensor of whole chunks, cut into as many parts of chunks as there are threads.
using Part = std::function<void(const ddpscope::TensorData& part)>;

void run_parts(const ddpscope::TensorData& tensor, int threads, const Part& part) {
  if (threads == 1) return part(tensor);
  const std::int64_t chunks = ddpscope::chunk_count(tensor);
  const std::int64_t bytes = tensor.kind == ScalarKind::kDouble  ? 8
                             : tensor.kind == ScalarKind::kFloat ? 4
                                                                 : 2;
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    const std::int64_t begin = chunks * i / threads * ddpscope::kChunkElements;
    const std::int64_t end = chunks * (i + 1) / threads * ddpscope::kChunkElements;
    const auto* data = static_cast<const unsigned char*>(tensor.data) + begin * bytes;
    pool.emplace_back(part, ddpscope::TensorData{data, end - begin, tensor.kind});
  }
  for (std::thread& thread : pool) thread.join();
}

void measure(benchmark::State& state, Place place, Kind kind, int threads, const Part& part) {
  const Words& words = words_of(place, kind);
  const ddpscope::TensorData tensor = {words.begin.get(), place.bytes / kind.bytes, kind.kind};
  for ([[maybe_unused]] auto _ : state) run_parts(tensor, threads, part);
  count(state, tensor.elements);
}

void add(const std::string& way, Place place, Kind kind, const Part& part) {
  const auto measure_with = [=](int threads) {
    return [=](benchmark::State& state) { measure(state, place, kind, threads, part); };
  };
  const std::string name = std::string(place.name) + "/" + kind.name + "/" + way;
  benchmark::RegisterBenchmark(name.c_str(), measure_with(1));
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  if (std::string(place.name) != "memory" || threads < 2) return;
  benchmark::RegisterBenchmark((name + "/all_threads").c_str(), measure_with(threads))
      ->UseRealTime();
}

void register_kind(Place place, Kind kind) {
  add("floor", place, kind, [kind](const ddpscope::TensorData& part) {
    const auto bytes = static_cast<std::size_t>(part.elements * kind.bytes);
    benchmark::DoNotOptimize(read_all(static_cast<const std::uint64_t*>(part.data), bytes / 8));
  });
  for (const Path& path : kPaths) {
    if (!ddpscope::is_available(path.path)) continue;
    add(path.name, place, kind, [path](const ddpscope::TensorData& part) {
      benchmark::DoNotOptimize(ddpscope::measure_values(part, path.path).fingerprint);
    });
  }
  add("fingerprint", place, kind, [](const ddpscope::TensorData& part) {
    benchmark::DoNotOptimize(ddpscope::fingerprint_of(part));
  });
  add("extremes", place, kind, [](const ddpscope::TensorData& part) {
    benchmark::DoNotOptimize(ddpscope::measure_extremes(part).absmax);
  });
}

}  // namespace

int main(int argc, char** argv) {
  for (const Place& place : kPlaces) {
    for (const Kind& kind : kKinds) register_kind(place, kind);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
