#include "file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "job.h"

namespace {

constexpr int64_t ZERO_BYTES = 256 * 1024;
// Read only by the kernel; lives in the zero segment, so it costs no file space and, unwritten, no memory.
const uint8_t zeros[ZERO_BYTES] = {};
// A signal storm must not turn into an endless loop.
constexpr int INTERRUPTIONS_MAX = 1000;

Status runAllocate(const Job& job) {
  for (int attempt = 0; attempt < INTERRUPTIONS_MAX; attempt += 1) {
    if (fallocate(job.fd, static_cast<int>(job.mode), job.at, job.bytes) == 0) return statusOk();
    if (errno != EINTR) return statusFromErrno("fallocate");
  }
  return statusOf(EINTR, "fallocate");
}

Status runWriteZeros(const Job& job) {
  int64_t at = job.at;
  const int64_t end = job.at + job.bytes;
  int interruptions = 0;
  while (at < end) {
    const int64_t wanted = end - at < ZERO_BYTES ? end - at : ZERO_BYTES;
    const ssize_t written = pwrite(job.fd, zeros, static_cast<size_t>(wanted), at);
    if (written < 0 && errno == EINTR && ++interruptions < INTERRUPTIONS_MAX) continue;
    if (written < 0) return statusFromErrno("pwrite");
    if (written == 0) return statusOf(EIO, "pwrite");
    at += written;
  }
  return statusOk();
}

Status runStartWriteback(const Job& job) {
  // Only the flag that starts: the flags that wait would consume a write-back error that fdatasync has to report.
  if (sync_file_range(job.fd, job.at, job.bytes, SYNC_FILE_RANGE_WRITE) == 0) return statusOk();
  return statusFromErrno("sync_file_range");
}

Status runDropCache(const Job& job) {
  const int error = posix_fadvise(job.fd, job.at, job.bytes, POSIX_FADV_DONTNEED);
  return error == 0 ? statusOk() : statusOf(error, "posix_fadvise");
}

napi_value startFileJob(napi_env env, napi_callback_info info, Job::Run run, bool withMode) {
  const size_t expected = withMode ? 4 : 3;
  size_t count = expected;
  napi_value values[4];
  int64_t numbers[4];
  if (napi_get_cb_info(env, info, &count, values, nullptr, nullptr) != napi_ok || count < expected) {
    throwMisuse(env, withMode ? "expected (fd, mode, at, bytes)" : "expected (fd, at, bytes)");
    return nullptr;
  }
  if (!readNumbers(env, values, expected, numbers)) return nullptr;
  Job job;
  job.run = run;
  job.fd = static_cast<int>(numbers[0]);
  if (withMode) job.mode = numbers[1];
  job.at = numbers[expected - 2];
  job.bytes = numbers[expected - 1];
  return startJob(env, job);
}

}  // namespace

napi_value fileAllocate(napi_env env, napi_callback_info info) { return startFileJob(env, info, runAllocate, true); }
napi_value fileWriteZeros(napi_env env, napi_callback_info info) { return startFileJob(env, info, runWriteZeros, false); }
napi_value fileStartWriteback(napi_env env, napi_callback_info info) {
  return startFileJob(env, info, runStartWriteback, false);
}
napi_value fileDropCache(napi_env env, napi_callback_info info) { return startFileJob(env, info, runDropCache, false); }

napi_value fileLock(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value value = nullptr;
  int64_t fd = -1;
  napi_get_cb_info(env, info, &count, &value, nullptr, nullptr);
  if (!readNumbers(env, &value, 1, &fd)) return nullptr;
  int outcome = -1;
  for (int attempt = 0; attempt < INTERRUPTIONS_MAX; attempt += 1) {
    outcome = flock(static_cast<int>(fd), LOCK_EX | LOCK_NB);
    if (outcome == 0 || errno != EINTR) break;
  }
  if (outcome != 0) throwStatus(env, statusFromErrno("flock"));
  return nullptr;
}

napi_value clockBootMs(napi_env env, napi_callback_info) {
  timespec now;
  if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    throwStatus(env, statusFromErrno("clock_gettime"));
    return nullptr;
  }
  napi_value result = nullptr;
  napi_create_double(env, static_cast<double>(now.tv_sec) * 1000.0 + static_cast<double>(now.tv_nsec) / 1e6, &result);
  return result;
}
