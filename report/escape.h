#pragma once

#include <string>
#include <string_view>

namespace ddpscope {

/// Text or a quoted attribute value of HTML. Control and bidi characters become visible.
std::string escape_html(std::string_view text);

/// Text or a quoted attribute value of XML 1.0, which has fewer characters than Unicode.
std::string escape_xml(std::string_view text);

/// A path as a URI reference: every byte that is no letter of one is `%XX`.
std::string escape_uri(std::string_view path);

/// One line of terminal text: control bytes, ESC, newlines, bidi controls and bytes that are not
/// UTF-8 become `\n`, `\xNN` or `\u{...}`.
std::string escape_terminal(std::string_view text);

}  // namespace ddpscope
