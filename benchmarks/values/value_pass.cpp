#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "values/tensor_values.h"

// The value pass beside a loop that only reads, over data that lies in L1, L2 or memory, and over a
// tensor of a bias. Time of the processor, which other programs disturb less than wall time.
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
    {"bias", 256}, {"L1", 16 << 10}, {"L2", 512 << 10}, {"memory", 256 << 20}};

/// Numbers between 1/256 and 1 of either sign, as gradients are after scaling.
std::vector<std::uint64_t> random_words(std::int64_t bytes, Kind kind) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes / 8));
  const int bits = kind.bytes * 8;
  const std::uint64_t bias = (std::uint64_t{1} << (bits - 2 - kind.fraction_bits)) - 1;
  for (std::uint64_t& word : words) {
    for (int shift = 0; shift < 64; shift += bits) {
      const std::uint64_t fraction = random() >> (64 - kind.fraction_bits);
      const std::uint64_t sign = random() >> 63;
      const std::uint64_t exponent = bias - 1 - random() % 8;
      word |= (sign << (bits - 1) | exponent << kind.fraction_bits | fraction) << shift;
    }
  }
  return words;
}

const std::vector<std::uint64_t>& words_of(Place place, Kind kind) {
  static std::vector<std::uint64_t> words;
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

void measure_floor(benchmark::State& state, Place place, Kind kind) {
  const auto& words = words_of(place, kind);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(read_all(words.data(), words.size()));
  }
  count(state, place.bytes / kind.bytes);
}

void measure_pass(benchmark::State& state, Place place, Kind kind, ValuePath path) {
  const auto& words = words_of(place, kind);
  const ddpscope::TensorData tensor = {words.data(), place.bytes / kind.bytes, kind.kind};
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ddpscope::measure_values(tensor, path).fingerprint);
  }
  count(state, tensor.elements);
}

void register_kind(Place place, Kind kind) {
  const std::string name = std::string(place.name) + "/" + kind.name + "/";
  benchmark::RegisterBenchmark((name + "floor").c_str(), measure_floor, place, kind);
  for (const Path& path : kPaths) {
    if (!ddpscope::is_available(path.path)) continue;
    benchmark::RegisterBenchmark((name + path.name).c_str(), measure_pass, place, kind, path.path);
  }
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
