// SPDX-License-Identifier: Apache-2.0
// By default the thread sanitizer ends a child of fork() that starts threads.
#if defined(__SANITIZE_THREAD__)
#define CONVT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CONVT_TSAN 1
#endif
#endif
#ifdef CONVT_TSAN
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }  // NOLINT: the sanitizer's name
#endif
