#include "status.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

Status statusOk() { return Status{}; }

Status statusOf(int error, const char* syscall) {
  Status status;
  status.error = error;
  status.syscall = syscall;
  return status;
}

Status statusFromErrno(const char* syscall) { return statusOf(errno, syscall); }

static napi_value textOf(napi_env env, const char* text) {
  napi_value value = nullptr;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
  return value;
}

napi_value errorOf(napi_env env, const Status& status) {
  // glibc has strerrorname_np since 2.32; older ones would not load us, so the names that matter are spelled here.
  const char* code = nullptr;
  switch (status.error) {
    case EIO: code = "EIO"; break;
    case ENOSPC: code = "ENOSPC"; break;
    case EDQUOT: code = "EDQUOT"; break;
    case EFBIG: code = "EFBIG"; break;
    case EROFS: code = "EROFS"; break;
    case EACCES: code = "EACCES"; break;
    case EPERM: code = "EPERM"; break;
    case EBADF: code = "EBADF"; break;
    case EINVAL: code = "EINVAL"; break;
    case ENOMEM: code = "ENOMEM"; break;
    case EFAULT: code = "EFAULT"; break;
    case EMFILE: code = "EMFILE"; break;
    case ENFILE: code = "ENFILE"; break;
    case EINTR: code = "EINTR"; break;
    case EAGAIN: code = "EAGAIN"; break;
    case ENODEV: code = "ENODEV"; break;
    case ENOLCK: code = "ENOLCK"; break;
    case ENOSYS: code = "ENOSYS"; break;
    case EOPNOTSUPP: code = "EOPNOTSUPP"; break;
    case ESPIPE: code = "ESPIPE"; break;
    case EHWPOISON: code = "EHWPOISON"; break;
    case EUCLEAN: code = "EUCLEAN"; break;
    case ESTALE: code = "ESTALE"; break;
    default: break;
  }
  char unknown[24];
  if (code == nullptr) {
    snprintf(unknown, sizeof unknown, "ERRNO_%d", status.error);
    code = unknown;
  }
  char buffer[96];
  // The GNU variant: returns the text, which need not be in the buffer.
  const char* text = strerror_r(status.error, buffer, sizeof buffer);
  char message[192];
  snprintf(message, sizeof message, "%s: %s, %s", code, text, status.syscall);

  napi_value error = nullptr;
  napi_create_error(env, textOf(env, code), textOf(env, message), &error);
  napi_value number = nullptr;
  napi_create_int32(env, -status.error, &number);
  napi_set_named_property(env, error, "errno", number);
  napi_set_named_property(env, error, "syscall", textOf(env, status.syscall));
  return error;
}

void throwStatus(napi_env env, const Status& status) { napi_throw(env, errorOf(env, status)); }

void throwMisuse(napi_env env, const char* message) { napi_throw_type_error(env, "ERR_INVALID_ARG_VALUE", message); }
