#pragma once

#include <span>
#include <string_view>

namespace ddpscope {

/// A page of docs/checks, embedded at build.
struct CheckPage {
  std::string_view id;
  std::string_view text;
};
std::span<const CheckPage> check_pages();

}  // namespace ddpscope
