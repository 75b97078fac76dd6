#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "exchange/lone_steps.h"
#include "exchange/rank_ring.h"
#include "exchange/ring_blobs.h"
#include "exchange/ring_bytes.h"
#include "exchange/ring_layout.h"
#include "model/run_record.h"

namespace ddpscope {
namespace {
bool is_within(std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  return value >= least && value <= most;
}

std::string problem_of(const ring::Head& head) {
  if (head.magic != ring::kMagic) return "this is no ring";
  if (head.version != kRingVersion) return "another version of ddpscope wrote this";
  const bool sound = head.check == ring::check_of(head) && head.run_id_bytes <= ring::kRunIdBytes &&
                     is_within(head.calls, 1, ring::kMaxCalls) &&
                     is_within(head.digests, 1, ring::kMaxDigests) &&
                     head.kept_bytes <= ring::kMaxAreaBytes && head.kept_bytes % 8 == 0 &&
                     head.recent_bytes <= ring::kMaxAreaBytes && head.recent_bytes % 8 == 0 &&
                     is_within(static_cast<std::uint64_t>(head.rank), 0, kMaxRank) &&
                     is_within(static_cast<std::uint64_t>(head.world_size), 1, kMaxRank + 1);
  return sound ? "" : "its head is damaged";
}

// What the words of a slot say, or nothing where no writer of ours wrote such words.
std::optional<CallRecord> said(const ring::Words<CallRecord>& words, std::uint64_t place,
                               std::uint64_t ending) {
  auto call = std::bit_cast<CallRecord>(words);
  if (ring::is_of(ending, place)) {
    call.waited_us = static_cast<std::uint32_t>(ending);
    call.state = ring::state_in(ending);
  }
  const bool sound = call.kind <= CollectiveKind::kBarrier && call.reduce <= ReduceKind::kOther &&
                     call.phase <= Phase::kExit && call.state <= CallState::kFailed;
  return sound ? std::optional(call) : std::nullopt;
}

std::optional<StepDigest> said(ring::Words<StepDigest> words, std::uint64_t, std::uint64_t) {
  char* const averages = reinterpret_cast<char*>(words.data()) + offsetof(StepDigest, averages);
  *averages = *averages != 0;  // no other byte is a bool
  const auto digest = std::bit_cast<StepDigest>(words);
  return digest.phase <= Phase::kExit ? std::optional(digest) : std::nullopt;
}

std::optional<ring::Beat> said(const ring::Words<ring::Beat>& words, std::uint64_t, std::uint64_t) {
  const auto beat = std::bit_cast<ring::Beat>(words);
  const bool sound = beat.phase <= static_cast<std::uint16_t>(Phase::kExit);
  return sound ? std::optional(beat) : std::nullopt;
}

std::optional<LoneSteps> said(const ring::Words<LoneSteps>& words, std::uint64_t, std::uint64_t) {
  const auto lone = std::bit_cast<LoneSteps>(words);
  return lone.steps > 0 ? std::optional(lone) : std::nullopt;
}

template <class Record>
std::optional<Record> read_slot(const char* slot, std::uint64_t place) {
  std::array<std::uint64_t, ring::kSlotHead> head;
  ring::Words<Record> words;
  std::memcpy(head.data(), slot, sizeof head);
  std::memcpy(words.data(), slot + sizeof head, sizeof words);
  if (head[0] != place + 1) return std::nullopt;
  if (head[1] != ring::check_of(words.data(), sizeof words, place + 1)) return std::nullopt;
  return said(words, place, head[2]);
}
}  // namespace

struct RingReader::File {
  std::string path;
  std::shared_ptr<const FileDescriptor> image;  ///< where there is no path
  ino_t inode = 0;
  dev_t device = 0;
  std::size_t file_bytes = 0;
  RingHead head;
  RingSizes sizes;
  ring::Layout layout;
  std::uint64_t call_count = 0;
  std::uint64_t digest_count = 0;
  std::uint64_t beat_count = 0;
  std::uint64_t kept_used = 0;
  std::uint64_t recent_used = 0;
  LoneSteps lone;
  RingPart part;  ///< what of it is shown
  ByteWindow calls;
  ByteWindow digests;
  ByteWindow beats;
  std::optional<std::vector<char>> kept;
  std::optional<std::vector<char>> recent;
  std::optional<std::vector<Blob>> shown;  ///< of both, in the part
  std::optional<std::unordered_map<NameId, std::string_view>> names;

