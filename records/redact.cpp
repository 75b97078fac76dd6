#include <algorithm>
#include <array>
#include <cctype>

#include "records/jsonl_writer.h"

namespace ddpscope {
namespace {

constexpr std::string_view kCut = "***";

// Ends of names whose value is a secret; "-" and "_" are dropped before comparing.
constexpr std::array<std::string_view, 14> kSecretEnds = {
    "token",     "secret",     "password",    "passwd",     "passphrase",    "apikey", "accesskey",
    "secretkey", "privatekey", "credentials", "credential", "authorization", "cookie", "signature"};
// Shorter ones, which are the whole name or its last word.
constexpr std::array<std::string_view, 5> kSecretWords = {"key", "pwd", "pass", "auth", "sig"};
// Beginnings of values that are secrets whatever the option is called.
constexpr std::array<std::string_view, 14> kSecretValues = {
    "AKIA",   "ASIA", "ghp_", "gho_",  "ghs_",  "ghu_", "github_pat_",
    "glpat-", "hf_",  "sk-",  "xoxb-", "xoxp-", "AIza", "eyJ"};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return result;
}

bool names_secret(std::string_view name) {
  std::string plain = lower(name);
  const auto last = plain.find_last_of("-_.");
  const std::string word = last == std::string::npos ? plain : plain.substr(last + 1);
  std::erase_if(plain, [](char letter) { return letter == '-' || letter == '_'; });
  const auto ends = [&plain](std::string_view end) { return plain.ends_with(end); };
  return std::ranges::any_of(kSecretEnds, ends) ||
         std::ranges::find(kSecretWords, word) != kSecretWords.end();
}

bool is_secret_value(std::string_view value) {
  constexpr std::size_t kShortest = 16;
  const auto begins = [value](std::string_view begin) { return value.starts_with(begin); };
  return value.size() >= kShortest && std::ranges::any_of(kSecretValues, begins);
}

/// Each `scheme://user:password@host` without the password.
std::string without_url_passwords(std::string text) {
  constexpr std::string_view kMark = "://";
  for (auto mark = text.find(kMark); mark != std::string::npos; mark = text.find(kMark, mark + 3)) {
    const auto host = mark + kMark.size();
    const auto at = text.substr(0, text.find('/', host)).rfind('@');
    const auto colon = text.find(':', host);
    if (at == std::string::npos || colon >= at) continue;
    text.replace(colon + 1, at - colon - 1, kCut);
  }
  return text;
}

/// Where the value begins that follows the first `secret=`, also in `--env=TOKEN=x`, in a query
/// `?a=b&token=x` and in `{"token": "x"}`.
std::size_t secret_value(const std::string& argument) {
  constexpr std::string_view kBefore = "=:?&,; {'\"";
  for (std::size_t sign = argument.find_first_of("=:"); sign != std::string::npos;
       sign = argument.find_first_of("=:", sign + 1)) {
    std::size_t end = sign;
    while (end > 0 && std::string_view("'\" ").find(argument[end - 1]) != std::string::npos) --end;
    const auto before = end == 0 ? std::string::npos : argument.find_last_of(kBefore, end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    if (begin < end && names_secret(std::string_view(argument).substr(begin, end - begin))) {
      return sign + 1;
    }
  }
  return std::string::npos;
}

std::string redact_argument(const std::string& given) {
  const std::string argument = without_url_passwords(given);
  if (is_secret_value(argument)) return std::string(kCut);
  const auto bearer = argument.find("earer ");
  if (bearer != std::string::npos) return argument.substr(0, bearer + 6) + std::string(kCut);
  if (const auto value = secret_value(argument); value != std::string::npos) {
    return argument.substr(0, value) + std::string(kCut);
  }
  const auto equals = argument.find('=');
  if (equals != std::string::npos && is_secret_value(argument.substr(equals + 1))) {
    return argument.substr(0, equals + 1) + std::string(kCut);
  }
  return argument;
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
