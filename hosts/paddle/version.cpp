// What the plugin was built for. The Python module asks before Paddle loads the plugin: a plugin of
// another Paddle would fail with a missing symbol, or worse.
extern "C" [[gnu::visibility("default")]] const char* twinops_paddle_version() {
  return TWINOPS_PADDLE_VERSION;
}
