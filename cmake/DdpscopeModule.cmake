# ddpscope_join_sources(<target> <number>)
# Compiles so many files as one, which takes less than half the time where all of them read the same
# large headers. What lies in unnamed namespaces of one folder then differs in name.
function(ddpscope_join_sources target number)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${number})
endfunction()

# ddpscope_add_module(<name> SOURCES <file>... [DEPENDS <module>...] [LINK <target>...] [TORCH])
# One folder, one static library `ddpscope_<name>`. DEPENDS is the module graph: what is listed
# there may be included from this folder, and nothing else (ci/check_includes.py compares).
function(ddpscope_add_module name)
  cmake_parse_arguments(M "TORCH" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  set(target ddpscope_${name})
  if(M_SOURCES)
    add_library(${target} STATIC ${M_SOURCES})
    set(scope PUBLIC)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${target} PRIVATE ddpscope_build ${M_LINK})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} ${scope} cxx_std_20)
  list(TRANSFORM M_DEPENDS PREPEND ddpscope_)
  target_link_libraries(${target} ${scope} ${M_DEPENDS})
  if(M_TORCH)
    target_link_libraries(${target} PUBLIC ddpscope::torch_cpu)
    # LibTorch's debug-only members exist in our headers only without NDEBUG: always define it.
    target_compile_definitions(${target} PRIVATE NDEBUG)
    target_compile_options(${target} PRIVATE -UNDEBUG -DNDEBUG)
  endif()
endfunction()
