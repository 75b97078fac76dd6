#include "hooks/saved_watch.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/graph_history.h"
#include "hooks/interposed.h"
#include "hooks/node_pointer.h"
#include "hooks/node_values.h"
#include "hooks/nonfinite_search.h"
#include "hooks/norm_nodes.h"
#include "hooks/step_wait.h"
#include "hooks/write_scope.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using torch::autograd::Node;
using torch::autograd::SavedVariable;

// An explicit instantiation may name a private member: the only way to the version at save.
template <class Tag, auto kMember>
struct Opened {
  friend auto member(Tag) { return kMember; }
};
struct Data {
  friend auto member(Data);
};
struct Version {
  friend auto member(Version);
};
template struct Opened<Data, &SavedVariable::data_>;
template struct Opened<Version, &SavedVariable::saved_version_>;

const at::Tensor& data_of(const SavedVariable& saved) { return saved.*member(Data{}); }

void note_node(Capture& capture, const NodeKey& node) {
  if (capture.nodes().has(node)) return;
  capture.nodes().put(node, {.next_write = capture.writes().next(), .by = doing_now(capture)});
}

bool reads_contents(Capture& capture) noexcept {
  return capture.options().values &&
         (capture.marker().surveying() || capture.contents().any_calls());
}

// The node that is being built: its number was the last one this thread gave out.
void note_saved(const at::Tensor& tensor) noexcept {
  StepWait::see_forward();
  if (!tensor.defined()) return;
  as_observer(
      "saved",
      [&tensor](Capture& capture) {
        const NodeKey node{.thread = at::RecordFunction::currentThreadId(),
                           .sequence = at::sequence_number::peek() - 1};
        note_node(capture, node);
        if (reads_contents(capture)) capture.contents().saves(capture, node, tensor);
      },
      Timed::kSampled);
}

struct Save;
using InterposedSave = Interposed<Save, void(SavedVariable*, const at::Tensor&, bool, bool)>;
void on_save(SavedVariable* self, const at::Tensor& tensor, bool is_output, bool in_place_on_view) {
  InterposedSave::original(self, tensor, is_output, in_place_on_view);
  note_saved(tensor);
}

struct SaveMaybe;
using InterposedSaveMaybe =
    Interposed<SaveMaybe, void(SavedVariable*, const std::optional<at::Tensor>&, bool, bool)>;
void on_save_maybe(SavedVariable* self, const std::optional<at::Tensor>& tensor, bool is_output,
                   bool in_place_on_view) {
  InterposedSaveMaybe::original(self, tensor, is_output, in_place_on_view);
  if (tensor.has_value()) note_saved(*tensor);
}

/// The first of some writes, and how many they are.
struct Writes {
  std::optional<Write> first;
  std::int64_t count = 0;
};

Writes writes_of(const WriteLog::Found& found) {
  if (!found.first.has_value()) return {};
  const auto op = static_cast<std::uint16_t>(found.first->op);
  return {.first = Write{.op = writer_base_name(op), .by = found.first->by.unpacked()},
          .count = found.writes};
}

Writes writes_of(const std::optional<CollectiveWrite>& write) {
  if (!write.has_value()) return {};
  const WritingCall call{.kind = static_cast<CollectiveKind>(write->kind), .seq = write->seq};
  return {.first = Write{.op = "", .by = write->by.unpacked(), .call = call}, .count = 1};
}

/// What is known of a saved tensor that backward asks for.
class Asked {
 public:
  Asked(Capture& capture, const SavedVariable& saved)
      : capture_(capture),
        saved_(saved),
        tensor_(data_of(saved)),
        saved_version_(saved.*member(Version{})),
        node_(torch::autograd::get_current_node()) {
    if (node_ != nullptr) birth_ = capture.nodes().find(key());
  }

  // Written by a newer hand, through a version counter that is not the saved tensor's, or past all.
  void find_hidden_write() const {
    if (!birth_.has_value()) return;
    const c10::TensorImpl& impl = *tensor_.unsafeGetTensorImpl();
    const std::uint64_t since = birth_->next_write;
    Writes writes;
    if (capture_.writes().last_hidden(impl) >= since) {
      writes = writes_of(capture_.writes().hidden_in(impl, since));
    }
    if (writes.count > 0) return tell(writes, /*silent=*/true);
    if (version_of(impl) != saved_version_) return;  // LibTorch raises its error
    const auto changed = capture_.contents().has_changed(key(), impl);
    if (changed.has_value() && (!*changed || is_only_checked(saved_, *node_))) return;
    writes = writes_of(capture_.contents().written(impl, since, /*changed=*/!changed.has_value()));
    if (changed.has_value() || writes.count > 0) tell(writes, /*silent=*/true);
  }

  void find_visible_write() const {
    if (node_ == nullptr) return;
    const c10::TensorImpl& impl = *tensor_.unsafeGetTensorImpl();
    if (version_of(impl) == saved_version_) return;
    const std::uint64_t since = since_birth();
    Writes writes = writes_of(capture_.writes().moved_beyond(impl, saved_version_, since));
    if (writes.count == 0) {
      writes = writes_of(capture_.contents().written(impl, since, /*changed=*/false));
    }
    tell(writes, /*silent=*/false);
  }

