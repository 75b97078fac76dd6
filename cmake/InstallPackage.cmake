# `cmake --install`: the libraries, the public headers, the CMake package, the .pc file, pages
# and licences. bin/ddpscope is installed by tools/. `cpack` makes packages of the same files.
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
  ${PROJECT_SOURCE_DIR}/include/ddpscope/ops/op_facts.h
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
# From its own folder back to the prefix: lib/pkgconfig, or lib/<machine>/pkgconfig.
file(RELATIVE_PATH prefix_of_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_of_pc ${prefix_of_pc})
configure_file(${PROJECT_SOURCE_DIR}/cmake/ddpscope.pc.in ${PROJECT_BINARY_DIR}/ddpscope.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ddpscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICES.txt
  ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(NOT DDPSCOPE_TOP_LEVEL)
  return()
endif()

# LibTorch is no Debian package: it is no dependency of ours, the user brings it.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME ddpscope)
set(CPACK_PACKAGE_VENDOR "the ddpscope authors")
set(CPACK_PACKAGE_CONTACT "the ddpscope authors <ddpscope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION "Hooks, checks and reports for training programs in C++. \
Built for LibTorch ${DdpscopeTorch_VERSION}, which this package neither holds nor depends on.")
set(CPACK_PACKAGE_FILE_NAME
  ddpscope-${PROJECT_VERSION}-torch${DdpscopeTorch_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# dpkg-shlibdeps reads what the binaries need and leaves out what no package holds.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
