#include "ops/communicator/agreement.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace ddpscope::communicator {
namespace {
// What is sent is summed as doubles: numbers stay so small that their squares sum up exactly.
constexpr int kPieces = 4;
constexpr int kPieceBits = 16;
constexpr std::int64_t kShownBytes = 256;

std::uint64_t hash_of(const std::string& text, std::uint64_t hash = 0xCBF29CE484222325) {
  for (const char letter : text) {  // FNV-1a
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return (hash ^ 0x0A) * 0x100000001B3;
}

at::Tensor make_record(std::int64_t length) {
  return at::zeros({length}, at::TensorOptions().dtype(at::kDouble));
}

/// Records of the host that travel from another device.
struct Exchange {
  Communicator& group;
  const c10::Device& device;

  at::Tensor sum(const at::Tensor& record) const {
    at::Tensor sent = record.to(device);
    group.all_reduce_sum(sent);
    return sent.cpu();
  }
  at::Tensor gather(const at::Tensor& record) const {
    return group.all_gather(record.to(device)).cpu().contiguous();
  }
};

/// W * sum(h^2) = sum(h)^2 holds only where all h are equal.
bool are_equal(const Exchange& exchange, std::uint64_t hash) {
  at::Tensor record = make_record(2 * kPieces);
  double* numbers = record.mutable_data_ptr<double>();
  for (int i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<double>(hash >> (i * kPieceBits) & ((1U << kPieceBits) - 1));
    numbers[i] = piece;
    numbers[kPieces + i] = piece * piece;
  }
  record = exchange.sum(record);
  numbers = record.mutable_data_ptr<double>();
  for (int i = 0; i < kPieces; ++i) {
    if (exchange.group.size() * numbers[kPieces + i] != numbers[i] * numbers[i]) return false;
  }
  return true;
}

std::int64_t longest(const Exchange& exchange, std::size_t length) {
  at::Tensor own = make_record(1);
  *own.mutable_data_ptr<double>() = static_cast<double>(length);
  return static_cast<std::int64_t>(exchange.gather(own).max().item<double>());
}

std::int64_t first_difference(const Exchange& exchange, const std::vector<std::string>& lines) {
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 52) - 1;
  at::Tensor own = make_record(longest(exchange, lines.size()));
  double* const hashes = own.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    hashes[i] = static_cast<double>(hash_of(lines[i]) & kExact);
  }
  const at::Tensor all = exchange.gather(own);
  const double* const of_ranks = all.const_data_ptr<double>();
  for (std::int64_t i = 0; i < own.numel(); ++i) {
    for (std::int64_t rank = 1; rank < all.size(0); ++rank) {
      if (of_ranks[rank * own.numel() + i] != of_ranks[i]) return i;
    }
  }
  return own.numel();
}

std::vector<std::string> gather(const Exchange& exchange, const std::string& line) {
  at::Tensor own = make_record(kShownBytes);
  double* const letters = own.mutable_data_ptr<double>();
  const auto shown = std::min<std::size_t>(line.size(), kShownBytes);
  std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(shown), letters,
                 [](char letter) { return static_cast<unsigned char>(letter); });
  const at::Tensor all = exchange.gather(own);
  std::vector<std::string> lines(static_cast<std::size_t>(all.size(0)));
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    const double letter = all.const_data_ptr<double>()[i];
    if (letter > 0) {
      lines[static_cast<std::size_t>(i / kShownBytes)] +=
          static_cast<char>(static_cast<unsigned char>(letter));
    }
  }
  return lines;
}
}  // namespace

std::optional<Disagreement> compare_lines(Communicator& group,
                                          const std::vector<std::string>& lines,
                                          const c10::Device& device) {
  const Exchange exchange = {group, device};
  std::uint64_t hash = hash_of("");
  for (const std::string& line : lines) hash = hash_of(line, hash);
  if (are_equal(exchange, hash)) return std::nullopt;
  Disagreement found;
  found.index = first_difference(exchange, lines);
  const auto index = static_cast<std::size_t>(found.index);
  found.lines = gather(exchange, index < lines.size() ? lines[index] : "");
  return found;
}

}  // namespace ddpscope::communicator
