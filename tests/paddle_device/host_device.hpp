// The device over the host's memory. A stream's work is done by its thread, some time later, so
// that who does not wait for it computes on what was there before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "paddle/phi/backends/device_ext.h"

namespace twindev {

class Stream {
 public:
  Stream() : thread_([this] { work(); }) {}
  ~Stream() {
    add({});
    thread_.join();
  }
  void add(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = tasks_.front();
      if (!task) return;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      task();
      lock.lock();
      tasks_.pop_front();  // done, and seen to be done
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

class Event {
 public:
  void set(bool happened) {
    const std::lock_guard lock(mutex_);
    happened_ = happened;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = true;
};

inline std::mutex streams_mutex;
inline std::set<Stream*> streams;

inline Stream* of(C_Stream stream) { return reinterpret_cast<Stream*>(stream); }
inline Event* of(C_Event event) { return reinterpret_cast<Event*>(event); }

inline C_Status set_device(int) { return C_SUCCESS; }
inline C_Status count_devices(size_t* n) {
  *n = 1;
  return C_SUCCESS;
}
inline C_Status create_stream(C_Device, C_Stream* stream) {
  auto* made = new Stream;
  const std::lock_guard lock(streams_mutex);
  streams.insert(made);
  *stream = reinterpret_cast<C_Stream>(made);
  return C_SUCCESS;
}
inline C_Status destroy_stream(C_Device, C_Stream stream) {
  {
    const std::lock_guard lock(streams_mutex);
    streams.erase(of(stream));
  }
  delete of(stream);
  return C_SUCCESS;
}
inline C_Status create_event(C_Device, C_Event* event) {
  *event = reinterpret_cast<C_Event>(new Event);
  return C_SUCCESS;
}
inline C_Status destroy_event(C_Device, C_Event event) {
  delete of(event);
  return C_SUCCESS;
}
inline C_Status record_event(C_Device, C_Stream stream, C_Event event) {
  of(event)->set(false);
  of(stream)->add([event] { of(event)->set(true); });
  return C_SUCCESS;
}
inline C_Status wait_event(C_Device, C_Stream stream, C_Event event) {
  of(stream)->add([event] { of(event)->wait(); });
  return C_SUCCESS;
}
inline C_Status synchronize_stream(C_Device, C_Stream stream) {
  of(stream)->wait();
  return C_SUCCESS;
}
inline C_Status synchronize_event(C_Device, C_Event event) {
  of(event)->wait();
  return C_SUCCESS;
}
inline C_Status synchronize_device(C_Device) {
  const std::lock_guard lock(streams_mutex);
  for (Stream* stream : streams) stream->wait();
  return C_SUCCESS;
}
inline C_Status allocate(C_Device, void** memory, size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory != nullptr ? C_SUCCESS : C_FAILED;
}
inline C_Status release(C_Device, void* memory, size_t) {
  std::free(memory);
  return C_SUCCESS;
}
inline C_Status copy(C_Device device, void* to, const void* from, size_t bytes) {
  synchronize_device(device);
  std::memcpy(to, from, bytes);
  return C_SUCCESS;
}
inline C_Status copy_later(C_Device, C_Stream stream, void* to, const void* from, size_t bytes) {
  of(stream)->add([=] { std::memcpy(to, from, bytes); });
  return C_SUCCESS;
}
// The host may change its memory when this returns, as it may after CUDA's copy of pageable memory.
inline C_Status copy_from_host_later(C_Device, C_Stream stream, void* to, const void* from,
                                     size_t bytes) {
  const auto* begin = static_cast<const char*>(from);
  of(stream)->add([to, copy = std::vector<char>(begin, begin + bytes)] {
    std::memcpy(to, copy.data(), copy.size());
  });
  return C_SUCCESS;
}

}  // namespace twindev
