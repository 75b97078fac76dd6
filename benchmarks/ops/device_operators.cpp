// The kernels of the operators on a GPU beside a copy in the same run: batch norm of one rank, and
// clipping. Needs no LibTorch. All ways of one case take turns, 10 to warm up, then medians with
// the 10th and 90th per cent.
//   device_operators [<turns>]
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "benchmarks/ops/device_timing.h"
#include "ops/clip/cuda/blocks.h"
#include "ops/device/kernels.h"

namespace {

using namespace ddpscope::benchmark;
using namespace ddpscope::cuda;

void must(int launched) { check(static_cast<cudaError_t>(launched), "a launch"); }

struct Layer {
  const char* name;
  std::int64_t batch, channels, plane;
};
constexpr Layer kLayers[] = {{"64 x 64 x 112^2", 64, 64, 112 * 112},
                             {"64 x 256 x 56^2", 64, 256, 56 * 56},
                             {"64 x 64 x 56^2", 64, 64, 56 * 56},
                             {"64 x 128 x 28^2", 64, 128, 28 * 28},
                             {"64 x 256 x 14^2", 64, 256, 14 * 14},
                             {"64 x 512 x 7^2", 64, 512, 7 * 7},
                             {"64 x 2048 x 7^2", 64, 2048, 7 * 7},
                             {"4 x 256 x 129^2", 4, 256, 129 * 129},
                             {"4 x 256 x 1", 4, 256, 1},
                             {"4096 x 1024", 4096, 1024, 1}};

/// One batch norm with memory of its own.
struct Norm {
  Norm(const NormView& of, std::int64_t bytes)
      : view(of),
        x(device_numbers(bytes, of.kind == ScalarKind::kFloat)),
        y(device_numbers(bytes, of.kind == ScalarKind::kFloat)),
        dx(device_memory(bytes, 0)),
        numbers(device_memory(16 * (of.channels + 1) * 8, 0)),
        partials(device_memory(norm_workspace_items(of) * 8, 0)),
        tickets(device_memory(norm_tickets(of) * 4, 0)) {}

  double* at(std::int64_t place) const {
    return static_cast<double*>(numbers.get()) + place * (view.channels + 1);
  }
  Workspace workspace() const {
    return {static_cast<double*>(partials.get()), static_cast<unsigned*>(tickets.get())};
  }
  void statistics(cudaStream_t stream) const {
    must(launch_stats({.view = view, .x = x.get(), .record = at(0), .workspace = workspace()},
                      stream));
  }
  void normalize(cudaStream_t stream) const {
    must(launch_normalize({.view = view,
                           .x = x.get(),
                           .y = y.get(),
                           .records = at(0),
                           .statistics = at(3),
                           .eps = 1e-5,
                           .tickets = workspace().tickets},
                          stream));
  }
  void sums(cudaStream_t stream) const {
    must(launch_reduce({.view = view,
                        .x = x.get(),
                        .dy = y.get(),
                        .statistics = at(3),
                        .record = at(6),
                        .own = at(9),
                        .workspace = workspace()},
                       stream));
  }
  void gradient(cudaStream_t stream) const {
    must(launch_grad_input({.view = view,
                            .x = x.get(),
                            .dy = y.get(),
                            .dx = dx.get(),
                            .statistics = at(3),
                            .records = at(6),
                            .total = at(11)},
                           stream));
  }

