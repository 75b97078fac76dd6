#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ddpscope {

/// A row of schema.def.
struct SchemaMember {
  std::string_view owner;
  std::string_view name;  ///< empty: `type` is the owner whose members this one has, too
  std::string_view type;
  bool is_required = true;
};
std::span<const SchemaMember> schema_members();

/// The row of a member, also of one that was taken over; null where the schema knows none.
const SchemaMember* find_member(std::string_view owner, std::string_view name);
/// Whether the table has rows of this owner.
bool is_owner(std::string_view type);

/// The words of a type that is a set of words; empty for any other type.
std::span<const std::string_view> words_of_type(std::string_view type);

/// Cuts the `?` from a type that allows null.
bool take_nullable(std::string_view& type);

}  // namespace ddpscope
