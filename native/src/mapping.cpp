#include "mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "job.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace {

constexpr uint64_t MAGIC = 0x726976756c657431;  // "rivulet1": an External of another addon is refused, not followed.
constexpr int64_t SCRATCH_BYTES = 256 * 1024;

struct Mapping {
  uint64_t magic = MAGIC;
  uint8_t* base = nullptr;
  int64_t bytes = 0;
  // Only where MADV_POPULATE_READ is missing: populate then reads by this descriptor of its own.
  int scratchFd = -1;
  int64_t liveSlices = 0;
  int64_t pendingJobs = 0;
  bool unmapRequested = false;
  bool collected = false;
};

int64_t pageBytes() {
  static const int64_t value = sysconf(_SC_PAGESIZE);
  return value;
}

bool kernelPopulates() {
  static const bool value = [] {
    void* page = mmap(nullptr, static_cast<size_t>(pageBytes()), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const bool works = madvise(page, static_cast<size_t>(pageBytes()), MADV_POPULATE_READ) == 0;
    munmap(page, static_cast<size_t>(pageBytes()));
    return works;
  }();
  return value;
}

// The memory goes when nobody can touch it any more: asked to unmap, and no job of ours is inside.
void settle(Mapping* mapping) {
  if (mapping->pendingJobs > 0) return;
  if (mapping->base != nullptr && (mapping->unmapRequested || (mapping->collected && mapping->liveSlices == 0))) {
    munmap(mapping->base, static_cast<size_t>(mapping->bytes));
    mapping->base = nullptr;
    if (mapping->scratchFd >= 0) close(mapping->scratchFd);
    mapping->scratchFd = -1;
  }
  // A handle that was lost while slices are out keeps its pages: wrong, but never a wild pointer.
  if (mapping->collected && mapping->base == nullptr) {
    mapping->magic = 0;
    delete mapping;
  }
}

void collect(napi_env, void* data, void*) {
  Mapping* mapping = static_cast<Mapping*>(data);
  mapping->collected = true;
  settle(mapping);
}

Mapping* mappingOf(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  void* data = nullptr;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_external ||
      napi_get_value_external(env, value, &data) != napi_ok || data == nullptr ||
      static_cast<Mapping*>(data)->magic != MAGIC) {
    throwMisuse(env, "not a mapping");
    return nullptr;
  }
  Mapping* mapping = static_cast<Mapping*>(data);
  if (mapping->unmapRequested) {
    throwMisuse(env, "the mapping was unmapped");
    return nullptr;
  }
  return mapping;
}

struct Range {
  Mapping* mapping = nullptr;
  int64_t at = 0;
  int64_t length = 0;
};

// (mapping, at, length) with the range inside the mapping; an exception is pending when false.
bool readRange(napi_env env, napi_callback_info info, Range* range) {
  size_t count = 3;
  napi_value values[3];
  int64_t numbers[2];
  if (napi_get_cb_info(env, info, &count, values, nullptr, nullptr) != napi_ok || count < 3) {
    throwMisuse(env, "expected (mapping, at, length)");
    return false;
  }
  range->mapping = mappingOf(env, values[0]);
  if (range->mapping == nullptr || !readNumbers(env, values + 1, 2, numbers)) return false;
  if (numbers[0] > range->mapping->bytes || numbers[1] > range->mapping->bytes - numbers[0]) {
    throwMisuse(env, "the range is outside the mapping");
    return false;
  }
  range->at = numbers[0];
  range->length = numbers[1];
  return true;
}

Status readIntoScratch(int fd, int64_t at, int64_t end) {
  void* scratch = malloc(static_cast<size_t>(SCRATCH_BYTES));
  if (scratch == nullptr) return statusOf(ENOMEM, "malloc");
  Status status = statusOk();
  int interruptions = 0;
  while (at < end) {
    const int64_t wanted = end - at < SCRATCH_BYTES ? end - at : SCRATCH_BYTES;
    const ssize_t got = pread(fd, scratch, static_cast<size_t>(wanted), at);
    if (got < 0 && errno == EINTR && ++interruptions < 1000) continue;
    if (got < 0) {
      status = statusFromErrno("pread");
      break;
    }
    // Beyond the end of the file: touching such a page would be a SIGBUS, so it is an error here, as with madvise.
    if (got == 0) {
      status = statusOf(EFAULT, "pread");
      break;
    }
    at += got;
  }
  free(scratch);
  return status;
}

Status runPopulate(const Job& job) {
  Mapping* mapping = static_cast<Mapping*>(job.owner);
  const int64_t page = pageBytes();
  const int64_t start = job.at / page * page;
  const int64_t end = job.at + job.bytes;
  if (mapping->scratchFd >= 0) return readIntoScratch(mapping->scratchFd, job.at, end);
  for (int attempt = 0; attempt < 1000; attempt += 1) {
    if (madvise(mapping->base + start, static_cast<size_t>(end - start), MADV_POPULATE_READ) == 0) return statusOk();
    if (errno != EINTR && errno != EAGAIN) return statusFromErrno("madvise");
  }
  return statusOf(EAGAIN, "madvise");
}

void donePopulate(const Job& job) {
  Mapping* mapping = static_cast<Mapping*>(job.owner);
  mapping->pendingJobs -= 1;
  settle(mapping);
}

}  // namespace