  std::string open();
  std::string take_head();
  std::vector<char> read(std::size_t begin, std::size_t size) const;
  template <class Record>
  std::optional<Record> slot(ByteWindow& window, std::size_t at, std::uint64_t place);
  std::string_view kept_bytes();
  std::string_view recent_bytes();
};

std::string RingReader::File::open() {
  OpenedFile opened;
  if (image == nullptr) {
    opened = open_regular(path);
  } else if (::fstat(image->get(), &opened.info) != 0) {
    opened.error = "the image of a ring cannot be read";
  }
  if (!opened.error.empty()) return opened.error;
  inode = opened.info.st_ino;
  device = opened.info.st_dev;
  file_bytes = static_cast<std::size_t>(opened.info.st_size);
  const int fd = image == nullptr ? opened.file.get() : image->get();
  beats.bytes = read_bytes(fd, 0, ring::kFirstArea);
  return take_head();
}

std::string RingReader::File::take_head() {
  if (beats.bytes.size() < ring::kFirstArea) return path + ": its head is cut off";

  ring::Head written;
  std::memcpy(&written, beats.bytes.data(), sizeof written);
  if (const std::string problem = problem_of(written); !problem.empty()) {
    return path + ": " + problem;
  }
  head = {.run_id = std::string(written.run_id.data(), written.run_id_bytes),
          .rank = written.rank,
          .world_size = written.world_size,
          .pid = written.pid};
  sizes = {.calls = written.calls,
           .digests = written.digests,
           .kept_bytes = written.kept_bytes,
           .recent_bytes = written.recent_bytes};
  layout = ring::layout_of(sizes);
  const auto counter = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, beats.bytes.data() + at, sizeof value);
    return value;
  };
  call_count = counter(ring::kCallCount);
  digest_count = counter(ring::kDigestCount);
  beat_count = counter(ring::kBeatCount);
  kept_used = std::min<std::uint64_t>(counter(ring::kKeptUsed), sizes.kept_bytes);
  recent_used = std::min<std::uint64_t>(counter(ring::kRecentUsed), sizes.recent_bytes);
  lone = read_slot<LoneSteps>(beats.bytes.data() + ring::kLoneSteps, 0).value_or(LoneSteps{});
  part = {.first_call = call_count - std::min<std::uint64_t>(call_count, sizes.calls),
          .call_count = call_count,
          .first_digest = digest_count - std::min<std::uint64_t>(digest_count, sizes.digests),
          .digest_count = digest_count};
  return {};
}

std::vector<char> RingReader::File::read(std::size_t begin, std::size_t size) const {
  if (begin >= file_bytes) return {};
  if (image != nullptr) return read_bytes(image->get(), begin, std::min(size, file_bytes - begin));
  const OpenedFile opened = open_regular(path);
  if (!opened.error.empty() || opened.info.st_ino != inode || opened.info.st_dev != device) {
    return {};
  }
  return read_bytes(opened.file.get(), begin, std::min(size, file_bytes - begin));
}

template <class Record>
std::optional<Record> RingReader::File::slot(ByteWindow& window, std::size_t at,
                                             std::uint64_t place) {
  constexpr std::size_t kBytes = ring::kSlotBytes<Record>;
  if (at + kBytes > file_bytes) return std::nullopt;
  const char* here = window.find(at, kBytes);
  if (here == nullptr) {
    window = {.begin = at, .bytes = read(at, kWindowBytes)};
    here = window.find(at, kBytes);
  }
  return here == nullptr ? std::nullopt : read_slot<Record>(here, place);
}

std::string_view RingReader::File::kept_bytes() {
  if (!kept) kept = read(layout.kept, kept_used);
  return {kept->data(), kept->size()};
}

std::string_view RingReader::File::recent_bytes() {
  if (!recent) recent = read(layout.recent, recent_used);
  return {recent->data(), recent->size()};
}

RingReader::RingReader() : file_(std::make_unique<File>()) {}
RingReader::~RingReader() = default;
RingReader::RingReader(RingReader&&) noexcept = default;
RingReader& RingReader::operator=(RingReader&&) noexcept = default;

std::string RingReader::open(const std::string& path) {
  auto file = std::make_unique<File>();
  file->path = path;
  std::string error = file->open();
  file_ = error.empty() ? std::move(file) : std::make_unique<File>();
  return error;
}

