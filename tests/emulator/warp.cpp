// What the threads of a warp or of a block do together.
#include "tests/emulator/block.hpp"
#include "tests/emulator/cuda_runtime.h"

using twinops::emulator::Block;
using twinops::emulator::Exchange;
using twinops::emulator::kWarpThreads;

namespace {

// join(a, b) over what the lanes that live have given; begins with `mine`, of this lane.
template <class T, class Join>
T over_lanes(unsigned mask, T mine, Join&& join) {
  Block& block = Block::now();
  block.check_whole(mask);
  const Exchange& exchange = block.exchange(static_cast<unsigned>(mine));
  for (unsigned lane = 0; lane < kWarpThreads; ++lane)
    if (exchange.lanes >> lane & 1)
      mine = join(mine, static_cast<T>(static_cast<unsigned>(exchange.words[lane])));
  return mine;
}

}  // namespace

void __syncthreads() { Block::now().sync(); }
int __syncthreads_or(int said) { return Block::now().sync_or(said != 0); }
int __syncthreads_and(int said) { return Block::now().sync_and(said != 0); }
void __syncwarp(unsigned mask) {
  Block::now().check_whole(mask);
  Block::now().sync_warp();
}
int __all_sync(unsigned mask, int said) {
  return over_lanes(mask, said != 0 ? 1 : 0, [](int a, int b) { return a & b; });
}
unsigned __ballot_sync(unsigned mask, int said) {
  const unsigned mine = said != 0 ? 1u << Block::now().lane() : 0;
  return over_lanes(mask, mine, [](unsigned a, unsigned b) { return a | b; });
}
unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return over_lanes(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
int __reduce_max_sync(unsigned mask, int value) {
  return over_lanes(mask, value, [](int a, int b) { return std::max(a, b); });
}

namespace twinops::emulator {

unsigned lane_now() { return Block::now().lane(); }
std::uint64_t shuffled(unsigned mask, std::uint64_t word, unsigned from) {
  Block::now().check_whole(mask);
  Block& block = Block::now();
  const Exchange& exchange = block.exchange(word);
  if ((exchange.lanes >> from & 1) == 0) block.fail("shuffles from a lane that has ended");
  return exchange.words[from];
}

}  // namespace twinops::emulator
