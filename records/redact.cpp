#include <algorithm>
#include <array>
#include <cctype>

#include "records/jsonl_writer.h"

namespace ddpscope {
namespace {

constexpr std::string_view kCut = "***";

// Ends of option names whose value is a secret; "-" and "_" are dropped before comparing.
constexpr std::array<std::string_view, 12> kSecretEnds = {
    "token", "secret",    "password",  "passwd",     "passphrase",  "apikey",
    "pwd",   "accesskey", "secretkey", "privatekey", "credentials", "credential"};
// Beginnings of values that are secrets whatever the option is called.
constexpr std::array<std::string_view, 10> kSecretValues = {
    "AKIA", "ASIA", "ghp_", "gho_", "github_pat_", "glpat-", "hf_", "sk-", "xoxb-", "xoxp-"};

bool names_secret(std::string_view option) {
  std::string plain;
  for (const char letter : option) {
    if (letter != '-' && letter != '_') {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  const auto ends = [&plain](std::string_view end) { return plain.ends_with(end); };
  const auto last = option.find_last_of("-_.");
  const auto word = last == std::string_view::npos ? option : option.substr(last + 1);
  return std::ranges::any_of(kSecretEnds, ends) || word == "key" || word == "KEY";
}

bool is_secret_value(std::string_view value) {
  constexpr std::size_t kShortest = 16;
  const auto begins = [value](std::string_view begin) { return value.starts_with(begin); };
  return value.size() >= kShortest && std::ranges::any_of(kSecretValues, begins);
}

/// `scheme://user:password@host` without the password.
std::string without_url_password(const std::string& text) {
  const auto scheme = text.find("://");
  if (scheme == std::string::npos) return text;
  const auto at = text.substr(0, text.find('/', scheme + 3)).rfind('@');
  const auto colon = text.find(':', scheme + 3);
  if (at == std::string::npos || colon == std::string::npos || colon > at) return text;
  return text.substr(0, colon + 1) + std::string(kCut) + text.substr(at);
}

std::string redact_argument(const std::string& argument) {
  if (is_secret_value(argument)) return std::string(kCut);
  const auto bearer = argument.find("earer ");
  if (bearer != std::string::npos) return argument.substr(0, bearer + 6) + std::string(kCut);
  const auto equals = argument.find('=');
  if (equals == std::string::npos) return without_url_password(argument);
  const std::string name = argument.substr(0, equals);
  const std::string value = argument.substr(equals + 1);
  if (names_secret(name) || is_secret_value(value)) return name + "=" + std::string(kCut);
  return without_url_password(argument);
}

}  // namespace

std::vector<std::string> redact_command(const std::vector<std::string>& command) {
  std::vector<std::string> result;
  bool cut_next = false;
  for (const auto& argument : command) {
    const bool is_option = argument.starts_with("-");
    if (cut_next && !argument.starts_with("--")) {
      result.emplace_back(kCut);
      cut_next = false;
      continue;
    }
    cut_next = is_option && argument.find('=') == std::string::npos && names_secret(argument);
    result.push_back(redact_argument(argument));
  }
  return result;
}

}  // namespace ddpscope