 private:
  NodeKey key() const { return {node_->thread_id(), node_->sequence_nr()}; }
  // Where hooks rested when the node was made, earlier writes were to what lay there before.
  std::uint64_t since_birth() const {
    return birth_.has_value() ? birth_->next_write : capture_.writes().watched_since();
  }

  void tell(const Writes& writes, bool silent) const {
    const std::uint64_t since = since_birth();
    const bool rested = writes.count == 0 && !silent && capture_.marker().has_rested();
    StaleSavedEvent event{
        .at = capture_.marker().now(),
        .node = node_->name(),
        .tensor = describe(tensor_, capture_.announce(tensor_)),
        .saved_version = saved_version_,
        .found_version = version_of(*tensor_.unsafeGetTensorImpl()),
        .silent = silent,
        .only_checked = is_only_checked(saved_, *node_),
        .after_forward = capture_.marker().inside_forward(),
        .writes_since_save = writes.count,
        .age_writes = static_cast<std::int64_t>(capture_.writes().next() - since),
        .writer_evicted = !rested && !silent && since < capture_.writes().oldest(),
        .rested = rested,
        .history = capture_.writes().history()};
    if (birth_.has_value()) event.saved = birth_->by.unpacked();
    event.writer = writes.first;
    capture_.put_large(std::move(event));
  }

  Capture& capture_;
  const SavedVariable& saved_;
  const at::Tensor& tensor_;
  std::uint32_t saved_version_;
  NodePointer node_;
  std::optional<NodeBirth> birth_;
};

// Sees an exception pass without catching it.
class FailedUnpacking {
 public:
  explicit FailedUnpacking(const SavedVariable& saved) noexcept : saved_(saved) {}
  ~FailedUnpacking() {
    if (!returned_) tell();
  }
  void returned() noexcept { returned_ = true; }
  FailedUnpacking(const FailedUnpacking&) = delete;
  FailedUnpacking& operator=(const FailedUnpacking&) = delete;

 private:
  void tell() const noexcept {
    as_guest("saved", [&](Capture& capture) {
      if (data_of(saved_).defined()) {
        Asked(capture, saved_).find_visible_write();
      } else if (const auto node = torch::autograd::get_current_node()) {
        note_freed(*node);
      }
    });
  }

  const SavedVariable& saved_;
  bool returned_ = false;
};

// Most saved tensors were never written so: those are told apart without a scope.
bool may_be_hidden(const SavedVariable& saved) noexcept {
  if (Capture::watch() == Watch::kNothing) return false;
  Capture* const capture = Capture::active();
  if (capture == nullptr) return false;
  const bool reads = reads_contents(*capture);
  if (!reads && !capture->writes().any_hidden()) return false;
  const at::Tensor& data = data_of(saved);
  return data.defined() &&
         (reads || capture->writes().last_hidden(*data.unsafeGetTensorImpl()) > 0);
}

struct Unpack;
using InterposedUnpack = Interposed<Unpack, at::Tensor(const SavedVariable*, NodePointer)>;
DDPSCOPE_HOT at::Tensor on_unpack_at_rest(const SavedVariable* self, NodePointer saved_for) {
  FailedUnpacking call(*self);
  at::Tensor saved = InterposedUnpack::original(self, std::move(saved_for));
  call.returned();
  return saved;
}

at::Tensor on_unpack(const SavedVariable* self, NodePointer saved_for) {
  if (may_be_hidden(*self)) {
    as_observer(
        "saved", [&](Capture& capture) { Asked(capture, *self).find_hidden_write(); },
        Timed::kSampled);
  }
  at::Tensor saved = on_unpack_at_rest(self, std::move(saved_for));
  if (NodeValues* values = NodeValues::here()) values->see_saved(saved);
  if (NonfiniteSearch* search = NonfiniteSearch::here()) {
    as_guest("value", [&](Capture&) { search->see(saved); });
  }
  return saved;
}
}  // namespace

void note_creation(const at::Tensor& tensor) noexcept {
  if (!tensor.defined()) return;
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr || meta->grad_fn_ == nullptr) return;
  const NodeKey node{.thread = meta->grad_fn_->thread_id(),
                     .sequence = meta->grad_fn_->sequence_nr()};
  as_guest("saved", [&](Capture& capture) { note_node(capture, node); });
}

bool install_saved_watch() noexcept {
  bool live = InterposedSave::install_for_watched(
      "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb", on_save);
  live &= InterposedSaveMaybe::install_for_watched(
      "_ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb", on_save_maybe);
  constexpr const char* kUnpack =
      kNodesAreShared
          ? "_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE"
          : "_ZNK5torch8autograd13SavedVariable6unpackEN3c1013intrusive_ptrINS0_4NodeENS2_6detail34"
            "intrusive_target_default_null_typeIS4_EEEE";
  live &= InterposedUnpack::install_for_watched(kUnpack, on_unpack, on_unpack_at_rest);
  return live;
}

}  // namespace ddpscope
