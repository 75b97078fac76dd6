#include <ddpscope/ops/sync_batch_norm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <map>
#include <set>
#include <typeinfo>

namespace ddpscope {
namespace {
using ModulePtr = std::shared_ptr<torch::nn::Module>;

bool is_batch_norm(const torch::nn::Module& module) {
  return typeid(module) == typeid(torch::nn::BatchNorm1dImpl) ||
         typeid(module) == typeid(torch::nn::BatchNorm2dImpl) ||
         typeid(module) == typeid(torch::nn::BatchNorm3dImpl);
}

bool derives_from_batch_norm(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module) != nullptr;
}

class Converter {
 public:
  Converter(CommunicatorPtr communicator, const std::string& name)
      : communicator_(std::move(communicator)), before_path_(name.empty() ? name : name + ".") {}

  /// Notes those whose type somebody else relies on: not even a Sequential that shares them may
  /// hold another module in their place.
  void find_typed(const torch::nn::Module& parent) {
    const bool is_sequence = dynamic_cast<const torch::nn::SequentialImpl*>(&parent) != nullptr;
    for (const auto& child : parent.named_children()) {
      if (!is_sequence) typed_.insert(child.value().get());
      find_typed(*child.value());
    }
  }

  void convert_below(torch::nn::Module& parent, const std::string& path) {
    auto* const sequence = dynamic_cast<torch::nn::SequentialImpl*>(&parent);
    for (const auto& child : parent.named_children()) {
      const std::string name = path.empty() ? child.key() : path + "." + child.key();
      if (is_batch_norm(*child.value())) {
        convert(sequence, child.key(), child.value(), name);
      } else {
        if (derives_from_batch_norm(*child.value())) {
          leave(name,
                "its class derives from a batch norm of torch::nn and may do more: derive it "
                "from the ddpscope::SyncBatchNorm of as many dimensions");
        }
        convert_below(*child.value(), name);
      }
    }
  }

  void leave(const std::string& name, const char* why) {
    report.not_converted.emplace_back(name, why);
  }

  ConversionReport report;

 private:
  void convert(torch::nn::SequentialImpl* sequence, const std::string& key, const ModulePtr& norm,
               const std::string& name) {
    if (sequence == nullptr || typed_.count(norm.get()) != 0) {
      leave(name,
            "a member or a container holds it by its type: declare a "
            "ddpscope::SyncBatchNorm of as many dimensions there");
      return;
    }
    for (torch::nn::AnyModule& element : *sequence) {
      if (element.ptr() != norm) continue;
      const auto made = made_.try_emplace(norm, torch::nn::AnyModule()).first;
      if (made->second.is_empty()) made->second = make(norm, name);
      element = made->second;
      sequence->replace_module(key, element.ptr());
      report.converted.push_back(name);
      return;
    }
    leave(name, "it is registered in a torch::nn::Sequential, but is none of its elements");
  }

  torch::nn::AnyModule make(const ModulePtr& norm, const std::string& name) const {
    if (typeid(*norm) == typeid(torch::nn::BatchNorm1dImpl)) {
      return make_from<SyncBatchNorm1dImpl, torch::nn::BatchNorm1dImpl>(norm, name);
    }
    if (typeid(*norm) == typeid(torch::nn::BatchNorm2dImpl)) {
      return make_from<SyncBatchNorm2dImpl, torch::nn::BatchNorm2dImpl>(norm, name);
    }
    return make_from<SyncBatchNorm3dImpl, torch::nn::BatchNorm3dImpl>(norm, name);
  }

  template <class Sync, class Norm>
  torch::nn::AnyModule make_from(const ModulePtr& norm, const std::string& name) const {
    const auto& options = static_cast<const Norm&>(*norm).options;
    return torch::nn::AnyModule(
        std::make_shared<Sync>(options, communicator_, before_path_ + name, *norm));
  }

  CommunicatorPtr communicator_;
  std::string before_path_;
  std::set<const torch::nn::Module*> typed_;
  std::map<ModulePtr, torch::nn::AnyModule> made_;  // one that is used twice stays one
};

}  // namespace

inline namespace api0 {

ConversionReport convert_sync_batch_norm(torch::nn::Module& module,
                                         const CommunicatorPtr& communicator,
                                         const std::string& name) {
  Converter converter(communicator, name);
  if (is_batch_norm(module)) {
    converter.leave("", "it is the module that was given, whose holder relies on its type");
  }
  converter.find_typed(module);
  converter.convert_below(module, "");
  return std::move(converter.report);
}

}  // namespace api0
}  // namespace ddpscope
