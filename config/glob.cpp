#include "config/glob.h"

#include <algorithm>
#include <array>

#include "config/text.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, 6> kDeclarations = {
    "external", "rank_local", "sharded", "shared_data", "not_averaged", "intended"};

bool switches_off(std::string_view item) { return item.starts_with('-'); }
}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_end = 0;  // text up to here is taken by the last star
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      after_star = ++at;
      star_end = in_text;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[in_text])) {
      ++at;
      ++in_text;
    } else if (after_star != std::string_view::npos) {
      at = after_star;
      in_text = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool glob_covers(std::string_view pattern, std::string_view path) {
  if (glob_match(pattern, path)) return true;
  for (auto dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    if (glob_match(pattern, path.substr(0, dot))) return true;
  }
  return false;
}

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> items;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view item = trim(list.substr(0, end));
    if (!item.empty()) items.push_back(item);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return items;
}

bool check_enabled(std::string_view globs, std::string_view id) {
  const auto items = split_list(globs);
  bool enabled = !items.empty() && switches_off(items.front());
  for (std::string_view item : items) {
    const bool off = switches_off(item);
    if (off) item.remove_prefix(1);
    if (glob_match(item, id)) enabled = !off;
  }
  return enabled;
}

bool named_without_glob(std::string_view globs, std::string_view id) {
  const auto items = split_list(globs);
  return std::ranges::find(items, id) != items.end() && check_enabled(globs, id);
}

std::vector<DeclaredGlob> split_declarations(std::string_view list) {
  std::vector<DeclaredGlob> declarations;
  for (const std::string_view item : split_list(list)) {
    const std::size_t equals = item.rfind('=');
    if (equals == std::string_view::npos) {
      declarations.push_back({item, {}});
    } else {
      declarations.push_back({trim(item.substr(0, equals)), trim(item.substr(equals + 1))});
    }
  }
  return declarations;
}

bool known_declaration(std::string_view kind) {
  return std::ranges::find(kDeclarations, kind) != kDeclarations.end();
}

}  // namespace ddpscope
