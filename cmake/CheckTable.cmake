# Reads checks/checks.def, the one list of checks, into DDPSCOPE_CHECK_NAMES.
set(ddpscope_check_table ${PROJECT_SOURCE_DIR}/checks/checks.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ddpscope_check_table})
file(STRINGS ${ddpscope_check_table} DDPSCOPE_CHECK_NAMES REGEX "^DDPSCOPE_CHECK\\(")
list(TRANSFORM DDPSCOPE_CHECK_NAMES REPLACE
     "^DDPSCOPE_CHECK\\(\"[^\"]+\", *([a-z0-9_]+),.*" "\\1")
