# Installs BUILD_DIR under a staging root, as a packager does, and moves the tree to INSTALLED: what
# works there does not depend on the prefix that it was installed with.
set(prefix /opt/twinops)
file(REMOVE_RECURSE ${STAGE} ${INSTALLED})
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env DESTDIR=${STAGE} ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix}
  COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${STAGE}${prefix} ${INSTALLED})

file(GLOB_RECURSE descriptions ${INSTALLED}/*.cmake ${INSTALLED}/*.pc)
foreach(file IN LISTS descriptions)
  file(READ ${file} text)
  foreach(path IN ITEMS ${prefix} ${STAGE} ${BUILD_DIR})
    string(FIND "${text}" ${path} at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} holds the path ${path}")
    endif()
  endforeach()
endforeach()
