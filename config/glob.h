#pragma once

#include <string_view>
#include <vector>

namespace ddpscope {

/// `*` is any text, `?` any one byte, all else itself. Takes at most pattern x text steps.
bool glob_match(std::string_view pattern, std::string_view text);
/// Whether it matches a dotted path or one that this lies below.
bool glob_covers(std::string_view pattern, std::string_view path);
bool has_wildcard(std::string_view pattern);

/// The items of a comma-separated list, without blanks around them and without empty ones.
std::vector<std::string_view> split_list(std::string_view list);

/// Whether a setting such as `*,-perf-*` enables `id`. The last match wins; a list that begins
/// with `-` starts from all.
bool check_enabled(std::string_view globs, std::string_view id);
/// Whether the list enables `id` and spells it out.
bool named_without_glob(std::string_view globs, std::string_view id);

/// One item of the setting `declare`.
struct DeclaredGlob {
  std::string_view path_glob;
  std::string_view kind;
};
/// The items of `glob=kind,...`; the last `=` of an item ends the glob.
std::vector<DeclaredGlob> split_declarations(std::string_view list);
bool known_declaration(std::string_view kind);

}  // namespace ddpscope
