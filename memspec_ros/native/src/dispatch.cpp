// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Chooses the kernels that this machine runs, among those that were compiled.

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace memspec
{
namespace
{

#if defined(__x86_64__)
bool has_avx2()
{
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

// Compilers before GCC 11 do not know this one by name.
[[maybe_unused]] bool has_avxvnni()
{
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1u);
}

[[maybe_unused]] bool has_avx512vnni()
{
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#endif

// The tables that this machine can run, best first.
std::vector<const Kernels *> runnable()
{
  std::vector<const Kernels *> tables;
#if defined(MEMSPEC_HAS_AVX512VNNI)
  if (has_avx512vnni()) {tables.push_back(avx512vnni_kernels());}
#endif
#if defined(MEMSPEC_HAS_AVXVNNI)
  if (has_avxvnni()) {tables.push_back(avxvnni_kernels());}
#endif
#if defined(MEMSPEC_HAS_AVX2)
  if (has_avx2()) {tables.push_back(avx2_kernels());}
#endif
#if defined(MEMSPEC_HAS_NEON_DOTPROD)
  if (getauxval(AT_HWCAP) & (1u << 20)) {tables.push_back(neon_dotprod_kernels());}  // ASIMDDP
#endif
  tables.push_back(plain_kernels());
  return tables;
}

// One small product of each integer kind, for comparison with the plain kernels: a wrong
// instruction, or a hypervisor that promises too much, then costs speed and not answers.
std::vector<float> sample(const Kernels & table, int32_t kind)
{
  constexpr int kColumns = 64;
  constexpr int kRows = 5;
  alignas(64) uint8_t packed[kColumns / 32 * (512 + 64 + 64)];
  uint32_t state = 12345;
  auto next = [&state] {return (state = state * 1664525u + 1013904223u) >> 24;};
  for (uint8_t & byte : packed) {
    byte = static_cast<uint8_t>(next());
  }
  const MsMatrix matrix = {kind, kPanelRows, kColumns, 32, MS_FP16,
    kind == MS_INT4 ? MS_MINIMUM : MS_NO_OFFSET, packed};
  for (int group = 0; group < kColumns / 32; ++group) {
    uint8_t * numbers = packed + group * group_bytes(matrix) + code_bytes(matrix);
    for (size_t i = 1; i < group_bytes(matrix) - code_bytes(matrix); i += 2) {
      numbers[i] = static_cast<uint8_t>(0x30 | (numbers[i] & 0x83));  // moderate numbers
    }
  }
  float values[kRows * kColumns], scales[kRows * 2], sums[kRows * 2];
  int8_t codes[kRows * kColumns];
  int32_t code_sums[kRows * 2];
  for (float & value : values) {
    value = static_cast<float>(next()) - 128.0f;
  }
  const Rows rows = {values, codes, scales, sums, code_sums, kColumns, kRows};
  for (int row = 0; row < kRows; ++row) {
    table.quantise(rows.from(row), kColumns);
  }
  std::vector<float> result(kRows * kPanelRows);
  table.linear(matrix, rows, kRows, 0, {result.data(), kPanelRows, nullptr, false});
  return result;
}

bool agrees_with_plain(const Kernels & table)
{
  for (int32_t kind : {MS_INT8, MS_INT4}) {
    const std::vector<float> expected = sample(*plain_kernels(), kind);
    const std::vector<float> seen = sample(table, kind);
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!(std::fabs(seen[i] - expected[i]) <= 1e-3f * (std::fabs(expected[i]) + 100.0f))) {
        return false;
      }
    }
  }
  return true;
}

const Kernels * best()
{
  for (const Kernels * table : runnable()) {
    if (agrees_with_plain(*table)) {
      return table;
    }
  }
  return plain_kernels();
}

std::atomic<const Kernels *> & chosen()
{
  static std::atomic<const Kernels *> table{best()};
  return table;
}

}  // namespace

const Kernels & kernels() {return *chosen().load(std::memory_order_relaxed);}

}  // namespace memspec

extern "C" {

int32_t memspec_abi_version(void) {return MEMSPEC_ABI_VERSION;}

const char * memspec_instruction_set(void) {return memspec::kernels().name;}

int32_t memspec_select_instruction_set(const char * name)
{
  for (const memspec::Kernels * table : memspec::runnable()) {
    if (name && std::strcmp(table->name, name) == 0) {
      memspec::chosen().store(table);
      return MS_OK;
    }
  }
  return MS_UNSUPPORTED;
}

}  // extern "C"
