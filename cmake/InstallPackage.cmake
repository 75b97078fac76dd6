# `cmake --install`: the libraries, the public headers, the CMake package, the .pc file, pages
# and licences. bin/ddpscope is installed by tools/.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddpscope)
install(TARGETS ddpscope EXPORT ddpscopeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ddpscope_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ddpscope_device)
  install(TARGETS ddpscope_device LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/include/ddpscope/ddpscope.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/export.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/hooks.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/observed_call.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/ops.h
  ${PROJECT_BINARY_DIR}/include/ddpscope/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ddpscope)
install(FILES ${PROJECT_SOURCE_DIR}/include/ddpscope/ops/clip_grad.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/ops/communicator.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/ops/grad_scaler.h
  ${PROJECT_SOURCE_DIR}/include/ddpscope/ops/sync_batch_norm.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ddpscope/ops)
install(EXPORT ddpscopeTargets NAMESPACE ddpscope:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ddpscopeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ddpscopeConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ddpscopeConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddpscopeConfig.cmake
  ${PROJECT_BINARY_DIR}/ddpscopeConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindDdpscopeTorch.cmake DESTINATION ${package_dir})
configure_file(${PROJECT_SOURCE_DIR}/cmake/ddpscope.pc.in ${PROJECT_BINARY_DIR}/ddpscope.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ddpscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
