#include "exchange/digest_walk.h"

#include <algorithm>
#include <map>
#include <utility>

#include "exchange/digest_fields.h"
#include "exchange/sides.h"
#include "model/clock.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxSteps = 1 << 16;

/// A file may say any number.
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

/// What all ranks said of one step so far.
struct Step {
  std::size_t ranks = 0;
  std::array<std::optional<std::uint64_t>, kDigestFields> first;  ///< of the first rank that says
  std::array<std::uint32_t, kDigestFields> sayers = {};
  std::uint32_t differs = 0;  ///< one bit per field
};
using Steps = std::map<std::int64_t, Step>;

void add(Step& step, const StepDigest& digest) {
  const auto words = words_of(digest);
  ++step.ranks;
  for (std::size_t i = 0; i < kDigestFields; ++i) {
    if (!words[i]) continue;
    ++step.sayers[i];
    if (!step.first[i]) {
      step.first[i] = words[i];
    } else if (*step.first[i] != *words[i]) {
      step.differs |= 1u << i;
    }
  }
}

/// A step that is told twice counts once, with its last word.
std::map<std::int64_t, std::uint64_t> places_of(const RingReader& ring) {
  std::map<std::int64_t, std::uint64_t> places;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    if (const auto digest = ring.digest(place)) places[digest->step] = place;
  }
  return places;
}

RankCounts counts_of(std::int64_t rank, const StepDigest& digest) {
  return {.rank = rank,
          .step = digest.step,
          .cycle = digest.cycle,
          .unix_ns = digest.unix_ns,
          .forwards = digest.forwards,
          .backwards = digest.backwards,
          .optimizer_steps = digest.optimizer_steps,
          .skipped_steps = digest.skipped_steps,
          .calls = digest.call_count};
}

/// Up to the last that can be read: a rank that was ended while it wrote one left half of it.
std::uint64_t readable_digests(const RingReader& ring) {
  std::uint64_t count = ring.digest_count();
  while (count > ring.first_digest() && !ring.digest(count - 1)) --count;
  return count;
}

std::optional<StepDigest> last_digest(const RingReader& ring) {
  const std::uint64_t count = readable_digests(ring);
  return count > ring.first_digest() ? ring.digest(count - 1) : std::nullopt;
}

/// Whether it was sent as much of late as it summed up: weights, and not buffers alone.
bool is_sent_weights(const RingReader& ring) {
  constexpr std::uint64_t kLate = 256;
  const std::uint64_t count = ring.call_count();
  double sent = 0, summed = 0;
  for (auto place = std::max(ring.first_call(), count - std::min(count, kLate)); place < count;
       ++place) {
    const auto call = ring.call(place);
    if (!call || call->step == 0) continue;
    const auto elements = static_cast<double>(call->elements);
    if (brings_tensors(call->kind)) sent += elements;
    if (reduces_tensors(call->kind)) summed += elements;
  }
  return sent > 0 && 2 * sent >= summed;
}

/// Its parameters change though no optimizer of it steps: it reads what others left.
bool is_given_weights(const RingReader& ring) {
  std::uint64_t first = 0;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->parameters == 0 || digest->step == 0) continue;
    if (first != 0 && digest->parameters != first) return true;
    first = digest->parameters;
  }
  return false;
}

/// Those that leave the steps to others, and are given what came of them: their own steps end where
/// those of the others do not.
std::vector<bool> led_ranks(const RingList& rings) {
  std::vector<bool> led;
  for (const RingReader* ring : rings) led.push_back(!steps_itself(*ring));
  if (std::ranges::count(led, true) == std::ssize(led)) return std::vector<bool>(led.size());
  for (std::size_t i = 0; i < led.size(); ++i) {
    led[i] = led[i] && (is_sent_weights(*rings[i]) || is_given_weights(*rings[i]));
  }
  return led;
}

/// Returns whether the rank told of any step.
bool read_rank(const RingReader& ring, bool is_led, Steps& steps, Cohort& cohort) {
  const auto places = places_of(ring);
  std::vector<double> steps_ns;
  std::optional<StepDigest> last;
  bool evaluated = false;
  for (const auto& [number, place] : places) {
    const auto digest = ring.digest(place);
    if (!digest) continue;
    const bool is_compared = number == 0 || !is_led;
    if (is_compared && (steps.size() < kMaxSteps || steps.contains(number))) {
      add(steps[number], *digest);
    }
    if (last) steps_ns.push_back(static_cast<double>(minus(digest->unix_ns, last->unix_ns)));
    evaluated = evaluated || digest->evaluated;
    last = digest;
  }
  if (!last) return false;
  cohort.counts.push_back(counts_of(ring.head().rank, *last));
  cohort.counts.back().evaluated = evaluated;
  cohort.averages = cohort.averages || last->averages;
  if (cohort.median_step_ms == 0) {
    cohort.median_step_ms =
        static_cast<std::int64_t>(median(std::move(steps_ns)) / static_cast<double>(kMsNs));
  }
  return true;
}

struct Run {
  std::int64_t step = 0;
  std::int64_t length = 0;
};

