#include "plugin/crash_note.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "model/clock.h"
#include "records/file_descriptor.h"
#include "records/words.h"

namespace ddpscope::crash_note {
namespace {
constexpr std::size_t kPlaceBytes = 1536;
constexpr int kMaxNotes = 16;
constexpr std::string_view kNoPlace = R"(,"model":"","module_path":"","op":"")";

std::atomic<int> file{-1};
FileIdentity identity;
std::atomic<pid_t> owner{0};
std::atomic<int> notes_left{kMaxNotes};

// The worker writes the places in turn. A handler that meets one which is being written again
// sees that its version changed and leaves the place out.
struct Place {
  std::atomic<std::uint64_t> version{0};  // odd while it is written
  std::int64_t step = 0;
  std::size_t bytes = 0;
  std::array<char, kPlaceBytes> text{};
};
std::array<Place, 4> places;
std::atomic<std::size_t> newest{0};

/// -1 in a forked child, and where the program closed it.
int own_file() noexcept {
  const int descriptor = file.load(std::memory_order_acquire);
  if (descriptor < 0 || getpid() != owner.load(std::memory_order_relaxed)) return -1;
  return identity_of(descriptor) == identity ? descriptor : -1;
}

class Line {
 public:
  void add(std::string_view part) noexcept {
    const std::size_t bytes = std::min(part.size(), text_.size() - used_);
    std::memcpy(text_.data() + used_, part.data(), bytes);
    used_ += bytes;
  }
  void add(std::int64_t number) noexcept {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  void add_place(std::int64_t step) noexcept {
    const std::size_t before = used_;
    Place& place = places[newest.load(std::memory_order_acquire)];
    const std::uint64_t version = place.version.load(std::memory_order_acquire);
    if (version % 2 == 0 && place.step == step) add({place.text.data(), place.bytes});
    // Writes the same number, so that no read above comes later; ThreadSanitizer knows no fences.
    if (place.version.fetch_add(0, std::memory_order_acq_rel) != version) used_ = before;
    if (used_ == before) add(kNoPlace);
  }
  std::string_view text() const noexcept { return {text_.data(), used_}; }

 private:
  std::array<char, kPlaceBytes + 512> text_;
  std::size_t used_ = 0;
};
}  // namespace

void open(int descriptor) noexcept {
  owner = getpid();
  identity = identity_of(descriptor);
  notes_left = kMaxNotes;
  file = descriptor;
}

void close() noexcept { notes_left = 0; }

void set_place(std::int64_t step, std::string_view members) noexcept {
  if (members.size() > kPlaceBytes) return;
  const std::size_t next = (newest.load(std::memory_order_relaxed) + 1) % places.size();
  Place& place = places[next];
  place.version.fetch_add(1, std::memory_order_acq_rel);
  place.step = step;
  place.bytes = members.size();
  std::memcpy(place.text.data(), members.data(), members.size());
  place.version.fetch_add(1, std::memory_order_release);
  newest.store(next, std::memory_order_release);
}

void write_line(std::string_view line) noexcept {
  const int descriptor = own_file();
  while (descriptor >= 0 && ::write(descriptor, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

void write_signal(int signal, std::int64_t step, Phase phase) noexcept {
  if (own_file() < 0) return;
  if (notes_left.fetch_sub(1, std::memory_order_relaxed) <= 0) return;
  const std::string_view name = ::sigabbrev_np(signal);  // a table: safe in a handler
  Line line;
  line.add(R"({"record":"progress","step":)");
  line.add(step);
  line.add(R"(,"phase":")");
  line.add(word(phase));
  line.add(R"(","reason":"signal")");
  line.add_place(step);
  line.add(R"(,"what":"SIG)");
  line.add(name);
  line.add(R"( arrived","time_unix_ns":)");
  line.add(unix_ns());
  line.add(R"(,"signal":"SIG)");
  line.add(name);
  line.add("\"}\n");
  write_line(line.text());
}

}  // namespace ddpscope::crash_note
