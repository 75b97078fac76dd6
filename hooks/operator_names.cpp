#include "hooks/operator_names.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace ddpscope {
namespace {
constexpr std::string_view kBegin = "at::_ops::";
constexpr std::string_view kEnd = "::call";

bool is_registered(const std::string& name, const std::string& overload) {
  return c10::Dispatcher::singleton().findOp({name, overload}).has_value();
}
}  // namespace

std::string operator_called_by(std::string_view function) {
  if (!function.starts_with(kBegin) || !function.ends_with(kEnd)) return "";
  function.remove_prefix(kBegin.size());
  function.remove_suffix(kEnd.size());
  const std::string name = "aten::" + std::string(function);
  if (is_registered(name, "")) return name;
  // Of both names, which an underscore joins, each may have its own.
  for (auto at = name.rfind('_'); at != std::string::npos; at = name.rfind('_', at - 1)) {
    const std::string begin = name.substr(0, at);
    if (is_registered(begin, name.substr(at + 1))) return begin;
  }
  return "";
}

}  // namespace ddpscope
