# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
#
# The ROS wheels' CMake exports name an include directory of the machine that they were built on
# (/opt/python/...), and CMake refuses a target whose include directory does not exist. This file
# takes such directories off all imported targets. setup.py passes it; with colcon and the wheels:
#   colcon build --cmake-args \
#     -DCMAKE_PROJECT_memspec_ros_INCLUDE=$PWD/cmake/drop_missing_include_directories.cmake
# On a ROS distribution it is not needed.

function(_drop_missing_include_directories)
  get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_listed ${_target} INTERFACE_INCLUDE_DIRECTORIES)
    if(_listed)
      set(_existing "")
      foreach(_directory IN LISTS _listed)
        if(_directory MATCHES "^\\$<" OR EXISTS "${_directory}")
          list(APPEND _existing "${_directory}")
        endif()
      endforeach()
      set_target_properties(${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_existing}")
    endif()
  endforeach()
endfunction()

cmake_language(DEFER CALL _drop_missing_include_directories)
