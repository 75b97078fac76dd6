# Finds LibTorch, unpacked from a zip or from a wheel, built for the CPU or for CUDA. It reads the
# folder itself: TorchConfig needs nvcc for a CUDA build, changes CMAKE_CUDA_FLAGS and puts
# libtorch_cuda on every link line.
#
# Looked at, in this order: the targets of the caller's own find_package(Torch); DDPSCOPE_TORCH_DIR
# (variable, then environment: the folder with include/ and lib/); Torch_DIR; CMAKE_PREFIX_PATH;
# <project>/.deps/*/torch.
#
# Targets: ddpscope::c10, ddpscope::torch_cpu and, where the libraries exist, ddpscope::c10_cuda,
# ddpscope::torch_cuda. Variables: DdpscopeTorch_FOUND, DdpscopeTorch_VERSION, DdpscopeTorch_ROOT.
include(FindPackageHandleStandardArgs)

function(_ddpscope_torch_of_targets out)
  foreach(target torch_cpu torch)
    if(TARGET ${target})
      get_target_property(type ${target} TYPE)
      get_target_property(imported ${target} IMPORTED)
      if(imported AND NOT type STREQUAL "INTERFACE_LIBRARY")
        get_target_property(location ${target} LOCATION)
        get_filename_component(root "${location}/../.." ABSOLUTE)
        set(${out} ${root} PARENT_SCOPE)
        return()
      endif()
      get_target_property(includes ${target} INTERFACE_INCLUDE_DIRECTORIES)
      foreach(folder IN LISTS includes)
        if(EXISTS "${folder}/ATen/ATen.h")
          get_filename_component(root "${folder}/.." ABSOLUTE)
          set(${out} ${root} PARENT_SCOPE)
          return()
        endif()
      endforeach()
    endif()
  endforeach()
endfunction()

# The first folder of the list that holds LibTorch itself, in torch/ or in libtorch/.
function(_ddpscope_torch_of_folders out)
  foreach(folder IN LISTS ARGN)
    foreach(inside "" /torch /libtorch)
      if(EXISTS "${folder}${inside}/include/ATen/ATen.h")
        get_filename_component(root "${folder}${inside}" ABSOLUTE)
        set(${out} ${root} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

function(_ddpscope_torch_version out root)
  foreach(header headeronly/version.h version.h csrc/api/include/torch/version.h)
    set(path ${root}/include/torch/${header})
    if(EXISTS ${path})
      file(STRINGS ${path} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      list(LENGTH numbers count)
      if(count EQUAL 3)
        string(REPLACE ";" "." version "${numbers}")
        set(${out} ${version} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# What the binaries were built with: USE_* of the exported targets and, before 2.7, the string ABI.
function(_ddpscope_torch_definitions out root)
  set(definitions "")
  if(EXISTS ${root}/share/cmake/Caffe2/Caffe2Targets.cmake)
    file(STRINGS ${root}/share/cmake/Caffe2/Caffe2Targets.cmake lines
         REGEX "INTERFACE_COMPILE_DEFINITIONS.*USE_")
    string(REGEX MATCHALL "USE_[A-Z0-9_]+" definitions "${lines}")
  endif()
  if(EXISTS ${root}/share/cmake/Torch/TorchConfig.cmake)
    file(STRINGS ${root}/share/cmake/Torch/TorchConfig.cmake lines
         REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
    string(REGEX MATCH "_GLIBCXX_USE_CXX11_ABI=[01]" abi "${lines}")
    list(APPEND definitions ${abi})
  endif()
  list(REMOVE_DUPLICATES definitions)
  set(${out} "${definitions}" PARENT_SCOPE)
endfunction()

function(_ddpscope_torch_add_targets root definitions)
  set(cuda_definitions ${definitions})
  list(FILTER cuda_definitions INCLUDE REGEX "NCCL|NVSHMEM|UCC")
  list(FILTER definitions EXCLUDE REGEX "NCCL|NVSHMEM|UCC")
  set(needs_torch_cpu ddpscope::c10)
  set(needs_c10_cuda ddpscope::c10)
  set(needs_torch_cuda ddpscope::torch_cpu ddpscope::c10_cuda)
  set(includes ${root}/include ${root}/include/torch/csrc/api/include)
  foreach(library c10 torch_cpu c10_cuda torch_cuda)
    set(path ${root}/lib/lib${library}.so)
    if(EXISTS ${path} AND NOT TARGET ddpscope::${library})
      add_library(ddpscope::${library} SHARED IMPORTED GLOBAL)
      set_target_properties(ddpscope::${library} PROPERTIES
        IMPORTED_LOCATION ${path}
        IMPORTED_SONAME lib${library}.so
        INTERFACE_INCLUDE_DIRECTORIES "${includes}"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${includes}"
        INTERFACE_COMPILE_DEFINITIONS "${definitions}"
        INTERFACE_LINK_LIBRARIES "${needs_${library}}")
    endif()
  endforeach()
  if(TARGET ddpscope::torch_cuda)
    set_property(TARGET ddpscope::torch_cuda APPEND PROPERTY
      INTERFACE_COMPILE_DEFINITIONS ${cuda_definitions})
  endif()
endfunction()

set(DdpscopeTorch_ROOT "")
set(DdpscopeTorch_VERSION "")
_ddpscope_torch_of_targets(DdpscopeTorch_ROOT)
if(NOT DdpscopeTorch_ROOT)
  # Kept in the cache: a later configuration without the environment variable finds the same one.
  # A variable of the caller's would be lost below policy version 3.21.
  if(NOT DDPSCOPE_TORCH_DIR)
    set(DDPSCOPE_TORCH_DIR "$ENV{DDPSCOPE_TORCH_DIR}" CACHE PATH "The LibTorch folder")
  endif()
  set(_ddpscope_folders ${DDPSCOPE_TORCH_DIR})
  # A folder that was named and holds no LibTorch is an error, never silently another LibTorch.
  if(NOT DDPSCOPE_TORCH_DIR)
    if(Torch_DIR)
      list(APPEND _ddpscope_folders ${Torch_DIR}/../../..)
    endif()
    list(APPEND _ddpscope_folders ${CMAKE_PREFIX_PATH})
    file(GLOB _ddpscope_fetched ${CMAKE_CURRENT_LIST_DIR}/../.deps/*/torch)
    list(SORT _ddpscope_fetched COMPARE NATURAL ORDER DESCENDING)
    list(APPEND _ddpscope_folders ${_ddpscope_fetched})
  endif()
  _ddpscope_torch_of_folders(DdpscopeTorch_ROOT ${_ddpscope_folders})
  unset(_ddpscope_folders)
  unset(_ddpscope_fetched)
endif()
if(DdpscopeTorch_ROOT)
  _ddpscope_torch_version(DdpscopeTorch_VERSION ${DdpscopeTorch_ROOT})
endif()

find_package_handle_standard_args(DdpscopeTorch
  REQUIRED_VARS DdpscopeTorch_ROOT DdpscopeTorch_VERSION
  VERSION_VAR DdpscopeTorch_VERSION
  REASON_FAILURE_MESSAGE "set DDPSCOPE_TORCH_DIR to the LibTorch folder, or run scripts/setup.sh")
if(DdpscopeTorch_FOUND)
  _ddpscope_torch_definitions(_ddpscope_definitions ${DdpscopeTorch_ROOT})
  _ddpscope_torch_add_targets(${DdpscopeTorch_ROOT} "${_ddpscope_definitions}")
  unset(_ddpscope_definitions)
endif()
