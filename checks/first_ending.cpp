#include "checks/first_ending.h"

namespace ddpscope {

const RankEnding* earliest(const Endings& endings) {
  const RankEnding* first = nullptr;
  for (const RankEnding* ending : endings) {
    const bool timed = ending->unix_ns.has_value() && !ending->stopped;
    if (timed && (first == nullptr || *ending->unix_ns < *first->unix_ns)) first = ending;
  }
  return first;
}

namespace {
/// Its last call threw, or met a closed connection.
bool lost_a_peer(const RankEnding& ending) {
  return ending.last_call_threw || (ending.kind == EndKind::kSignal && ending.signal == "SIGPIPE");
}

/// Of a rank that lost a peer: one that left by itself at that moment, whoever of the two was
/// quicker to say so.
const RankEnding* peer_that_left(const RankEnding& lost, const Endings& failed) {
  Endings left;
  for (const RankEnding* ending : failed) {
    const bool by_itself = ending->kind == EndKind::kExit || !is_reaction(*ending);
    const bool then = ending->unix_ns && *ending->unix_ns <= *lost.unix_ns + kAtOnceNs;
    if (by_itself && then && !lost_a_peer(*ending)) left.push_back(ending);
  }
  return earliest(left);
}
}  // namespace

const RankEnding* first_failure(const Endings& failed) {
  const RankEnding* first = earliest(failed);
  if (first != nullptr && lost_a_peer(*first)) {
    if (const RankEnding* left = peer_that_left(*first, failed)) first = left;
  }
  if (first != nullptr && (first->noticed || !is_reaction(*first))) return first;
  Endings silent;
  for (const RankEnding* ending : failed) {
    const bool late =
        ending->noticed && first != nullptr && *ending->unix_ns <= *first->unix_ns + kAtOnceNs;
    if (!ending->stopped && (!ending->unix_ns || late)) silent.push_back(ending);
  }
  if (const RankEnding* noticed = earliest(silent)) return noticed;
  if (silent.size() == 1 || (first != nullptr && !silent.empty())) return silent.front();
  return silent.empty() ? first : nullptr;
}

}  // namespace ddpscope
