#include "values/lane.h"
#include "values/largest_kernel.h"

namespace ddpscope::values {
namespace {

template <ScalarKind Kind>
BlockValues measure(const void* data, int groups, std::uint64_t block_key) {
  const Block block = {data, groups * kGroupElements, block_key};
  TensorValues lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = measure_lane<Kind>(block, lane, kKeys);
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) lanes[lane] = merge(lanes[lane], lanes[lane + step]);
  }
  return {lanes[0], false};
}

template <class Bits>
std::uint64_t bits_of(const void* data, int groups, std::uint64_t block_key) {
  const Block block = {data, groups * kGroupElements, block_key};
  const int words = block.elements * static_cast<int>(sizeof(Bits)) / 8;
  std::uint64_t sum = 0;
  for (int i = 0; i < words; ++i) {
    sum += hash_word(load_word<Bits>(block, i), kKeys.words[i] ^ block_key);
  }
  return sum;
}

}  // namespace

constinit const KeyTable kKeys = make_key_table();
constinit const SignTable kSigns = make_sign_table(make_key_table());

const BlockKernels kPortableKernels = {{measure<ScalarKind::kHalf>, measure<ScalarKind::kBFloat16>,
                                        measure<ScalarKind::kFloat>, measure<ScalarKind::kDouble>},
                                       {bits_of<std::uint16_t>, bits_of<std::uint16_t>,
                                        bits_of<std::uint32_t>, bits_of<std::uint64_t>}};

namespace {
struct Portable;
}
const LargestKernels kPortableLargest = kLargestOf<Portable>;

}  // namespace ddpscope::values
