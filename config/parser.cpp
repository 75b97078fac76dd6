#include "config/parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/glob.h"
#include "config/setting_hints.h"
#include "config/setting_table.h"
#include "config/text.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, 4> kOffWords = {"0", "off", "false", "no"};
constexpr std::array<std::string_view, 4> kOnWords = {"1", "on", "true", "yes"};
constexpr std::string_view kFixKey = "correct the key; all keys: DDPSCOPE=help=1";
constexpr std::string_view kFixValue = "correct the value; all keys: DDPSCOPE=help=1";
constexpr std::string_view kFixOption =
    "correct the key; options of a check: ddpscope explain <id>";
constexpr std::string_view kFixCheck = "correct the check id; all checks: ddpscope list";

bool is_word(const std::array<std::string_view, 4>& words, std::string_view text) {
  return std::ranges::find(words, lower(text)) != words.end();
}

bool is_option_name(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
}

std::string key_and_value(std::string_view key, std::string_view value) {
  return quoted(key) + " (value " + quoted(value) + ")";
}

bool is_option(std::string_view name) { return name.find('.') != std::string_view::npos; }

/// Takes the entries of one source and says what is wrong with them.
class Reader {
 public:
  explicit Reader(const CheckIds& check_ids) {
    for (const std::string_view name : check_ids) {
      (is_option(name) ? options_ : ids_).push_back(name);
    }
  }

  void set_place(std::string place) { place_ = std::move(place); }
  bool full() const { return out_.problems.size() >= kMaxProblems; }
  ParsedSettings& result() { return out_; }

  void pair(std::string_view entry) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse({.key = std::string(entry),
              .allowed = "key=value",
              .message = quoted(entry) + " is not key=value" + value_hint(entry),
              .fix = "write key=value; a literal colon in a value is written \\:"});
      return;
    }
    hint_ = holds_two_pairs(entry) ? R"(; pairs are joined by ":")" : "";
    assign(trim(entry.substr(0, equals)), trim(entry.substr(equals + 1)));
    hint_ = "";
  }

  void assign(std::string_view key, std::string_view value) {
    if (key == kHelp) {
      assign_help(value);
    } else if (is_option(key)) {
      assign_check_option(key, value);
    } else if (const SettingRow* row = find_setting(key)) {
      assign_row(*row, value);
    } else {
      refuse_key(key, value);
    }
  }

  void refuse(SettingsProblem problem) {
    if (full()) return;
    problem.place = place_;
    problem.message = escaped(place_) + ": " + problem.message + hint_;
    out_.problems.push_back(std::move(problem));
  }

 private:
  void refuse_key(std::string_view key, std::string_view value) {
    const std::string_view near = nearest_key(key);
    refuse({.key = std::string(key),
            .value = std::string(value),
            .nearest_key = std::string(near),
            .message = "unknown key " + key_and_value(key, value) + key_hint(near),
            .fix = std::string(kFixKey)});
  }

  void refuse_value(std::string_view key, std::string_view value, std::string_view allowed,
                    std::string_view hint) {
    refuse({.key = std::string(key),
            .value = std::string(value),
            .allowed = std::string(allowed),
            .message = escaped(key) + "=" + quoted(value) + " is not " + std::string(allowed) +
                       std::string(hint),
            .fix = std::string(kFixValue)});
  }

  bool is_text(std::string_view key, std::string_view value) {
    if (value.size() > kMaxValueBytes) {
      const auto allowed = "text of at most " + std::to_string(kMaxValueBytes) + " bytes";
      refuse_value(key, value, allowed, "");
      return false;
    }
    if (has_control_byte(value)) refuse_value(key, value, "text without control characters", "");
    return !has_control_byte(value);
  }

  void assign_help(std::string_view value) {
    const auto wanted = Switch::parse(value);
    if (!wanted) refuse_value(kHelp, value, Switch::kAllowed, "");
    out_.help_requested = wanted.value_or(out_.help_requested);
  }

  void assign_row(const SettingRow& row, std::string_view value) {
    if (!is_text(row.key, value)) return;
    if (row.key == "checks" && !names_known_checks(value)) return;
    if (row.assign(value, out_.settings)) return;
    const std::string shown = row.default_text.empty() ? "none" : row.default_text;
    refuse_value(row.key, value, row.allowed, " (default " + shown + ")");
  }

  bool names_known_checks(std::string_view globs) {
    for (std::string_view glob : split_list(globs)) {
      const bool off = glob.starts_with('-');
      if (off) glob.remove_prefix(1);
      if (off && has_wildcard(glob)) continue;  // switches off a group that may still be empty
      const auto is_match = [glob](std::string_view id) { return glob_match(glob, id); };
      if (glob.empty() || glob == "*" || std::ranges::any_of(ids_, is_match)) continue;
      const std::string_view near = has_wildcard(glob) ? "" : nearest(glob, ids_);
      refuse({.key = "checks",
              .value = std::string(globs),
              .allowed = std::string(CheckGlobs::kAllowed),
              .nearest_key = std::string(near),
              .message = "checks=" + quoted(globs) + ": " + quoted(glob) + " matches no check" +
                         (near.empty() ? group_hint(ids_) : did_you_mean(near)),
              .fix = std::string(kFixCheck)});
      return false;
    }
    return true;
  }

  void assign_check_option(std::string_view key, std::string_view value) {
    const std::size_t dot = key.find('.');
    const std::string_view id = key.substr(0, dot);
    const std::string option(key.substr(dot + 1));
    if (!is_option_name(option)) {
      refuse({.key = std::string(key),
              .value = std::string(value),
              .allowed = "<check id>.<option>",
              .message = quoted(key) + " is not <check id>.<option>",
              .fix = std::string(kFixKey)});
    } else if (std::ranges::find(ids_, id) == ids_.end()) {
      const std::string_view near = nearest(id, ids_);
      const std::string corrected = near.empty() ? "" : std::string(near) + "." + option;
      const bool is_known = std::ranges::find(options_, corrected) != options_.end();
      refuse_option({"check", group_hint(ids_)}, key, value, is_known ? corrected : near);
    } else if (std::ranges::find(options_, key) == options_.end()) {
      refuse_option({"option", option_hint(id, options_)}, key, value, nearest(key, options_));
    } else if (is_text(key, value)) {
      out_.settings.check_options[std::string(key)] = value;
    }
  }

  struct Unknown {
    std::string_view part;
    std::string known;  ///< told where nothing is near
  };
  void refuse_option(const Unknown& unknown, std::string_view key, std::string_view value,
                     std::string_view near) {
    refuse({.key = std::string(key),
            .value = std::string(value),
            .nearest_key = std::string(near),
            .message = "unknown " + std::string(unknown.part) + " in key " +
                       key_and_value(key, value) +
                       (near.empty() ? unknown.known : did_you_mean(near)),
            .fix = std::string(unknown.part == "check" ? kFixCheck : kFixOption)});
  }

  std::vector<std::string_view> ids_;
  std::vector<std::string_view> options_;
  std::string place_;
  std::string hint_;
  ParsedSettings out_;
};

