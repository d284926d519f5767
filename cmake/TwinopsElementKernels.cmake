# The sources that are compiled once for each type of elements, by nvcc and for the emulated GPU.
set(TWINOPS_ELEMENT_KERNELS "")
foreach(source IN ITEMS
    log_softmax log_softmax_grad softmax softmax_grad softmax_grad_strided softmax_strided)
  list(APPEND TWINOPS_ELEMENT_KERNELS ${PROJECT_SOURCE_DIR}/kernels_cuda/softmax/${source}.cu)
endforeach()

# twinops_element_kernels(<target>): compiles them into objects <target>_<type>, which are part of <target>.
function(twinops_element_kernels target)
  foreach(element IN LISTS TWINOPS_ELEMENTS)
    add_library(${target}_${element} OBJECT ${TWINOPS_ELEMENT_KERNELS})
    target_link_libraries(${target}_${element} PRIVATE twinops_options)
    target_compile_definitions(${target}_${element} PRIVATE TWINOPS_ELEMENT=${element})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${element}>)
  endforeach()
endfunction()
