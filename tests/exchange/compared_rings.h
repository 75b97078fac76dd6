#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exchange/rank_compare.h"
#include "exchange/ring_set.h"
#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test {

/// Fingerprints of the tensors of model 0, in the order of their list.
inline void put_words(TestRank& rank, std::int64_t step, const std::vector<std::uint64_t>& words,
                      std::uint32_t model = 0) {
  std::string bytes(words.size() * 8, '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  rank.writer.put(Blob{BlobKind::kFingerprints, model, step, bytes});
}

/// Rings of some ranks in one folder, and what comparing them tells.
class TestRun {
 public:
  explicit TestRun(std::int64_t ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<TestRank>(dir_.path(), rank, ranks));
      REQUIRE(ranks_.back()->problem.empty());
    }
  }
  TestRank& operator[](std::size_t rank) { return *ranks_[rank]; }
  auto begin() { return ranks_.begin(); }
  auto end() { return ranks_.end(); }
  std::string dir() const { return dir_.path(); }

  /// One step with these reductions on all ranks.
  void reduce_all(std::int32_t step, const std::vector<std::string>& parameters) {
    for (auto& rank : ranks_) {
      rank->at_step(step);
      for (const std::string& parameter : parameters) rank->reduce(parameter);
    }
  }

  RanksComparedEvent compared(CompareOptions options = {}) const {
    const RingSet set = open_rings(list_rings(dir_.path()), "r1");
    CHECK(set.remarks.empty());
    options.world_size = static_cast<std::int64_t>(ranks_.size());
    return compare_ranks(set.rings, options);
  }

 private:
  TemporaryDir dir_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
};

}  // namespace ddpscope::test