  NormView view;
  DeviceMemory x, y, dx, numbers, partials, tickets;
};

Way copy_of(const DeviceMemory& from, const DeviceMemory& to, std::int64_t bytes) {
  return {
      "copy", 2.0 * static_cast<double>(bytes), [=](cudaStream_t stream) {
        DDPSCOPE_CUDA_CALL(cudaMemcpyAsync(to.get(), from.get(), static_cast<std::size_t>(bytes),
                                           cudaMemcpyDeviceToDevice, stream));
      }};
}

void compare_norm(const Layer& layer, ScalarKind kind, NormLayout layout, Turns& turns,
                  cudaStream_t stream) {
  const NormView view = {.kind = kind,
                         .layout = layout,
                         .batch = layer.batch,
                         .channels = layer.channels,
                         .plane = layer.plane};
  const std::int64_t bytes = view.values() * view.channels * bytes_of(kind);
  const auto norm = std::make_shared<Norm>(view, bytes);
  const auto moved = static_cast<double>(bytes);
  const auto way = [&](const char* name, double tensors, auto queue) {
    return Way{name, tensors * moved, [norm, queue](cudaStream_t on) { queue(*norm, on); }};
  };
  const Way forward = way("forward", 3, [](const Norm& of, cudaStream_t on) {
    of.statistics(on);
    of.normalize(on);
  });
  const Way backward = way("backward", 5, [](const Norm& of, cudaStream_t on) {
    of.sums(on);
    of.gradient(on);
  });
  forward.queue(stream);  // what the backward reads
  const auto step = [&](const char* name, double tensors, void (Norm::*queue)(cudaStream_t) const) {
    return way(name, tensors, [queue](const Norm& of, cudaStream_t on) { (of.*queue)(on); });
  };
  const char* const of_layout = layout == NormLayout::kPlanes ? "NCHW" : "channels-last";
  const char* const of_kind = kind == ScalarKind::kFloat ? "float" : "bfloat16";
  turns.measure(std::string(layer.name) + " " + of_layout + " " + of_kind,
                {copy_of(norm->x, norm->y, bytes), step("statistics", 1, &Norm::statistics),
                 step("normalize", 2, &Norm::normalize), step("sums", 2, &Norm::sums),
                 step("gradient", 3, &Norm::gradient), forward, backward, as_graph(forward, stream),
                 as_graph(backward, stream)});
}

struct List {
  const char* name;
  std::int64_t tensors, elements;  // of each
};
constexpr List kLists[] = {{"ResNet-18, 62 x 188,540", 62, 188'540},
                           {"ResNet-50, 161 x 158,739", 161, 158'739},
                           {"ViT-L/16, 296 x 1,028,124", 296, 1'028'124},
                           {"GPT-2 medium, 292 x 1,215,147", 292, 1'215'147},
                           {"many small, 10,000 x 64", 10'000, 64}};

/// One list with memory of its own.
struct Clip {
  Clip(const List& list, ScalarKind kind)
      : bytes_each(list.elements * bytes_of(kind)),
        memory(device_numbers(list.tensors * bytes_each, kind == ScalarKind::kFloat)),
        copied(device_memory(list.tensors * bytes_each, 0)),
        tickets(device_memory(4 * (1 + list.tensors), 0)) {
    for (std::int64_t i = 0; i < list.tensors; ++i) {
      rows.push_back({.data = static_cast<char*>(memory.get()) + i * bytes_each,
                      .elements = list.elements,
                      .kind = kind});
    }
    layout.rows = list.tensors;
    sums = device_memory((layout.rows + clip_parts(rows)) * static_cast<int>(sizeof(ClipSums)), 0);
    result = device_memory(layout.items() * 8, 0);
    const float unscale = std::nextafter(1.0F, 2.0F);  // all is written, and stays the same
    DDPSCOPE_CUDA_CALL(cudaMemcpy(scale.get(), &unscale, sizeof unscale, cudaMemcpyHostToDevice));
    if (rows.size() > kRowsOfArguments) make_listing();
  }
  /// As the operator does with long lists, of which it sends a copy each time.
  void make_listing() {
    const std::vector<std::byte> bytes = pack_listing(rows, listing);
    listing_bytes = bytes.size();
    DDPSCOPE_CUDA_CALL(cudaMallocHost(&staged, listing_bytes));  // until the process ends
    std::memcpy(staged, bytes.data(), listing_bytes);
    listed = device_memory(static_cast<std::int64_t>(listing_bytes), 0);
    place_listing(listed.get(), listing);
  }
  void norm(double max_norm, bool unscales, cudaStream_t stream) const {
    if (staged != nullptr) {
      DDPSCOPE_CUDA_CALL(
          cudaMemcpyAsync(listed.get(), staged, listing_bytes, cudaMemcpyHostToDevice, stream));
    }
    auto* const of_rows = static_cast<ClipSums*>(sums.get());
    const auto* const unscale = static_cast<const float*>(scale.get());
    must(launch_clip_norm({.rows = rows,
                           .listing = listing,
                           .rule = {.max_norm = max_norm,
                                    .eps = 1e-6,
                                    .unscales = unscales,
                                    .inverse_scale = unscales ? unscale : nullptr},
                           .layout = layout,
                           .buffers = {.rows = of_rows,
                                       .parts = of_rows + layout.rows,
                                       .tickets = static_cast<unsigned*>(tickets.get()),
                                       .result = static_cast<double*>(result.get())}},
                          stream));
  }
  void write(cudaStream_t stream) const {
    must(launch_clip_write(
        {.rows = rows,
         .listing = listing,
         .sums = static_cast<const ClipSums*>(sums.get()),
         .factor = static_cast<const double*>(result.get()) + ClipLayout::kFactor},
        stream));
  }

  std::int64_t bytes_each;
  DeviceMemory memory, copied, sums, result, tickets, listed;
  DeviceMemory scale = device_memory(4, 0);
  std::vector<ClipRow> rows;
  ClipLayout layout;
  ClipListing listing;
  void* staged = nullptr;
  std::size_t listing_bytes = 0;
};

void compare_clip(const List& list, ScalarKind kind, Turns& turns, cudaStream_t stream) {
  const auto clip = std::make_shared<Clip>(list, kind);
  const std::int64_t bytes = list.tensors * clip->bytes_each;
  const auto moved = static_cast<double>(bytes);
  const Way norm = {"norm only", moved,
                    [clip](cudaStream_t on) { clip->norm(HUGE_VAL, false, on); }};
  const Way within = {"norm, factor 1", moved, [clip](cudaStream_t on) {
                        clip->norm(1e9, false, on);
                        clip->write(on);
                      }};
  const Way scaled = {"unscale, norm + scale", 3 * moved, [clip](cudaStream_t on) {
                        clip->norm(1e9, true, on);
                        clip->write(on);
                      }};
  turns.measure(
      std::string(list.name) + (kind == ScalarKind::kFloat ? " float" : " bfloat16"),
      {copy_of(clip->memory, clip->copied, bytes), norm, within, scaled, as_graph(scaled, stream)});
}

void compare_all(int number) {
  cudaStream_t stream = nullptr;
  DDPSCOPE_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaDeviceProp device = {};
  DDPSCOPE_CUDA_CALL(cudaGetDeviceProperties(&device, 0));
  std::printf("%s, %d turns; bytes are those that must move: 3 tensors forward, 5 backward\n",
              device.name, number);
  Turns turns(stream, number);
  for (const ScalarKind kind : {ScalarKind::kBFloat16, ScalarKind::kFloat}) {
    for (const Layer& layer : kLayers) {
      if (layer.plane > 1) compare_norm(layer, kind, NormLayout::kPlanes, turns, stream);
      compare_norm(layer, kind, NormLayout::kRows, turns, stream);
    }
    for (const List& list : kLists) compare_clip(list, kind, turns, stream);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: there is no CUDA device\n");
    return 77;
  }
  compare_all(argc > 1 ? std::atoi(argv[1]) : 50);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "device_operators: %s\n", error.what());
  return 1;
}
