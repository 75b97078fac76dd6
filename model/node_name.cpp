#include "model/node_name.h"

#include <algorithm>
#include <cctype>

namespace ddpscope {
namespace {
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

std::string op_of_node(const std::string& node) {
  const bool is_own = node.find("ddpscope::batch_norm::") != std::string::npos;
  if (is_own && node.find("::SyncBatchNorm") != std::string::npos) return kSyncBatchNorm;
  const std::size_t end = node.find("Backward");
  if (end == std::string::npos || end == 0) return node;
  const bool generated =
      std::all_of(node.begin() + static_cast<std::ptrdiff_t>(end) + 8, node.end(), is_digit);
  if (!generated || !is_upper(node[0])) return node;
  std::string op = "aten::";
  for (std::size_t i = 0; i < end; ++i) {
    const bool dimension = i > 0 && is_digit(node[i - 1]) && node[i] == 'D';
    if (is_upper(node[i]) && i > 0 && !dimension) op += '_';
    op += static_cast<char>(std::tolower(static_cast<unsigned char>(node[i])));
  }
  return op;
}

}  // namespace ddpscope
