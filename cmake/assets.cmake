# SPDX-License-Identifier: Apache-2.0
# The web page, bundled and compressed by scripts/embed-assets.mjs into a table that the server answers from
# (src/server/assets.h).  It is made again when something in web/ changes; packages are fetched only when missing.
find_program(NODE_PROGRAM NAMES node nodejs)
find_program(NPM_PROGRAM npm)
if(NOT NODE_PROGRAM OR NOT NPM_PROGRAM)
  message(FATAL_ERROR "node (18 or later) and npm bundle the web page and are missing: apt-get install nodejs npm")
endif()

file(GLOB web_sources CONFIGURE_DEPENDS web/src/*)
set(assets_source ${CMAKE_BINARY_DIR}/generated/assets.c)
add_custom_command(
  OUTPUT ${assets_source}
  COMMAND ${NODE_PROGRAM} scripts/embed-assets.mjs web ${assets_source}
  DEPENDS ${web_sources} web/package-lock.json scripts/embed-assets.mjs
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  COMMENT "Bundling the web page"
  VERBATIM)
add_library(assets STATIC ${assets_source})
target_link_libraries(motley_all INTERFACE assets)