// In a file a colon needs no backslash, but may have one: the same text means the same.
std::string unescape_colons(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\\:") ++i;
    out += text[i];
  }
  return out;
}
}  // namespace

ParsedSettings parse_environment(std::string_view text, const CheckIds& check_ids) {
  Reader reader(check_ids);
  reader.set_place("DDPSCOPE");
  for (const std::string& part : split_escaped(text, ':')) {
    const std::string_view entry = trim(part);
    if (entry.empty()) continue;
    reader.result().says_something = true;
    if (is_word(kOffWords, entry)) {
      reader.result().off = true;
    } else if (!is_word(kOnWords, entry)) {
      reader.pair(entry);
    }
  }
  return std::move(reader.result());
}

ParsedSettings parse_config_text(std::string_view text, std::string_view path,
                                 const CheckIds& check_ids) {
  Reader reader(check_ids);
  std::int64_t number = 0;
  for (const std::string_view line : split_lines(text)) {
    reader.set_place(std::string(path) + ":" + std::to_string(++number));
    const std::string entry = unescape_colons(cut_comment(line).content);
    if (entry.empty()) continue;
    reader.result().says_something = true;
    if (trim(std::string_view(entry).substr(0, entry.find('='))) == "config_file") {
      reader.refuse({.key = "config_file",
                     .message = "config_file is not allowed in a config file",
                     .fix = "remove the line; set config_file in DDPSCOPE or in Options"});
    } else {
      reader.pair(entry);
    }
  }
  return std::move(reader.result());
}

ParsedSettings parse_config_file(const std::string& path, std::string_view place,
                                 const CheckIds& check_ids) {
  const FileText file = read_text_file(path, kMaxFileBytes);
  if (file.failure.empty()) return parse_config_text(file.text, path, check_ids);
  Reader reader(check_ids);
  reader.set_place(std::string(place));
  reader.refuse({.key = "config_file",
                 .value = path,
                 .allowed = "a readable file",
                 .message = "config_file=" + quoted(path) +
                            " is not a readable file: " + escaped(file.failure),
                 .fix = "correct the path; all keys: DDPSCOPE=help=1"});
  return std::move(reader.result());
}

ParsedSettings parse_option_texts(const OptionTexts& options, const CheckIds& check_ids) {
  Reader reader(check_ids);
  reader.set_place("Options");
  for (const auto& [key, value] : options) reader.assign(key, value);
  return std::move(reader.result());
}

ParsedSettings parse_options(const PartialSettings& options, const CheckIds& check_ids) {
  OptionTexts texts;
  for (const SettingRow& row : setting_table()) {
    if (const auto text = row.text(options)) texts.emplace_back(row.key, *text);
  }
  for (const auto& [key, value] : options.check_options) {
    texts.emplace_back(is_option(key) ? key : key + ".", value);
  }
  return parse_option_texts(texts, check_ids);
}

}  // namespace ddpscope
