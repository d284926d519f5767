// Who made the processor, where that decides which of two ways to the same bits is faster.
#pragma once

namespace twinops {

bool is_amd();

}  // namespace twinops
