#include "plugin/norm_comparison.h"

#include "hooks/norm_exchange.h"
#include "ops/communicator/agreement.h"
#include "plugin/log.h"

namespace ddpscope {
namespace {
/// What this thread issues meanwhile is noted as a comparison of layers.
class ComparisonNote {
 public:
  explicit ComparisonNote(std::string_view text) {
    NormExchange::begin(text, norm_call(NormPhase::kLayers, 1), 0);
  }
  ~ComparisonNote() { NormExchange::end(); }
  ComparisonNote(const ComparisonNote&) = delete;
  ComparisonNote& operator=(const ComparisonNote&) = delete;
};

std::string told(const communicator::Disagreement& apart) {
  std::string text = "sync_batch_norm is off on all ranks: their lists of layers differ in line " +
                     std::to_string(apart.index);
  for (std::size_t rank = 0; rank < apart.lines.size(); ++rank) {
    text += (rank == 0 ? ": rank " : "; rank ") + std::to_string(rank) + " has " +
            (apart.lines[rank].empty() ? "no such layer" : "\"" + apart.lines[rank] + "\"");
  }
  return text;
}

std::optional<communicator::Disagreement> compare(Communicator& group,
                                                  const std::vector<std::string>& lines,
                                                  const c10::Device& device) {
  const ComparisonNote note("the list of layers");
  return communicator::compare_lines(group, lines, device);
}
}  // namespace

bool agree_on_layers(Communicator& group, const std::vector<std::string>& lines,
                     const c10::Device& device) {
  try {
    const auto apart = compare(group, lines, device);
    if (!apart.has_value()) return true;
    const auto index = static_cast<std::size_t>(apart->index);
    const std::string own = index < lines.size() ? lines[index] : "no such layer";
    const ComparisonNote note(own);
    communicator::compare_lines(group, {"noted"}, device);
    log_error(told(*apart));
    return false;
  } catch (c10::Error& error) {
    error.add_context("in the comparison of the layers of sync_batch_norm between ranks");
    throw;
  }
}

}  // namespace ddpscope
