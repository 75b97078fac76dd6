#include <cstdint>
#include <set>

#include "tests/support/catch.h"
#include "tests/values/reference.h"
#include "values/lane.h"
#include "values/tensor_values.h"

using namespace ddpscope;
using namespace ddpscope::values_test;

namespace {

std::uint64_t fingerprint(const Tensor& tensor) {
  return measure_values(tensor.data()).fingerprint;
}

}  // namespace

TEST_CASE("Every flipped bit changes the fingerprint", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  Tensor tensor(kind, 1100);
  if (GENERATE(true, false)) tensor.fill(1);
  std::set<std::uint64_t> seen = {fingerprint(tensor)};
  const std::int64_t bits = tensor.bytes() * 8;
  for (std::int64_t bit = 0; bit < bits; ++bit) {
    tensor.flip(bit);
    seen.insert(fingerprint(tensor));
    tensor.flip(bit);
  }
  CHECK(seen.size() == static_cast<std::size_t>(bits) + 1);
}

TEST_CASE("A half of a word that equals its key hides no change of the other", "[values]") {
  const std::uint64_t key = values::kKeys.words[0] ^ values::key_of_block(0);
  const int half = GENERATE(0, 1);
  Tensor tensor(ScalarKind::kFloat, 2);
  tensor.set(half, key >> (32 * half) & 0xFFFFFFFF).set(1 - half, 0x3F800000);
  std::set<std::uint64_t> seen = {fingerprint(tensor)};
  for (int bit = 0; bit < 32; ++bit) {
    tensor.flip(32 * (1 - half) + bit);
    seen.insert(fingerprint(tensor));
    tensor.flip(32 * (1 - half) + bit);
  }
  CHECK(seen.size() == 33);
}

TEST_CASE("Two flipped signs do not cancel in the fingerprint", "[values]") {
  Tensor tensor(ScalarKind::kFloat, 1100);
  tensor.fill(2);
  std::set<std::uint64_t> seen = {fingerprint(tensor)};
  std::size_t pairs = 0;
  for (std::int64_t i = 0; i < 60; ++i) {
    for (std::int64_t j = i + 1; j < 60; ++j, ++pairs) {
      tensor.flip(i * 17 * 32 + 31);
      tensor.flip(j * 17 * 32 + 31);
      seen.insert(fingerprint(tensor));
      tensor.flip(i * 17 * 32 + 31);
      tensor.flip(j * 17 * 32 + 31);
    }
  }
  CHECK(seen.size() == pairs + 1);
}

TEST_CASE("Elements that change places change the fingerprint", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  Tensor tensor(kind, 3000);
  tensor.fill(3);
  const std::uint64_t before = fingerprint(tensor);
  for (const std::int64_t distance : {1, 2, 3, 4, 8, 32, 512, 1024, 2048}) {
    for (const std::int64_t index : {0, 1, 5, 700}) {
      const std::uint64_t left = tensor.bits(index), right = tensor.bits(index + distance);
      if (left == right) continue;
      tensor.set(index, right).set(index + distance, left);
      CHECK(fingerprint(tensor) != before);
      tensor.set(index, left).set(index + distance, right);
    }
  }
}

TEST_CASE("The fingerprint knows the length and the sign of zero", "[values]") {
  Tensor zeros(ScalarKind::kFloat, 100);
  std::set<std::uint64_t> seen;
  for (std::int64_t elements = 0; elements <= 100; ++elements) {
    seen.insert(measure_values({zeros.begin(), elements, ScalarKind::kFloat}).fingerprint);
  }
  CHECK(seen.size() == 101);
  const std::uint64_t before = fingerprint(zeros);
  zeros.set(50, 0x80000000);
  CHECK(fingerprint(zeros) != before);
}

TEST_CASE("The fingerprint of chunks in any order is their sum", "[values]") {
  Tensor tensor(ScalarKind::kBFloat16, 5 * kChunkElements + 77);
  tensor.fill(4);
  std::uint64_t sum = 0;
  for (const std::int64_t chunk : {3, 5, 0, 4, 2, 1}) {
    sum += measure_chunk(tensor.data(), chunk).fingerprint;
  }
  CHECK(sum == fingerprint(tensor));
}

TEST_CASE("The fingerprint alone is that of the whole pass, on every path", "[values]") {
  const ScalarKind kind = GENERATE(from_range(kKinds));
  const ValuePath path =
      GENERATE(ValuePath::kPortable, ValuePath::kAvx2, ValuePath::kAvx512, ValuePath::kBest);
  if (!is_available(path)) return;
  for (const std::int64_t elements : {0, 1, 31, 32, 33, 1023, 1024, 1025, 5000}) {
    Tensor tensor(kind, elements, /*offset=*/1);
    tensor.fill(5);
    if (elements > 2) tensor.set(2, special_bits(kind).front());
    CHECK(fingerprint_of(tensor.data(), path) == fingerprint(tensor));
  }
}

// Files keep fingerprints and compare them with those of other builds.
TEST_CASE("The fingerprint of known data never changes", "[values]") {
  Tensor tensor(ScalarKind::kFloat, 3);
  tensor.set(0, 0x3F800000).set(1, 0xC0000000).set(2, 0x40400000);
  CHECK(fingerprint(tensor) == 0xB3E732311696359F);
}
