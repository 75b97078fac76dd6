#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "checks/byte_text.h"
#include "checks/check.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr double kHomeShare = 0.9;
constexpr std::int64_t kMuchForeignBytes = 64 << 20;

/// The device of nearly all registered bytes; "" if there is none.
std::string home_gpu(const RunState& state) {
  std::map<std::string, std::int64_t> bytes;
  std::int64_t all = 0;
  for (const auto& [id, model] : state.models()) {
    for (const RegisteredTensor& registered : model.tensors) {
      const std::int64_t of_tensor = bytes_of(registered.tensor);
      bytes[registered.tensor.device] += of_tensor;
      all += of_tensor;
    }
  }
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  if (most == bytes.end() || !most->first.starts_with("cuda:")) return "";
  const double share = static_cast<double>(most->second) / static_cast<double>(all);
  return share >= kHomeShare ? most->first : "";
}

/// device-foreign-allocation; docs/checks/device-foreign-allocation.md
class DeviceForeignAllocation final : public Check {
 public:
  void on_op(const OpEvent& event, const RunState&, Findings&) override {
    for (const TensorInfo& output : event.outputs) {
      if (output.device.starts_with("cuda:")) first_ops_.try_emplace(output.device, event.op);
    }
  }
  void on_archive_tensor(const ArchiveTensorEvent& event, const RunState&, Findings&) override {
    loaded_ |= event.at.step <= 1;
  }

  void on_device_memory(const DeviceMemoryEvent& event, const RunState& state,
                        Findings& findings) override {
    const bool is_first = !std::exchange(seen_, true);
    const std::string home = home_gpu(state);
    if (state.world_size() < 2 || home.empty() || is_declared(state)) return;
    for (const DeviceMemory& device : event.devices) {
      const std::string name = fmt::format("cuda:{}", device.index);
      const bool has_tensors = device.reserved_bytes >= kMuchForeignBytes;
      const bool was_freed = is_first && !has_tensors && device.peak_bytes >= kMuchForeignBytes;
      const bool has_context = device.has_context && device.reserved_bytes == 0 && !was_freed;
      if (name == home || !(has_tensors || was_freed || has_context)) continue;
      const std::string kind = has_context ? "context" : "tensor";
      if (!told_.insert(name + kind).second) continue;
      Finding finding = about(device, home, kind, is_first);
      if (const ModelState* model = state.first_model()) finding.model = model->label;
      finding.severity = was_freed ? Severity::kNote : Severity::kWarning;
      if (was_freed) finding.what += ", freed before the first step ended";
      findings.push_back(std::move(finding));
    }
  }

 private:
  static bool is_declared(const RunState& state) {
    return std::ranges::any_of(state.models(), [&](const auto& entry) {
      return state.declared(entry.first, "", "sharded");
    });
  }

  Finding about(const DeviceMemory& device, const std::string& home, const std::string& kind,
                bool is_first) const {
    const std::string name = fmt::format("cuda:{}", device.index);
    const bool tensors = kind == "tensor";
    const std::int64_t bytes = std::max(device.reserved_bytes, device.peak_bytes);
    Finding finding;
    finding.confidence = Confidence::kMedium;  // what other ranks hold there is not looked at
    finding.phase = is_first ? Phase::kInit : Phase::kForward;
    finding.subject = name;
    finding.what =
        tensors ? fmt::format("{} allocated on {}, home device {}", byte_text(bytes), name, home)
                : fmt::format("a context without tensors on {}, home device {}", name, home);
    finding.why = !tensors  ? "a call that needs a device was made while another one was current"
                  : loaded_ ? "an archive is read to the device it was saved from"
                            : "tensors were made on a device that the model is not on";
    finding.fixes = {
        {"c10::cuda::set_device(local_rank) before the process group is created", kLikely}};
    if (tensors) {
      finding.fixes.insert(finding.fixes.begin(),
                           {"torch::load(model, path, torch::kCPU), then to(device)", kLikely});
    } else {
      finding.fixes.push_back({"give the barrier its device", kLikely});
    }
    const auto op = first_ops_.find(name);
    finding.facts = {{fact::kHomeDevice, home},
                     {fact::kForeignDevice, name},
                     {fact::kBytesPerRank, tensors ? bytes : 0},
                     {fact::kPhase, std::string(is_first ? "init" : "forward")},
                     {fact::kFirstOp, op == first_ops_.end() ? "" : op->second},
                     {fact::kKind, kind}};
    return finding;
  }

  std::map<std::string, std::string> first_ops_;
  std::set<std::string> told_;
  bool loaded_ = false;
  bool seen_ = false;
};
}  // namespace

std::unique_ptr<Check> make_device_foreign_allocation() {
  return std::make_unique<DeviceForeignAllocation>();
}

}  // namespace ddpscope