napi_value mappingMap(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value values[3];
  int64_t numbers[2];
  if (napi_get_cb_info(env, info, &count, values, nullptr, nullptr) != napi_ok || count < 2) {
    throwMisuse(env, "expected (fd, bytes, populateByRead?)");
    return nullptr;
  }
  if (!readNumbers(env, values, 2, numbers)) return nullptr;
  bool byRead = false;
  if (count > 2) napi_get_value_bool(env, values[2], &byRead);

  Mapping* mapping = new (std::nothrow) Mapping();
  if (mapping == nullptr) {
    throwStatus(env, statusOf(ENOMEM, "malloc"));
    return nullptr;
  }
  const int fd = static_cast<int>(numbers[0]);
  if (byRead || !kernelPopulates()) {
    mapping->scratchFd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (mapping->scratchFd < 0) {
      throwStatus(env, statusFromErrno("fcntl"));
      delete mapping;
      return nullptr;
    }
  }
  void* base = mmap(nullptr, static_cast<size_t>(numbers[1]), PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const Status status = statusFromErrno("mmap");
    if (mapping->scratchFd >= 0) close(mapping->scratchFd);
    delete mapping;
    throwStatus(env, status);
    return nullptr;
  }
  mapping->base = static_cast<uint8_t*>(base);
  mapping->bytes = numbers[1];
  napi_value handle = nullptr;
  if (napi_create_external(env, mapping, collect, nullptr, &handle) != napi_ok) {
    mapping->collected = true;
    settle(mapping);
    throwStatus(env, statusOf(ENOMEM, "napi_create_external"));
    return nullptr;
  }
  return handle;
}

napi_value mappingSlice(napi_env env, napi_callback_info info) {
  Range range;
  if (!readRange(env, info, &range)) return nullptr;
  napi_value buffer = nullptr;
  // No finalizer: the bytes belong to the mapping, and one would cost a turn of the loop for each slice.
  if (napi_create_external_arraybuffer(env, range.mapping->base + range.at, static_cast<size_t>(range.length), nullptr,
                                       nullptr, &buffer) != napi_ok) {
    throwStatus(env, statusOf(ENOMEM, "napi_create_external_arraybuffer"));
    return nullptr;
  }
  range.mapping->liveSlices += 1;
  return buffer;
}

napi_value mappingRelease(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value values[2];
  if (napi_get_cb_info(env, info, &count, values, nullptr, nullptr) != napi_ok || count < 2) {
    throwMisuse(env, "expected (mapping, buffer)");
    return nullptr;
  }
  Mapping* mapping = mappingOf(env, values[0]);
  if (mapping == nullptr) return nullptr;
  if (mapping->liveSlices == 0 || napi_detach_arraybuffer(env, values[1]) != napi_ok) {
    throwMisuse(env, "not a live slice");
    return nullptr;
  }
  mapping->liveSlices -= 1;
  return nullptr;
}

napi_value mappingResident(napi_env env, napi_callback_info info) {
  Range range;
  if (!readRange(env, info, &range)) return nullptr;
  const int64_t page = pageBytes();
  int64_t at = range.at / page * page;
  const int64_t end = range.at + range.length;
  constexpr int64_t PAGES_AT_ONCE = 4096;
  unsigned char pages[PAGES_AT_ONCE];
  bool resident = true;
  while (resident && at < end) {
    const int64_t wanted = (end - at + page - 1) / page;
    const int64_t asked = wanted < PAGES_AT_ONCE ? wanted : PAGES_AT_ONCE;
    if (mincore(range.mapping->base + at, static_cast<size_t>(asked * page), pages) != 0) {
      throwStatus(env, statusFromErrno("mincore"));
      return nullptr;
    }
    for (int64_t index = 0; index < asked; index += 1) {
      if ((pages[index] & 1) == 0) {
        resident = false;
        break;
      }
    }
    at += asked * page;
  }
  napi_value result = nullptr;
  napi_get_boolean(env, resident, &result);
  return result;
}

// The pages stay in the page cache and come back by a minor fault; they only stop counting as memory of this process.
napi_value mappingForget(napi_env env, napi_callback_info info) {
  Range range;
  if (!readRange(env, info, &range)) return nullptr;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t from = (range.at + page - 1) / page * page;
  const int64_t end = range.at + range.length;
  const int64_t to = end >= range.mapping->bytes ? (end + page - 1) / page * page : end / page * page;
  if (to > from && madvise(range.mapping->base + from, static_cast<size_t>(to - from), MADV_DONTNEED) != 0) {
    throwStatus(env, statusFromErrno("madvise"));
  }
  return nullptr;
}

napi_value mappingPopulate(napi_env env, napi_callback_info info) {
  Range range;
  if (!readRange(env, info, &range)) return nullptr;
  Job job;
  job.run = runPopulate;
  job.done = donePopulate;
  job.owner = range.mapping;
  job.at = range.at;
  job.bytes = range.length;
  range.mapping->pendingJobs += 1;
  return startJob(env, job);
}

napi_value mappingLiveSlices(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value value = nullptr;
  napi_get_cb_info(env, info, &count, &value, nullptr, nullptr);
  Mapping* mapping = mappingOf(env, value);
  if (mapping == nullptr) return nullptr;
  napi_value result = nullptr;
  napi_create_int64(env, mapping->liveSlices, &result);
  return result;
}

napi_value mappingUnmap(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value value = nullptr;
  napi_get_cb_info(env, info, &count, &value, nullptr, nullptr);
  Mapping* mapping = mappingOf(env, value);
  if (mapping == nullptr) return nullptr;
  if (mapping->liveSlices > 0) {
    throwMisuse(env, "slices of the mapping are still live");
    return nullptr;
  }
  mapping->unmapRequested = true;
  settle(mapping);
  return nullptr;
}
