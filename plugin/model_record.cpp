#include "plugin/model_record.h"

#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "model/hash.h"

namespace ddpscope {
namespace {
class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) hash_.fold(static_cast<unsigned char>(c));
    hash_.fold(0xff);  // not a byte of UTF-8: ends the text
  }
  void add(std::int64_t number) { add(std::to_string(number)); }
  std::string hex() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_.value()));
    return text;
  }

 private:
  Hash hash_;
};
}  // namespace

ModelRecord model_record(const TreeEvent& tree) {
  ModelRecord record{.name = tree.label,
                     .class_name = tree.class_name,
                     .modules = static_cast<std::int64_t>(tree.modules.size())};
  Digest digest;
  std::set<TensorId> counted;
  for (const RegisteredTensor& registered : tree.tensors) {
    const TensorInfo& tensor = registered.tensor;
    digest.add(registered.module_path);
    digest.add(registered.name);
    digest.add(tensor.dtype);
    for (const std::int64_t size : tensor.shape) digest.add(size);
    if (registered.is_buffer) {
      ++record.buffers;
      continue;
    }
    ++record.parameters;
    if (tensor.requires_grad) ++record.trainable;
    if (counted.insert(tensor.id).second) record.elements += tensor.elements;
  }
  record.digest = digest.hex();
  return record;
}

std::vector<ModuleRecord> module_records(const TreeEvent& tree) {
  std::vector<ModuleRecord> records;
  std::map<std::string_view, std::size_t> places;
  for (const ModuleInfo& module : tree.modules) {
    if (records.size() == kNamedModules) break;
    places.emplace(module.path, records.size());
    records.push_back({.path = module.path, .class_name = module.type});
  }
  for (const RegisteredTensor& registered : tree.tensors) {
    const auto place = places.find(registered.module_path);
    if (place == places.end() || registered.is_buffer) continue;
    ModuleRecord& module = records[place->second];
    ++module.parameters;
    if (registered.tensor.requires_grad) ++module.trainable;
    module.elements += registered.tensor.elements;
  }
  return records;
}

}  // namespace ddpscope
