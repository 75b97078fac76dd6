#include "exchange/own_steps.h"

#include <map>

namespace ddpscope {
namespace {
constexpr std::size_t kMostSteps = 1 << 16;

/// What a rank had counted by the end of a step.
struct Counted {
  std::int32_t calls = 0;  ///< since the first backward
  std::int32_t backwards = 0;
  std::int32_t groups = 0;       ///< of all optimizers
  std::uint64_t parameters = 0;  ///< when the step began; 0: not known
  bool called = true;            ///< in it
  bool trained = false;          ///< a backward ended in it
};
using CountedSteps = std::map<std::int64_t, Counted>;

CountedSteps read_steps(const RingReader& ring) {
  CountedSteps steps;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->step <= 0 || digest->phase == Phase::kReduce) continue;
    if (steps.size() >= kMostSteps) break;
    const auto before = steps.find(digest->step - 1);
    const bool is_known = before != steps.end();
    steps[digest->step] = {.calls = digest->call_count,
                           .backwards = digest->backwards,
                           .groups = digest->groups,
                           .parameters = digest->parameters,
                           .called = !is_known || before->second.calls != digest->call_count,
                           .trained = is_known && before->second.backwards != digest->backwards};
  }
  return steps;
}

/// The first step that `other` calls in and `steps` does not, although it did in the one before.
std::optional<std::int64_t> first_silent(const CountedSteps& steps, const CountedSteps& other) {
  for (const auto& [number, step] : steps) {
    const auto same = other.find(number);
    const auto before = other.find(number - 1);
    if (same == other.end() || before == other.end()) continue;
    if (step.called || !step.trained || !same->second.called) continue;
    if (steps.contains(number - 1) && steps.at(number - 1).calls == before->second.calls) {
      return number;
    }
  }
  return std::nullopt;
}

/// An optimizer that nobody else has made its first step in it.
bool has_new_optimizer(const CountedSteps& steps, const CountedSteps& other, std::int64_t number) {
  return steps.at(number).groups > steps.at(number - 1).groups &&
         other.at(number).groups == other.at(number - 1).groups;
}

bool follows_after(const CountedSteps& steps, const CountedSteps& other, std::int64_t silent) {
  auto next = steps.find(silent);
  while (next != steps.end() && !next->second.called) ++next;
  if (next == steps.end()) return false;
  const Counted &again = next->second, &same = other.at(silent);
  if (again.calls != same.calls) return false;
  if (again.parameters == 0 || same.parameters == 0) {
    return has_new_optimizer(steps, other, silent);
  }
  return again.parameters == same.parameters;
}
}  // namespace

std::optional<OwnSteps> first_own_steps(const RingList& rings) {
  if (rings.size() < 2) return std::nullopt;
  std::optional<OwnSteps> first;
  const auto look = [&](const RingReader& ring, const CountedSteps& steps,
                        const CountedSteps& other) {
    const auto silent = first_silent(steps, other);
    if (!silent || !follows_after(steps, other, *silent)) return;
    if (!first || *silent < first->step) first = {ring.head().rank, *silent};
  };
  const CountedSteps of_first = read_steps(*rings.front());
  look(*rings.front(), of_first, read_steps(*rings.back()));
  for (const RingReader* ring : rings) look(*ring, read_steps(*ring), of_first);
  return first;
}

}  // namespace ddpscope
