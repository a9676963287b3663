#include "job.h"

#include <new>

static void execute(napi_env, void* data) {
  Job* job = static_cast<Job*>(data);
  job->status = job->run(*job);
}

static void complete(napi_env env, napi_status outcome, void* data) {
  Job* job = static_cast<Job*>(data);
  if (job->done != nullptr) job->done(*job);
  napi_handle_scope scope = nullptr;
  napi_open_handle_scope(env, &scope);
  if (outcome == napi_cancelled) {
    // Only when the environment is torn down.
    napi_reject_deferred(env, job->deferred, errorOf(env, statusOf(4, "cancelled")));
  } else if (job->status.error != 0) {
    napi_reject_deferred(env, job->deferred, errorOf(env, job->status));
  } else {
    napi_value nothing = nullptr;
    napi_get_undefined(env, &nothing);
    napi_resolve_deferred(env, job->deferred, nothing);
  }
  napi_close_handle_scope(env, scope);
  napi_delete_async_work(env, job->work);
  delete job;
}

napi_value startJob(napi_env env, const Job& description) {
  Job* job = new (std::nothrow) Job(description);
  napi_value promise = nullptr;
  napi_value name = nullptr;
  if (job == nullptr || napi_create_promise(env, &job->deferred, &promise) != napi_ok) {
    delete job;
    if (description.done != nullptr) description.done(description);
    napi_throw_error(env, "ENOMEM", "no memory for a job");
    return nullptr;
  }
  napi_create_string_utf8(env, "rivulet", NAPI_AUTO_LENGTH, &name);
  if (napi_create_async_work(env, nullptr, name, execute, complete, job, &job->work) != napi_ok ||
      napi_queue_async_work(env, job->work) != napi_ok) {
    if (job->done != nullptr) job->done(*job);
    delete job;
    napi_throw_error(env, "ENOMEM", "a job could not be queued");
    return nullptr;
  }
  return promise;
}

bool readNumbers(napi_env env, napi_value* values, size_t count, int64_t* numbers) {
  for (size_t index = 0; index < count; index += 1) {
    double value = 0;
    if (napi_get_value_double(env, values[index], &value) != napi_ok || value < 0 || value > 9007199254740991.0 ||
        value != static_cast<double>(static_cast<int64_t>(value))) {
      throwMisuse(env, "expected a non-negative safe integer");
      return false;
    }
    numbers[index] = static_cast<int64_t>(value);
  }
  return true;
}