std::string RingReader::open(std::shared_ptr<const FileDescriptor> image) {
  auto file = std::make_unique<File>();
  file->image = std::move(image);
  std::string error = file->image == nullptr ? "there is no image" : file->open();
  file_ = error.empty() ? std::move(file) : std::make_unique<File>();
  return error;
}

const RingHead& RingReader::head() const { return file_->head; }

std::size_t RingReader::missing_bytes() const {
  return file_->layout.end - std::min(file_->layout.end, file_->file_bytes);
}

Heartbeat RingReader::heartbeat() const {
  for (const std::uint64_t back : {1, 2}) {
    if (file_->beat_count < back) break;
    const std::uint64_t place = file_->beat_count - back;
    const std::size_t at = ring::kBeats + place % 2 * ring::kSlotBytes<ring::Beat>;
    const auto beat = file_->slot<ring::Beat>(file_->beats, at, place);
    if (!beat) continue;
    return {.unix_ns = beat->unix_ns,
            .step = step_after(beat->step, file_->lone.steps),
            .progress = beat->progress,
            .module = beat->module,
            .phase = static_cast<Phase>(beat->phase),
            .ended = beat->ended != 0};
  }
  return {};
}

const LoneSteps& RingReader::lone_steps() const { return file_->lone; }
void RingReader::show_lone_steps() {
  file_->lone = {};
  file_->shown.reset();
}

void RingReader::show(const RingPart& part) {
  file_->part = part;
  file_->shown.reset();
}
const RingPart& RingReader::shown() const { return file_->part; }

std::uint64_t RingReader::call_count() const { return file_->part.call_count; }
std::uint64_t RingReader::first_call() const { return file_->part.first_call; }
std::optional<CallRecord> RingReader::call(std::uint64_t place) const {
  if (place >= file_->call_count) return std::nullopt;
  const std::size_t index = place % file_->sizes.calls;
  const std::size_t at = ring::kFirstArea + index * ring::kSlotBytes<CallRecord>;
  auto call = file_->slot<CallRecord>(file_->calls, at, place);
  if (call) call->step = static_cast<std::int32_t>(step_after(call->step, file_->lone.steps));
  return call && file_->part.has(call->step) ? call : std::nullopt;
}

std::uint64_t RingReader::digest_count() const { return file_->part.digest_count; }
std::uint64_t RingReader::first_digest() const { return file_->part.first_digest; }
std::optional<StepDigest> RingReader::digest(std::uint64_t place) const {
  if (place >= file_->digest_count) return std::nullopt;
  const std::size_t index = place % file_->sizes.digests;
  const std::size_t at = file_->layout.digests + index * ring::kSlotBytes<StepDigest>;
  auto digest = file_->slot<StepDigest>(file_->digests, at, place);
  if (digest && file_->lone.steps > 0) {
    if (digest->step <= file_->lone.steps) return std::nullopt;
    count_from(file_->lone, *digest);
  }
  return digest && file_->part.has(digest->step) ? digest : std::nullopt;
}

const std::vector<Blob>& RingReader::blobs() const {
  if (file_->shown) return *file_->shown;
  std::vector<Blob>& blobs = file_->shown.emplace(ring::kept_blobs(file_->kept_bytes()));
  std::ranges::move(ring::recent_blobs(file_->recent_bytes(), file_->sizes.recent_bytes),
                    std::back_inserter(blobs));
  // What tells only of changes holds for later steps as well. What a step added to the counts is
  // told by the digest before its own.
  count_from(file_->lone, blobs);
  const auto is_hidden = [part = file_->part](const Blob& blob) {
    const bool is_early = blob.kind == BlobKind::kReductions && blob.step <= part.first_step;
    return is_early || blob.step > part.last_step;
  };
  std::erase_if(blobs, is_hidden);
  return blobs;
}

std::string RingReader::name(NameId id) const {
  if (id == 0) return {};
  if (!file_->names) {
    file_->names.emplace();
    for (const Blob& blob : ring::kept_blobs(file_->kept_bytes())) {
      if (blob.kind == BlobKind::kName) file_->names->try_emplace(blob.number, blob.bytes);
    }
  }
  const auto known = file_->names->find(id);
  return known == file_->names->end() ? std::string() : std::string(known->second);
}

}  // namespace ddpscope
