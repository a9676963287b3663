#pragma once
#include <cstdint>

#include "status.h"

// One piece of work on the pool of libuv. `run` is called on a pool thread and touches nothing of JavaScript; `done`,
// where given, is called on the loop before the promise settles.
struct Job {
  using Run = Status (*)(const Job& job);
  using Done = void (*)(const Job& job);
  Run run = nullptr;
  Done done = nullptr;
  void* owner = nullptr;
  int fd = -1;
  int64_t mode = 0;
  int64_t at = 0;
  int64_t bytes = 0;
  // Set by startJob.
  napi_async_work work = nullptr;
  napi_deferred deferred = nullptr;
  Status status;
};

/** Returns the promise, or null with an exception pending. Copies the description. */
napi_value startJob(napi_env env, const Job& description);

/** Arguments of a call, all numbers: false (with an exception pending) when there are fewer or they are not safe integers. */
bool readNumbers(napi_env env, napi_value* values, size_t count, int64_t* numbers);
