#include "hooks/archive_watch.h"

#include <torch/optim.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <unordered_map>

#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/model_discovery.h"
#include "hooks/per_thread.h"
#include "hooks/replica_bits.h"
#include "hooks/step_wait.h"

namespace ddpscope {
namespace {
using torch::optim::Optimizer;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;
using Device = std::optional<at::Device>;
constexpr std::size_t kMaxPrefixes = 4096;

struct ReadTensor;
struct ReadArchive;
struct WriteTensor;
using InterposedRead =
    Interposed<ReadTensor, bool(InputArchive*, const std::string&, at::Tensor&, bool)>;
using InterposedReadArchive =
    Interposed<ReadArchive, bool(InputArchive*, const std::string&, InputArchive&)>;
using InterposedWrite =
    Interposed<WriteTensor, void(OutputArchive*, const std::string&, const at::Tensor&, bool)>;

std::atomic<std::uint64_t> archives{1};
thread_local int optimizer_depth = 0;

// The path of an archive inside the one that holds it; stale only until its address is used again.
using Prefixes = std::unordered_map<const InputArchive*, std::string>;
Prefixes& prefixes() { return PerThread<Prefixes>::get(); }

std::string prefix_of(const InputArchive* archive) {
  const auto known = prefixes().find(archive);
  return known == prefixes().end() ? "" : known->second;
}

// The bytes of a tensor before it is read, which the read gives up. Gone before the hook returns.
struct Before {
  bool defined = false;
  TensorInfo info;
  std::string dtype_read;  // of what comes in, where that is known
  std::vector<std::int64_t> strides;
  c10::Storage storage;
  const void* data = nullptr;
  std::size_t bytes = 0;

  void keep(const at::Tensor& tensor) {
    defined = tensor.defined();
    if (!defined) return;
    info = describe(tensor, 0);
    if (!is_readable(tensor)) return;
    strides = tensor.strides().vec();
    storage = tensor.unsafeGetTensorImpl()->storage();
    data = tensor.unsafeGetTensorImpl()->data();
    bytes = tensor.nbytes();
  }

