#include "records/error_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "records/file_descriptor.h"
#include "records/utf8.h"

namespace ddpscope {

bool write_error_file(const std::string& path, const ErrorFile& error) noexcept {
  try {
    const std::string message = valid_utf8(error.message);
    // Of the two texts torchrun prints the second one alone.
    const nlohmann::ordered_json json = {
        {"message",
         {{"message", message},
          {"extraInfo",
           {{"py_callstack", valid_utf8(error.place) + "\n" + message},
            {"timestamp", std::to_string(error.unix_seconds)}}}}}};
    const std::string text = json.dump();
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const FileDescriptor file(::open(path.c_str(), kFlags, 0600));
    return file && ::write(file.get(), text.data(), text.size()) == ssize_t(text.size());
  } catch (...) {
    return false;
  }
}

}  // namespace ddpscope
