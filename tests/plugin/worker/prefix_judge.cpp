// Judges a run that has ended as it would have been judged while it trained, after each of its
// steps: `prefix_judge FOLDER` prints what is found then, and returns 1 where anything is.
#include <algorithm>
#include <cstdio>
#include <string>
#include <variant>

#include "exchange/ring_set.h"
#include "exchange/ring_steps.h"
#include "plugin/step_compare.h"
#include "records/jsonl_reader.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kNarrow = 8;

RingSet rings_of(const std::string& dir, const RunRecord& run) {
  return open_rings(list_rings(dir), run.run_id);
}

std::size_t judge_steps(const std::string& dir, const RunRecord& run, std::int64_t first,
                        std::int64_t last) {
  RingSet set = rings_of(dir, run);
  for (RingReader& ring : set.rings) show_steps(ring, first, last);
  const Findings found = judge_while_training({.rings = set.rings,
                                               .world_size = run.world_size,
                                               .checks = checks_while_training(run),
                                               .own = {},
                                               .after_each = [] {}});
  for (const Finding& finding : found) {
    std::printf("steps %lld to %lld: %s [%s]\n", static_cast<long long>(first),
                static_cast<long long>(last), finding.what.c_str(), finding.id.c_str());
  }
  return found.size();
}

int judge_all(const std::string& dir) {
  const auto file = read_rank_file(dir + "/rank-0.jsonl");
  if (!std::holds_alternative<RankFile>(file)) return 2;
  const RunRecord run = std::get<RankFile>(file).run;
  const std::int64_t steps = last_common_step(rings_of(dir, run).rings);
  std::size_t found = 0;
  for (std::int64_t last = 1; last <= steps; ++last) {
    found += judge_steps(dir, run, 0, last);
    found += judge_steps(dir, run, std::max<std::int64_t>(last - kNarrow, 0), last);
  }
  std::printf("%lld steps, %zu findings\n", static_cast<long long>(steps), found);
  return found > 0 || steps < 2 ? 1 : 0;
}
}  // namespace
}  // namespace ddpscope

int main(int argc, char** argv) { return argc == 2 ? ddpscope::judge_all(argv[1]) : 2; }
