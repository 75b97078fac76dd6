#include "plugin/flight_record.h"

#include <dlfcn.h>

#include "records/report_dir.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

// `c10d::dump_fr_trace_json`, which this half does not link.
std::string (*dump_function() noexcept)(bool, bool) {
  return reinterpret_cast<std::string (*)(bool, bool)>(
      dlsym(RTLD_DEFAULT, "_ZN4c10d18dump_fr_trace_jsonB5cxx11Ebb"));
}
}  // namespace

std::string write_flight_record(const std::string& dir, std::int64_t rank) {
  auto* const dump = dump_function();
  if (dump == nullptr) return {};
  const std::string text = dump(/*includeCollectives=*/true, /*onlyActive=*/false);
  if (text.empty() || text.size() > kMaxBytes) return {};
  return write_file_atomically(dir + "/rank-" + std::to_string(rank) + ".flight.json", text);
}

}  // namespace ddpscope