  // True also where the bytes cannot be read without waiting for a device.
  bool differs(const at::Tensor& tensor, const TensorInfo& now) const {
    if (!defined || info.shape != now.shape || info.dtype != now.dtype) return true;
    if (!is_readable(tensor) || strides != tensor.strides()) return true;
    const void* data_now = tensor.unsafeGetTensorImpl()->data();
    if (data == nullptr && bytes > 0) return true;
    if (data == data_now || bytes != tensor.nbytes()) return true;
    return std::memcmp(data, data_now, bytes) != 0;
  }
};

// Of what the archive holds under the name; "" if that is no tensor.
std::string dtype_in(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  if (!archive.try_read(key, value) || !value.isTensor()) return "";
  return value.toTensor().defined() ? describe(value.toTensor(), 0).dtype : "";
}

void tell_missing(Capture& capture, std::string key) {
  capture.put_large(ArchiveTensorEvent{.at = capture.marker().now(),
                                       .archive = archives.load(),
                                       .access = ArchiveAccess::kMissing,
                                       .key = std::move(key)});
}

// `before.dtype_read` is told and not the tensor's own, which stays: the bytes are not converted.
void tell_read(Capture& capture, const Before& before, std::string key, const at::Tensor& tensor,
               bool found) {
  if (!tensor.defined()) return tell_missing(capture, std::move(key));  // asked for by name alone
  ArchiveTensorEvent event{.at = capture.marker().now(),
                           .archive = archives.load(),
                           .access = found ? ArchiveAccess::kRead : ArchiveAccess::kMissing,
                           .key = std::move(key),
                           .tensor = capture.announce(tensor)};
  event.now = describe(tensor, event.tensor);
  // Nothing to compare with: what came in is taken for what was expected.
  event.old_shape = before.defined ? before.info.shape : event.now.shape;
  event.old_dtype = before.defined ? before.info.dtype : event.now.dtype;
  event.changed = found && before.differs(tensor, event.now);
  if (!before.dtype_read.empty()) event.now.dtype = before.dtype_read;
  capture.put_large(std::move(event));
}

// `read` ends in `try_read`.
bool on_try_read(InputArchive* self, const std::string& key, at::Tensor& tensor, bool is_buffer) {
  StepWait::see_archive();
  if (optimizer_depth > 0) return InterposedRead::original(self, key, tensor, is_buffer);
  Before before;
  as_guest("archive", [&](Capture&) {
    before.keep(tensor);
    if (before.defined) before.dtype_read = dtype_in(*self, key);
  });
  const bool found = InterposedRead::original(self, key, tensor, is_buffer);
  as_guest("archive", [&](Capture& capture) {
    tell_read(capture, before, prefix_of(self) + key, tensor, found);
    if (found && is_buffer) ReplicaBits::buffers_attached(capture, {tensor});
  });
  return found;
}

bool on_read_archive(InputArchive* self, const std::string& key, InputArchive& nested) {
  const bool found = InterposedReadArchive::original(self, key, nested);
  if (!found) {
    as_guest("archive", [&](Capture& capture) {
      if (optimizer_depth == 0) tell_missing(capture, prefix_of(self) + key);
    });
    return found;
  }
  as_guest("archive", [&](Capture&) {
    if (prefixes().size() >= kMaxPrefixes) prefixes().clear();
    prefixes()[&nested] = prefix_of(self) + key + ".";
  });
  return found;
}

void on_write(OutputArchive* self, const std::string& key, const at::Tensor& tensor,
              bool is_buffer) {
  StepWait::see_archive();
  InterposedWrite::original(self, key, tensor, is_buffer);
  if (optimizer_depth > 0) return;
  as_guest("archive", [&](Capture& capture) {
    if (!tensor.defined()) return;
    capture.put_large(ArchiveTensorEvent{.at = capture.marker().now(),
                                         .archive = archives.load(),
                                         .access = ArchiveAccess::kWritten,
                                         .key = key,
                                         .tensor = capture.announce(tensor)});
  });
}

template <class... Arguments>
struct LoadFrom {
  using Hooked = Interposed<LoadFrom, void(InputArchive*, Arguments...)>;
  static void call(InputArchive* self, Arguments... arguments) {
    start_discovery_session();
    ++archives;
    as_guest("archive", [&](Capture&) { prefixes().erase(self); });
    Hooked::original(self, std::forward<Arguments>(arguments)...);
  }
};

template <class... Arguments>
struct SaveTo {
  using Hooked = Interposed<SaveTo, void(OutputArchive*, Arguments...)>;
  static void call(OutputArchive* self, Arguments... arguments) {
    Hooked::original(self, std::forward<Arguments>(arguments)...);
    ++archives;
  }
};

// What an optimizer reads and writes is its own state.
template <class Kind, class Result, class... Arguments>
struct OfOptimizer {
  using Hooked = Interposed<OfOptimizer, Result(Arguments...)>;
  struct Depth {
    Depth() { ++optimizer_depth; }
    ~Depth() { --optimizer_depth; }
  };
  static Result call(Arguments... arguments) {
    const Depth inside;
    return Hooked::original(std::forward<Arguments>(arguments)...);
  }
};

template <class Hook>
bool install(const std::string& symbol) noexcept {
  return Hook::Hooked::install(symbol.c_str(), Hook::call);
}

template <class Kind>
bool install_optimizer(const std::string& mangled_class) {
  using Load = OfOptimizer<Kind, void, Kind*, InputArchive&>;
  using Save = OfOptimizer<Kind, void, const Kind*, OutputArchive&>;
  const std::string of = "5torch5optim" + mangled_class;
  return install<Load>("_ZN" + of + "4loadERNS_9serialize12InputArchiveE") &
         install<Save>("_ZNK" + of + "4saveERNS_9serialize13OutputArchiveE");
}

bool install_optimizers() {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  using Read = OfOptimizer<void, InputArchive&, InputArchive&, Optimizer&>;
  using Write = OfOptimizer<void, OutputArchive&, OutputArchive&, const Optimizer&>;
  bool live = install<Read>("_ZN5torch5optimrsERNS_9serialize12InputArchiveERNS0_9OptimizerE");
  live &= install<Write>("_ZN5torch5optimlsERNS_9serialize13OutputArchiveERKNS0_9OptimizerE");
  live &= install_optimizer<SGD>("3SGD");
  live &= install_optimizer<Adam>("4Adam");
  live &= install_optimizer<AdamW>("5AdamW");
  live &= install_optimizer<RMSprop>("7RMSprop");
  live &= install_optimizer<Adagrad>("7Adagrad");
  live &= install_optimizer<LBFGS>("5LBFGS");
  return live;
}

bool install_ends() {
  using ReadBytes = std::function<std::size_t(std::uint64_t, void*, std::size_t)>;
  using CountBytes = std::function<std::size_t()>;
  using WriteBytes = std::function<std::size_t(const void*, std::size_t)>;
  const std::string load = "_ZN5torch9serialize12InputArchive9load_fromE";
  const std::string save = "_ZN5torch9serialize13OutputArchive7save_toE";
  const std::string device = "St8optionalIN3c106DeviceEE";
  const std::string name = "RK" DDPSCOPE_MANGLED_STRING;
  bool live = install<LoadFrom<const std::string&, Device>>(load + name + device);
  live &= install<LoadFrom<std::istream&, Device>>(load + "RSi" + device);
  live &= install<LoadFrom<const char*, std::size_t, Device>>(load + "PKcm" + device);
  live &= install<LoadFrom<const ReadBytes&, const CountBytes&, Device>>(
      load + "RKSt8functionIFmmPvmEERKS2_IFmvEE" + device);
  live &= install<SaveTo<const std::string&>>(save + name);
  live &= install<SaveTo<std::ostream&>>(save + "RSo");
  live &= install<SaveTo<const WriteBytes&>>(save + "RKSt8functionIFmPKvmEE");
  return live;
}

bool install_all() {
  const std::string read = "_ZN5torch9serialize12InputArchive8try_readERK" DDPSCOPE_MANGLED_STRING;
  const std::string write = "_ZN5torch9serialize13OutputArchive5writeERK" DDPSCOPE_MANGLED_STRING;
  bool live = InterposedRead::install((read + "RN2at6TensorEb").c_str(), on_try_read);
  live &= InterposedReadArchive::install((read + "RS1_").c_str(), on_read_archive);
  live &= InterposedWrite::install((write + "RKN2at6TensorEb").c_str(), on_write);
  live &= install_ends();
  live &= install_optimizers();
  return live;
}
}  // namespace

bool install_archive_watch() noexcept {
  try {
    return install_all();
  } catch (...) {  // no memory for a name
    return false;
  }
}

}  // namespace ddpscope