/// The first two or more compared steps in a row in which ranks differ, else the first one.
Run first_run(const std::vector<std::pair<std::int64_t, bool>>& compared) {
  Run chosen;
  Run run;
  for (const auto& [step, differs] : compared) {
    if (!differs) {
      if (chosen.length >= 2) break;
      run = {};
      continue;
    }
    if (run.length++ == 0) run.step = step;
    if (run.length > chosen.length) chosen = run;
  }
  return chosen;
}

std::vector<RankSide> sides_at(const RingList& rings, DigestField field, std::int64_t step) {
  std::map<std::string, RankList> ranks_of;
  for (const RingReader* ring : rings) {
    const auto digest = find_digest(*ring, step);
    if (!digest) continue;
    const auto word = words_of(*digest)[static_cast<std::size_t>(field)];
    if (word) ranks_of[text_of(field, *word)].push_back(ring->head().rank);
  }
  return as_sides(ranks_of);
}

/// One of several that step in turn: the options are those of the first that has stepped.
bool is_of_new_optimizer(const RingReader& ring, std::int64_t step) {
  const auto before = find_digest(ring, step - 1);
  const auto digest = find_digest(ring, step);
  const bool are_known = before && digest && before->optimizers != 0 && digest->optimizers != 0;
  return are_known && before->groups < digest->groups;
}

void add_difference(const Steps& steps, std::size_t index, const RingList& told, Cohort& cohort) {
  std::vector<std::pair<std::int64_t, bool>> compared;
  DigestsDiffer difference{.field = static_cast<DigestField>(index), .equal_until = -1};
  for (const auto& [number, step] : steps) {
    if (step.ranks < told.size() || step.sayers[index] < 2) continue;
    const bool differs = (step.differs >> index & 1) != 0;
    compared.emplace_back(number, differs);
    if (!differs) continue;
    difference.last_step = number;
    if (difference.first_step < 0) difference.first_step = number;
  }
  const Run run = first_run(compared);
  if (run.length == 0) return;
  difference.step = run.step;
  difference.consecutive = run.length;
  for (const auto& [number, differs] : compared) {
    if (number < run.step && !differs) difference.equal_until = number;
    if (number < run.step) continue;
    ++difference.compared;
    difference.differing += differs;
  }
  difference.sides = sides_at(told, difference.field, run.step);
  difference.of_new_optimizer = is_of_new_optimizer(*told.front(), run.step);
  if (difference.sides.size() > 1) cohort.digests.push_back(std::move(difference));
}
// Skipped steps are counted once it is known how many backwards a step has. Where the same ranks
// differed in their backwards before, that was why.
void date_early_skips(Cohort& cohort) {
  const auto skipped =
      std::ranges::find(cohort.digests, DigestField::kSkippedSteps, &DigestsDiffer::field);
  const auto backwards =
      std::ranges::find(cohort.digests, DigestField::kBackwards, &DigestsDiffer::field);
  if (skipped == cohort.digests.end() || backwards == cohort.digests.end()) return;
  const auto groups_of = [](const DigestsDiffer& differ) {
    std::vector<RankList> groups;
    for (const RankSide& side : differ.sides) groups.push_back(side.ranks);
    std::ranges::sort(groups);
    return groups;
  };
  if (backwards->step >= skipped->step || groups_of(*backwards) != groups_of(*skipped)) return;
  skipped->step = backwards->step;
  skipped->first_step = std::min(skipped->first_step, backwards->step);
}
}  // namespace

void walk_digests(const RingList& rings, Cohort& cohort, const std::function<void()>& after_each) {
  Steps steps;
  RingList told;
  const std::vector<bool> led = led_ranks(rings);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    if (read_rank(*rings[i], led[i], steps, cohort)) told.push_back(rings[i]);
    after_each();
  }
  if (told.size() < 2) return;
  for (const auto& [number, step] : steps) cohort.compared_steps += step.ranks >= told.size();
  for (std::size_t i = 0; i < kDigestFields; ++i) add_difference(steps, i, told, cohort);
  date_early_skips(cohort);
  constexpr auto kParameters = static_cast<std::size_t>(DigestField::kParameters);
  for (const auto& [number, step] : steps) {
    const bool all_say = step.ranks >= told.size() && step.sayers[kParameters] == told.size();
    if (!all_say) continue;
    const bool differ = (step.differs >> kParameters & 1) != 0;
    (differ ? cohort.unequal_steps : cohort.equal_steps).push_back(number);
  }
  cohort.equal_at_start = !cohort.equal_steps.empty() && cohort.equal_steps.front() == 0;
}

bool steps_itself(const RingReader& ring) {
  const auto last = last_digest(ring);
  const bool is_open = last && last->phase == Phase::kReduce;  // it may have been about to
  return last && (last->optimizer_steps > 0 || is_open);
}

std::optional<StepDigest> find_digest(const RingReader& ring, std::int64_t step) {
  const std::uint64_t count = readable_digests(ring);
  const auto last = last_digest(ring);
  if (!last) return std::nullopt;
  // One digest per step as a rule.
  const auto back = static_cast<std::uint64_t>(minus(last->step, step));
  if (back < count - ring.first_digest()) {
    const auto digest = ring.digest(count - 1 - back);
    if (digest && digest->step == step) return digest;
  }
  std::optional<StepDigest> found;
  for (auto place = ring.first_digest(); place < count; ++place) {
    const auto digest = ring.digest(place);
    if (digest && digest->step == step) found = digest;
  }
  return found;
}

}  // namespace ddpscope
