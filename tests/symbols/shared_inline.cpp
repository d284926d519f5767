// Compiled for two instruction sets, this shares an inline function between them: what
// no_shared_symbols.cmake must find.
[[gnu::noinline]] inline float shared(float x) { return x * 3.0f; }
float TWINOPS_TEST_NAME(float x) { return shared(x); }
