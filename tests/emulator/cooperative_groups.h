// Grids and clusters, as far as kernels_cuda/ asks for them.
#pragma once

#include "tests/emulator/block.hpp"

namespace cooperative_groups {

struct grid_group {
  unsigned barrier_arrive() const {
    auto& block = twinops::emulator::Block::now();
    block.sync();
    block.arrive();
    return 0;  // a thread knows by itself what it waits for
  }
  void barrier_wait(unsigned&&) const {
    auto& block = twinops::emulator::Block::now();
    block.wait();
    block.sync();
  }
  void sync() const { barrier_wait(barrier_arrive()); }
};
inline grid_group this_grid() { return {}; }

struct cluster_group {
  template <class T>
  T* map_shared_rank(T* place, int rank) const {
    return static_cast<T*>(twinops::emulator::Block::now().in_block(static_cast<void*>(place),
                                                                    static_cast<unsigned>(rank)));
  }
};
inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
