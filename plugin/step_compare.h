#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/settings.h"
#include "exchange/ring_mirror.h"
#include "exchange/ring_set.h"
#include "model/finding.h"
#include "model/run_record.h"
#include "plugin/missing_ranks.h"

namespace ddpscope {

/// Ids of the checks over ranks that run while they train: of those of the run all but the ones
/// that tell how ranks end, or stand when they hang.
std::set<std::string> checks_while_training(const RunRecord& run);

struct TrainingRanks {
  const std::vector<RingReader>& rings;  ///< shown up to the last step that all have ended
  std::int64_t world_size = 1;
  const std::set<std::string>& checks;
  Findings own;                      ///< of the rank that asks
  std::function<void()> after_each;  ///< ring; may throw
};
/// The errors and warnings of a merge, had the ranks ended there, and what is forecast. Of ranks
/// that did not average yet nothing is said: they may still do so.
Findings judge_while_training(TrainingRanks ranks);

/// Compares the ranks whose rings lie in one folder, or have come over a store, while they train,
/// as a merge would afterwards and by the same code. The lowest of them does it for all, on the
/// worker's thread; it reads what is there and waits for nobody. A rank that stands still ends it
/// until that rank moves again.
class StepCompare {
 public:
  StepCompare(const RunRecord& run, const Settings& settings);

  /// This rank's ring lies in `dir`. Nothing is compared before.
  void begin(const std::string& dir, std::int64_t now_ns);
  bool is_due(std::int64_t now_ns) const { return due_ns_ != 0 && now_ns >= due_ns_; }

  struct Asked {
    std::function<Findings()> own;       ///< findings of this rank
    std::function<bool()> has_to_end;    ///< asked between rings: what is read then is left
    std::vector<RingImage> images = {};  ///< of ranks elsewhere; go before what the folder has
    bool only_images = false;            ///< of the folder only the ring of this rank counts
    bool is_heard = false;               ///< the lowest rank compares an image of this rank's ring
    MissingRanks::Way way = MissingRanks::Way::kNotKnown;
  };
  /// Errors, warnings and forecasts that two comparisons in a row found, each once, and ranks that
  /// are missing.
  Findings look(std::int64_t now_ns, const Asked& asked);

 private:
  struct Heart {
    std::int64_t pid = 0;
    std::int64_t beat_unix_ns = 0;
    bool moved = false;
  };
  bool leads(std::int64_t now_ns) const;
  bool is_of_run(const RingReader& ring) const;
  RingSet open(const Asked& asked) const;
  bool all_live(const RingSet& set, const Asked& asked);
  void compare(const Asked& asked, std::int64_t now_ns, Findings& found);
  Findings confirmed(const Findings& found);

  MissingRanks missing_;
  std::int64_t rank_;
  std::int64_t world_size_;
  std::int64_t every_;
  std::string run_id_;
  std::set<std::string> checks_;
  std::string dir_;
  std::int64_t begun_ns_ = 0;
  std::int64_t due_ns_ = 0;               // 0: never
  std::map<std::int64_t, Heart> hearts_;  // by rank
  std::int64_t first_step_ = 0;           // of the next comparison
  std::int64_t next_step_ = 1;            // up to which it has to reach
  std::set<std::string> pending_;         // fingerprints of what the last one found
  std::set<std::string> said_;
};

}  // namespace ddpscope
