// Must not compile: 16 bits may be float16 or bfloat16, and the C++ type does not say which. A test
// of ctest looks for the message that does say what to write.
#include "twinops/twinops.hpp"

twinops::Tensor view(std::uint16_t* data) { return twinops::Tensor(data, {4}); }
