#pragma once

#include <ddpscope/export.h>
#include <ddpscope/version.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d
namespace torch::jit {
struct Module;
}
namespace torch::optim {
class Optimizer;
}

/// Diagnostics for training with LibTorch: attach once, train as before, read the report.
namespace ddpscope {
inline namespace api0 {

/// A wrong setting. Thrown by `attach_diagnostics` before training starts; the message names the
/// key, the value, what is allowed and the nearest key.
class DDPSCOPE_API SettingsError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The run is ended because the setting `halt_on` asks for it. Thrown only on a training thread,
/// at the entry of a backward or of an optimizer step.
class DDPSCOPE_API HaltError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What an unset or empty variable `DDPSCOPE` means for this program.
enum class Activation : std::uint8_t {
  kActive,       ///< on, with the settings given here
  kEnvironment,  ///< dormant: for binaries that are shipped to others
};

/// What the user declares about a part of a model; docs/settings.md, `declare`.
enum class Declaration : std::uint8_t {
  kExternal,
  kRankLocal,
  kSharded,
  kSharedData,
  kNotAveraged,
  kIntended,
};

/// One optional value per key of docs/settings.md, with the same name, type and allowed words. The
/// environment variable `DDPSCOPE` overrides what stands here.
struct Options {
  std::optional<std::string> level{};
  std::optional<std::string> checks{};
  std::optional<std::string> report_dir{};
  std::optional<std::int64_t> max_report_mb{};
  std::optional<std::string> config_file{};
  std::optional<std::string> suppressions{};
  std::optional<std::string> declare{};
  std::optional<std::string> halt_on{};
  std::optional<std::int64_t> exit_code{};
  std::optional<std::string> fail_on{};
  std::optional<double> overhead{};
  std::optional<std::int64_t> full_cycles{};
  std::optional<std::int64_t> history{};
  std::optional<std::int64_t> stack_depth{};
  std::optional<std::string> exchange{};
  std::optional<std::int64_t> exchange_every{};
  std::optional<std::int64_t> exchange_timeout_ms{};
  std::optional<std::int64_t> hang_after_s{};
  std::optional<bool> sync_batch_norm{};
  std::optional<std::string> sync_batch_norm_exclude{};
  std::optional<std::string> console{};
  std::optional<std::string> metrics_file{};
  std::optional<std::string> log_level{};
  std::map<std::string, std::string> check_options{};  ///< "<id>.<option>" -> value
  Activation activation = Activation::kActive;
};

struct Fix {
  std::string text;
  std::string applicability;  ///< safe, likely or needs-decision
};

struct Frame {
  std::string function;
  std::string file;
  std::int64_t line = 0;
  std::string module;
  std::uint64_t offset = 0;
  std::string source;
  std::string build_id;  ///< of the module; empty where it has none
  bool library = false;  ///< of LibTorch or the system, or inlined from one of their headers
};

struct Site {
  std::string role;  ///< saved, changed, used, created, registered or called
  std::vector<Frame> frames;
  std::string state;  ///< complete, evicted or unsymbolized
};

using FactScalar = std::variant<bool, std::int64_t, double, std::string>;
using FactValue = std::variant<bool, std::int64_t, double, std::string, std::vector<FactScalar>>;

/// One thing that is wrong with the training; docs/report-format.md, record `finding`. Worded
/// members hold the words of the report.
struct Finding {
  std::string id;
  std::string severity;         ///< error, warning or note
  std::string confidence;       ///< high, medium or low
  std::string evidence_status;  ///< established, supported, hypothesis or undecided
  std::string causal_role;      ///< initiating, cascade or unknown
  std::int64_t rank = 0;
  std::int64_t step = 0;  ///< 1-based; 0 is before the first
  std::string phase;      ///< init, forward, backward, reduce, optimizer or exit
  std::string model;
  std::string module_path;
  std::string subject;
  std::string op;
  std::string what;
  std::string why;
  std::vector<Fix> fixes;
  std::map<std::string, FactValue> facts;
  std::vector<Site> sites;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t occurrences = 1;
  std::vector<std::int64_t> ranks;
  std::optional<std::string> caused_by;  ///< fingerprint of the finding that explains this one
  std::string doc;
  std::string fingerprint;
  bool suppressed = false;
};

/// What `flush` wrote.
struct Report {
  std::int64_t errors = 0;
  std::int64_t warnings = 0;
  std::int64_t notes = 0;
  std::vector<std::string> files;
};

/// Parameters of a program without modules, by dotted name.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// One attached model. Copies mean the same attachment; dropping it changes nothing. Every member
/// may be called on any thread, and does nothing where diagnostics are off or after `detach`.
class DDPSCOPE_API Attachment {
 public:
  Attachment() = default;

  /// The label of this model in the report; the default is its demangled class name, with `#2` for
  /// a second one of the class.
  Attachment& name(std::string label);
  /// Ties an optimizer to the model and names it. Optional where optimizers are seen by themselves.
  Attachment& watch(torch::optim::Optimizer& optimizer, std::string name = "");
  /// Walks the graph of this loss now. Optional: losses are seen at backward.
  Attachment& watch_loss(const at::Tensor& loss);
  /// Declares that the gradients of this model are averaged over this group. With the setting
  /// `sync_batch_norm` batch norms run over it; give it before the first forward in training.
  Attachment& process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  /// Declares what is intended below the paths that match the glob (`*` and `?`).
  Attachment& declare(std::string_view path_glob, Declaration declaration);
  /// Ends this attachment. Idempotent; also after the model has died.
  void detach();

 private:
  friend struct AttachmentAccess;
  std::uint64_t model_ = 0;
};

/// Watches the module tree below `model`, which may live on the stack, in a unique_ptr or behind a
/// raw pointer. The model may grow, move to a device, be replaced or die while it is attached. The
/// same model again is the same attachment. Results are never changed.
///
/// @throws SettingsError if a setting is wrong.
/// Thread: the one that trains the model.
DDPSCOPE_API Attachment attach_diagnostics(torch::nn::Module& model, const Options& options = {});

/// The same for a TorchScript module, by any handle of the same object.
DDPSCOPE_API Attachment attach_diagnostics(torch::jit::Module& model, const Options& options = {});

/// The same for tensors without modules. The same names with new tensors update the attachment.
DDPSCOPE_API Attachment attach_diagnostics(const NamedTensors& tensors,
                                           const Options& options = {});

namespace detail {
DDPSCOPE_API Attachment attach_shared(std::shared_ptr<torch::nn::Module> model,
                                      const Options& options);
}

/// The same for a module that a shared_ptr owns.
/// @throws SettingsError also if the pointer is null.
template <class M>
Attachment attach_diagnostics(const std::shared_ptr<M>& model, const Options& options = {}) {
  return detail::attach_shared(model, options);
}

/// The same for a module holder (`TORCH_MODULE`).
/// @throws SettingsError also if the holder is empty.
template <class M>
Attachment attach_diagnostics(const torch::nn::ModuleHolder<M>& model,
                              const Options& options = {}) {
  return detail::attach_shared(model.is_empty() ? nullptr : model.ptr(), options);
}

/// Marks the end of a training step in a program without a `torch::optim` optimizer. From the
/// first call on only these marks count as steps.
DDPSCOPE_API void step();

/// Names the user's own forward: while the object lives, operators of this thread belong to the
/// module, and the hooks of ddpscope/hooks.h see one call of it, without tensors.
class DDPSCOPE_API Scope {
 public:
  /// The module that is registered at this path, in a model that is attached or has a hook on all
  /// its modules. Nothing where there is none.
  explicit Scope(std::string_view module_path);
  /// This module: `ddpscope::Scope scope(*this);`
  explicit Scope(const torch::nn::Module& module);
  /// Throws what a hook after forward throws, where no other exception is on its way.
  ~Scope() noexcept(false);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

/// What was found so far on this rank, after the pending events were judged. Waits for that.
DDPSCOPE_API std::vector<Finding> findings();

/// Judges what is pending, writes and syncs the files. Waits for that.
DDPSCOPE_API Report flush();

/// Hands over a store for the comparison of ranks while they train, and says which rank of how many
/// this is; before the first attach, or the numbers count no more. Ranks whose report folder is not
/// that of rank 0 send over a clone of it what they note, unless the setting `exchange` is `files`
/// or `off`: at most 1 MiB per rank lies in the store, under keys that begin with `ddpscope/`. A
/// thread of ours makes all calls, and training waits for none. The store itself is not kept: who
/// serves it has to do so for as long as ranks train. The ranks have to be of one run:
/// `DDPSCOPE_RUN_ID` names it where the launcher does not.
/// @throws SettingsError if there is no store, or not 0 <= rank < world_size.
DDPSCOPE_API void set_exchange(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                               int world_size);

/// Version of the library, such as "0.1.0".
DDPSCOPE_API const char* version();
/// LibTorch version the library was built for, such as "2.11.0".
DDPSCOPE_API const char* built_for_torch();

}  // namespace api0
}  // namespace ddpscope

extern "C" {
/// Attaches `count` tensors: `tensors[i]` points to an `at::Tensor`. 0, or 1 after one line on
/// stderr that says what is wrong.
DDPSCOPE_API int ddpscope_attach_tensors(const char* const* names, const void* const* tensors,
                                         std::size_t count);
/// `ddpscope::step`, `flush` (returns the number of errors) and `version` for other languages.
DDPSCOPE_API void ddpscope_step(void);
DDPSCOPE_API std::int64_t ddpscope_flush(void);
DDPSCOPE_API const char* ddpscope_version(void);
}
