#include "core/copy_bytes.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

bool cuda_built() noexcept { return false; }

int cuda_devices() noexcept { return 0; }

int require_cuda_devices(const char* flag) {
  throw_error(ErrorCode::usage, "{}: this build has no CUDA", spell_options(flag));
}

std::unique_ptr<Kernels> make_cuda_kernels(int /*device*/, int /*threads*/,
                                           const CudaOptions& /*options*/) {
  throw_error(ErrorCode::usage, "--device cuda: this build has no CUDA kernels");
}

void copy_by_cuda(std::byte* /*to*/, const std::byte* /*from*/, std::size_t /*bytes*/) {
  throw_error(ErrorCode::usage, "--device cuda: this build has no CUDA");
}

std::string check_copies_between_devices(int /*ranks*/) { return {}; }

void select_cuda_device(int /*rank*/) {}

std::unique_ptr<MemorySource> make_cuda_message_memory() {
  throw_error(ErrorCode::usage, "--device cuda: this build has no CUDA");
}

std::optional<std::int64_t> cuda_available_bytes(int /*ranks*/) { return std::nullopt; }

void load_cuda_kernels_at_once() noexcept {}

}  // namespace heliograph
