// Inner headers first: behind the public one their type names would be ambiguous.
// clang-format off
#include "config/env.h"
#include "plugin/exchange_store.h"
#include "plugin/held_signals.h"
#include "plugin/session.h"
#include "plugin/sync_norms.h"
#include "hooks/autograd_watch.h"
#include "hooks/model_discovery.h"
#include "hooks/optimizer_watch.h"
#include "plugin/public_findings.h"
// clang-format on

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ddpscope {
namespace {
constexpr const char* kPublicApi = "public API";

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "1" : "0"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

OptionTexts texts_of(const api0::Options& options) {
  OptionTexts texts;
  const auto add = [&texts](const char* key, const auto& value) {
    if (value.has_value()) texts.emplace_back(key, text_of(*value));
  };
#define DDPSCOPE_SETTING(key, member, type, default_value, help) add(key, options.member);
#include "config/settings.def"
#undef DDPSCOPE_SETTING
  for (const auto& [key, value] : options.check_options) {
    const bool names_check = key.find('.') != std::string::npos;
    texts.emplace_back(names_check ? key : key + ".", value);  // the others are members
  }
  return texts;
}

// In a shipped binary nothing is read, not even the options.
bool is_dormant() {
  return Session::running() == nullptr && environment("DDPSCOPE").value_or("").empty();
}

// The running session, started when this is the first attach; null when diagnostics are off.
Session* session_for(const api0::Options& options) {
  try {
    const bool dormant_by_default = options.activation == Activation::kEnvironment;
    if (dormant_by_default && is_dormant()) return nullptr;
    return Session::start(texts_of(options), dormant_by_default) ? Session::running() : nullptr;
  } catch (const SettingsFault& fault) {
    throw api0::SettingsError(fault.message);
  }
}

const char* word_of(api0::Declaration declaration) {
  switch (declaration) {
    case api0::Declaration::kExternal:
      return "external";
    case api0::Declaration::kRankLocal:
      return "rank_local";
    case api0::Declaration::kSharded:
      return "sharded";
    case api0::Declaration::kSharedData:
      return "shared_data";
    case api0::Declaration::kNotAveraged:
      return "not_averaged";
    case api0::Declaration::kIntended:
      break;
  }
  return "intended";
}
}  // namespace

void throw_halt_error(const std::string& message) { throw api0::HaltError(message); }

inline namespace api0 {

struct AttachmentAccess {
  template <class Attach>
  static Attachment make(const Options& options, Attach&& attach) {
    Attachment attachment;
    stop_discovery();
    if (session_for(options) == nullptr) return attachment;
    as_guest(kPublicApi, [&](Capture& capture) {
      attachment.model_ = attach(capture);
      tell_early_optimizers(capture);  // after the tree: when they were built is not known
    });
    norms_attached();
    return attachment;
  }
};

namespace detail {
Attachment attach_shared(std::shared_ptr<torch::nn::Module> model, const Options& options) {
  if (model == nullptr) throw SettingsError("attach_diagnostics: the model is empty");
  return AttachmentAccess::make(options, [&](Capture& capture) {
    return capture.modules().attach(capture, std::move(model));
  });
}
}  // namespace detail

Attachment attach_diagnostics(torch::nn::Module& model, const Options& options) {
  return AttachmentAccess::make(
      options, [&](Capture& capture) { return capture.modules().attach(capture, model); });
}

Attachment attach_diagnostics(torch::jit::Module& model, const Options& options) {
  return AttachmentAccess::make(
      options, [&](Capture& capture) { return capture.modules().attach(capture, model); });
}

Attachment attach_diagnostics(const NamedTensors& tensors, const Options& options) {
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw SettingsError("attach_diagnostics: a tensor has no name");
    if (!tensor.defined()) {
      throw SettingsError("attach_diagnostics: tensor \"" + name + "\" is undefined");
    }
  }
  return AttachmentAccess::make(options, [&](Capture& capture) {
    return capture.modules().attach(capture, tensors, "tensors");
  });
}

Attachment& Attachment::name(std::string label) {
  as_guest(kPublicApi,
           [&](Capture& capture) { capture.modules().rename(capture, model_, std::move(label)); });
  return *this;
}

Attachment& Attachment::watch(torch::optim::Optimizer& optimizer, std::string name) {
  if (model_ != 0) watch_optimizer(optimizer, name);
  return *this;
}

Attachment& Attachment::watch_loss(const at::Tensor& loss) {
  if (model_ != 0) walk_loss(loss);
  return *this;
}

Attachment& Attachment::process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  as_guest(kPublicApi, [&](Capture& capture) {
    if (model_ == 0 || !group.defined()) return;
    capture.put_large(DeclarationEvent{.model = model_, .path_glob = "*", .kind = "averaged"});
  });
  if (model_ != 0 && group.defined()) set_group_of_norms(make_communicator(group));
  return *this;
}

Attachment& Attachment::declare(std::string_view path_glob, Declaration declaration) {
  as_guest(kPublicApi, [&](Capture& capture) {
    if (model_ == 0) return;
    capture.put_large(DeclarationEvent{
        .model = model_, .path_glob = std::string(path_glob), .kind = word_of(declaration)});
  });
  return *this;
}

void Attachment::detach() {
  const std::uint64_t model = std::exchange(model_, 0);
  as_guest(kPublicApi, [&](Capture& capture) {
    if (model != 0) capture.modules().detach(capture, model);
  });
  if (model != 0) norms_detached();
}

void step() {
  as_guest(kPublicApi, [](Capture& capture) {
    const Stamp now = capture.marker().now();
    capture.clock_moved(now, capture.marker().marked());
  });
}

std::vector<Finding> findings() { return public_findings(); }

Report flush() {
  Session* session = Session::running();
  if (session == nullptr) return {};
  const HeldSignals held;
  session->drain();
  const auto counts = session->worker().counts();
  return {.errors = counts[2],
          .warnings = counts[1],
          .notes = counts[0],
          .files = session->worker().files()};
}

void set_exchange(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size) {
  if (!store.defined() || world_size < 1 || rank < 0 || rank >= world_size) {
    throw SettingsError("set_exchange: rank " + std::to_string(rank) + " of " +
                        std::to_string(world_size) + " needs a store and 0 <= rank < world_size");
  }
  override_ranks(rank, world_size);
  give_exchange_store(store);
  Session* session = Session::running();
  if (session != nullptr && !session->worker().start_exchange()) give_exchange_store({});
}

const char* version() { return DDPSCOPE_VERSION; }
const char* built_for_torch() { return TORCH_VERSION; }

}  // namespace api0
}  // namespace ddpscope

extern "C" {
int ddpscope_attach_tensors(const char* const* names, const void* const* tensors,
                            std::size_t count) {
  try {
    if (count > 0 && (names == nullptr || tensors == nullptr)) {
      throw ddpscope::api0::SettingsError("ddpscope_attach_tensors: a list is null");
    }
    ddpscope::api0::NamedTensors named;
    for (std::size_t i = 0; i < count; ++i) {
      const auto* tensor = static_cast<const at::Tensor*>(tensors[i]);
      named.emplace_back(names[i] != nullptr ? names[i] : "",
                         tensor != nullptr ? *tensor : at::Tensor());
    }
    ddpscope::api0::attach_diagnostics(named);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddpscope: error: %s\n", error.what());
    return 1;
  }
}
void ddpscope_step(void) { ddpscope::api0::step(); }
std::int64_t ddpscope_flush(void) { return ddpscope::api0::flush().errors; }
const char* ddpscope_version(void) { return DDPSCOPE_VERSION; }
}
