#include "hooks/returned_gradients.h"

#include <c10/core/GradMode.h>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/optimizer_watch.h"
#include "hooks/survey_outputs.h"
#include "model/returned_gradients.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMost = 16;  // who asks for more asks for those of parameters
}

void tell_returned_gradients(const torch::autograd::variable_list& gradients) noexcept {
  if (gradients.empty() || gradients.size() > kMost) return;
  if (inside_backward() || inside_optimizer_step()) return;
  as_guest("graph", [&](Capture& capture) {
    if (!capture.marker().surveying()) return;
    OpEvent event{.at = capture.marker().now(),
                  .op = kReturnedGradients,
                  .module = ModuleCalls::innermost(),
                  .grad_mode = c10::GradMode::is_enabled()};
    SurveyOutputs& outputs = SurveyOutputs::here();
    outputs.begin_step_if_new(event.at.step);
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined() || gradient.requires_grad()) continue;
      TensorSlot& slot = capture.tensors().slot(gradient);
      slot.announced = true;  // the event tells it
      slot.computed = true;
      event.outputs.push_back(describe(gradient, slot.id));
      outputs.add(gradient, slot.id);
    }
    if (event.outputs.empty()) return;
    event.stack = doing_now(capture).stack;
    capture.put_large(std::move(event));
  });
}

}  // namespace ddpscope
