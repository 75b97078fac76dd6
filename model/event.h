#pragma once

#include <memory>
#include <variant>

#include "model/archive_event.h"
#include "model/autograd_event.h"
#include "model/backward_event.h"
#include "model/collective_event.h"
#include "model/count_event.h"
#include "model/device_event.h"
#include "model/device_memory_event.h"
#include "model/error_event.h"
#include "model/hook_event.h"
#include "model/op_event.h"
#include "model/optimizer_event.h"
#include "model/range_event.h"
#include "model/reducer_event.h"
#include "model/reduction_event.h"
#include "model/scale_event.h"
#include "model/step_event.h"
#include "model/tree_event.h"
#include "model/update_event.h"
#include "model/value_event.h"
#include "model/wait_event.h"

namespace ddpscope {

/// Events with text or lists travel by pointer, so that a slot of the queue stays small.
using Event = std::variant<
    std::monostate, GradientEvent, OptimizerStepEvent, ZeroGradEvent, CycleEndEvent,
    OptimizerCreatedEvent, BackwardEndEvent, ExitEvent, DroppedEvent, TreeEndEvent,
    QuietBufferEvent, std::unique_ptr<TreeEvent>, std::unique_ptr<LooseModuleEvent>,
    std::unique_ptr<DeclarationEvent>, std::unique_ptr<TensorEvent>, std::unique_ptr<OpEvent>,
    std::unique_ptr<BackwardEvent>, std::unique_ptr<OptimizerMembersEvent>,
    std::unique_ptr<ErrorEvent>, std::unique_ptr<OperatorFailedEvent>,
    std::unique_ptr<TrainingOpEvent>, std::unique_ptr<ZeroGradientsEvent>,
    std::unique_ptr<ArchiveTensorEvent>, std::unique_ptr<HookRefusedEvent>,
    std::unique_ptr<StaleSavedEvent>, std::unique_ptr<FailedWriteEvent>,
    std::unique_ptr<GraphFreedEvent>, std::unique_ptr<NestedBackwardEvent>, LossEvent,
    HalfOutputEvent, std::unique_ptr<NonfiniteOutputEvent>, std::unique_ptr<NonfiniteGradientEvent>,
    std::unique_ptr<NonfiniteNodeEvent>, std::unique_ptr<RiskyInputEvent>,
    std::unique_ptr<GradientValuesEvent>, std::unique_ptr<OutOfRangeEvent>,
    std::unique_ptr<LossInputEvent>, std::unique_ptr<GradientsScaledEvent>,
    std::unique_ptr<ParameterUpdatesEvent>, StepWaitEvent, std::unique_ptr<HostCountsEvent>,
    std::unique_ptr<KeptOutputsEvent>, std::unique_ptr<ConvolutionShapeEvent>,
    std::unique_ptr<DeviceWaitsEvent>, ValuesAwaitedEvent, std::unique_ptr<DeviceValuesEvent>,
    ScaledCopyEvent, std::unique_ptr<GradientsRepairedEvent>, std::unique_ptr<SpoiltStepEvent>,
    std::unique_ptr<GradientsSpoiltEvent>, std::unique_ptr<CollectiveEvent>,
    std::unique_ptr<PendingUseEvent>, CollectiveEndEvent, OptimizerStateEvent, StepEndEvent,
    RestedStepEvent, EvaluationEvent, BatchRequestEvent, std::unique_ptr<TensorBitsEvent>,
    std::unique_ptr<OptimizerRatesEvent>, std::unique_ptr<DeviceMemoryEvent>,
    std::unique_ptr<ReducerEvent>, std::unique_ptr<ReducedGradientsEvent>,
    std::unique_ptr<BatchEvent>, RandomStateEvent, std::unique_ptr<LossTargetsEvent>,
    std::unique_ptr<JudgedOutputEvent>>;

}  // namespace ddpscope
