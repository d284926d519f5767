// Asynchronous copies, which the emulator makes when they are waited for and no sooner.
#pragma once

#include "tests/emulator/block.hpp"

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  twinops::emulator::Block::now().copy_later(to, from, bytes);
}
inline void __pipeline_commit() { twinops::emulator::Block::now().commit_copies(); }
inline void __pipeline_wait_prior(std::size_t groups) {
  twinops::emulator::Block::now().wait_for_copies(groups);
}
