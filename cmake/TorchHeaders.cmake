# <torch/torch.h> takes half a minute to read and 700 MB as a precompiled header: what reads it
# whole, samples and user programs of the tests, shares one, and with it these options.
file(WRITE ${PROJECT_BINARY_DIR}/torch_headers.cpp "")
add_library(ddpscope_torch_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/torch_headers.cpp)
target_link_libraries(ddpscope_torch_headers PRIVATE ddpscope_build ddpscope::torch_cpu)
# Reports name lines; what is tested so with -O1 is tested with -O2 by setting this.
set(DDPSCOPE_PROGRAM_OPTIONS "-g1;$<$<CONFIG:Release>:-O1>" CACHE STRING
  "How samples and the programs of the tests are compiled, such as -O2;-g")
target_compile_options(ddpscope_torch_headers PRIVATE ${DDPSCOPE_PROGRAM_OPTIONS})
target_precompile_headers(ddpscope_torch_headers PRIVATE <torch/torch.h>)

# ddpscope_read_torch_headers(<target>)
# The target is compiled as user programs are, with the shared header read first.
function(ddpscope_read_torch_headers target)
  target_compile_options(${target} PRIVATE ${DDPSCOPE_PROGRAM_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM ddpscope_torch_headers)
endfunction()

# What the library itself reads of LibTorch: one more header, compiled as a module is.
add_library(ddpscope_core_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/torch_headers.cpp)
set_target_properties(ddpscope_core_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(ddpscope_core_headers PRIVATE ddpscope_build ddpscope::torch_cpu)
target_compile_options(ddpscope_core_headers PRIVATE -UNDEBUG -DNDEBUG)
target_precompile_headers(ddpscope_core_headers PRIVATE <torch/nn/modules/container/sequential.h>)

# ddpscope_read_core_headers(<target>)
function(ddpscope_read_core_headers target)
  target_precompile_headers(${target} REUSE_FROM ddpscope_core_headers)
endfunction()
