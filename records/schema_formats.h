#pragma once

#include <cstdint>
#include <string_view>

namespace ddpscope {

/// A type of schema.def that is text or an integer of a certain form.
struct SchemaFormat {
  std::string_view type;
  std::string_view wanted;              ///< as a fault names it
  bool (*fits_number)(std::int64_t);    ///< null: no integer fits
  bool (*fits_text)(std::string_view);  ///< null: no text fits
};

/// Null where the type has no format.
const SchemaFormat* find_format(std::string_view type);

}  // namespace ddpscope
