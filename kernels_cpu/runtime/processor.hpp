// Whose processor this is, where the faster of two ways to the same bits depends on it.
#pragma once

namespace twinops {

bool is_amd();

}  // namespace twinops
