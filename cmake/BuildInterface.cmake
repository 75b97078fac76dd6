# The flags that every target of ours shares, and the one place that knows the sanitizers.
add_library(ddpscope_build INTERFACE)
target_compile_features(ddpscope_build INTERFACE cxx_std_20)
target_compile_options(ddpscope_build INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;-Wnon-virtual-dtor;-fvisibility=hidden;-fvisibility-inlines-hidden>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${DDPSCOPE_WERROR}>>:-Werror>)
if(DDPSCOPE_SANITIZE)
  # Reports need functions and lines; with more, a file that includes LibTorch compiles twice as long.
  # Null and the size of an object are AddressSanitizer's too, and cost UBSan a third of the time.
  # Alignment costs a fifth, and can be wrong only where memory is read as another type.
  set(casts exchange records stacks stack_names values ops ops_kernels)
  list(TRANSFORM casts PREPEND ddpscope_)
  set(is_cast $<IN_LIST:$<TARGET_PROPERTY:NAME>,${casts}>)
  target_compile_options(ddpscope_build INTERFACE
    $<$<COMPILE_LANGUAGE:CXX,C>:-fsanitize=${DDPSCOPE_SANITIZE};-fno-sanitize=null,object-size,vptr;-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:${is_cast}>>:-fno-sanitize=alignment>)
  target_link_options(ddpscope_build INTERFACE -fsanitize=${DDPSCOPE_SANITIZE})
endif()
if(DDPSCOPE_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
if(DDPSCOPE_TOP_LEVEL)
  find_program(DDPSCOPE_CCACHE ccache)
  mark_as_advanced(DDPSCOPE_CCACHE)
  if(DDPSCOPE_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${DDPSCOPE_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${DDPSCOPE_CCACHE})
  endif()
endif()
