// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs small random decoders on the best instruction set of this machine: any split into passes
// must give the same bits, they must be near those of the plain kernels, and the printed sums
// must be the same on all machines with a fused multiply-add. For machines that have no Python,
// or are emulated:
//
//   cmake -S memspec_ros/native -B build/native -DMEMSPEC_NATIVE_CHECK=ON

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../src/half.hpp"
#include "../src/memspec_native.h"

namespace
{

constexpr int kHidden = 64, kInner = 96, kHeads = 4, kKvHeads = 2, kHeadDim = 32;
constexpr int kVocab = 203, kLayers = 2, kContext = 256, kTokens = 200;

struct Form
{
  const char * name;
  int32_t kind, scale_kind, offset;
};

constexpr Form kForms[] = {
  {"int4, minima", MS_INT4, MS_FP16, MS_MINIMUM},
  {"int4, float minima", MS_INT4, MS_FP32, MS_MINIMUM},
  {"int4, centred", MS_INT4, MS_FP16, MS_CENTRED},
  {"int8", MS_INT8, MS_FP16, MS_NO_OFFSET},
  {"int8, float scales", MS_INT8, MS_FP32, MS_NO_OFFSET},
  {"fp16", MS_FP16, MS_FP32, MS_NO_OFFSET},
  {"bf16", MS_BF16, MS_FP32, MS_NO_OFFSET},
  {"fp32", MS_FP32, MS_FP32, MS_NO_OFFSET}};

// Random numbers and packed matrices, the same on every machine.
class Maker
{
public:
  explicit Maker(const Form & form)
  : form_(form) {}

  uint32_t bits() {return (state_ = state_ * 1664525u + 1013904223u) >> 8;}
  float number() {return static_cast<float>(bits()) / (1 << 23) - 1.0f;}

  MsMatrix matrix(int rows, int columns)
  {
    const bool coded = form_.kind == MS_INT4 || form_.kind == MS_INT8;
    MsMatrix made = {
      form_.kind, rows, columns, coded ? 32 : 0, form_.scale_kind, form_.offset, nullptr};
    void * data = std::aligned_alloc(64, (memspec_packed_bytes(&made) + 63) / 64 * 64);
    memory_.emplace_back(data, std::free);
    const int32_t error = coded ? pack_codes(made, data) : pack_floats(made, data);
    if (error != MS_OK) {
      std::exit(2);
    }
    made.data = data;
    return made;
  }

private:
  int32_t pack_codes(const MsMatrix & shape, void * data)
  {
    const size_t count = static_cast<size_t>(shape.rows) * shape.columns;
    std::vector<uint8_t> codes(count);
    for (uint8_t & code : codes) {
      code = static_cast<uint8_t>(bits() & (form_.kind == MS_INT4 ? 15 : 255));
    }
    std::vector<float> scales(count / 32), minima(count / 32);
    for (size_t i = 0; i < scales.size(); ++i) {
      const float unit = form_.kind == MS_INT4 ? 1.0f / 65536 : 1.0f / 1048576;
      scales[i] = static_cast<float>(1 + bits() % 1000) * unit;
      minima[i] = -static_cast<float>(bits() % 1000) / 8192;
    }
    return memspec_pack_grouped(
      &shape, codes.data(), scales.data(), form_.offset == MS_MINIMUM ? minima.data() : nullptr,
      data);
  }

  int32_t pack_floats(const MsMatrix & shape, void * data)
  {
    const size_t count = static_cast<size_t>(shape.rows) * shape.columns;
    std::vector<float> floats(count);
    std::vector<uint16_t> halves(count);
    for (size_t i = 0; i < count; ++i) {
      floats[i] = 0.15f * number();
      halves[i] = form_.kind == MS_FP16 ? memspec::half_of_float(floats[i]) :
        static_cast<uint16_t>(memspec::bits_of_float(floats[i]) >> 16);
    }
    const void * values = form_.kind == MS_FP32 ? static_cast<const void *>(floats.data()) :
      halves.data();
    return memspec_pack_dense(&shape, values, data);
  }

  Form form_;
  uint32_t state_ = 1;
  std::vector<std::unique_ptr<void, void (*)(void *)>> memory_;
};

std::vector<float> run(MsDecoder * decoder, const std::vector<int> & widths)
{
  std::vector<int32_t> ids(kTokens);
  for (int i = 0; i < kTokens; ++i) {
    ids[i] = (i * 37 + i * i) % kVocab;
  }
  std::vector<float> keys(kLayers * kKvHeads * kContext * kHeadDim), values(keys.size());
  std::vector<float> logits(kTokens * kVocab);
  int position = 0;
  for (int width : widths) {
    MsPass pass = {};
    pass.token_ids = ids.data() + position;
    pass.width = pass.num_logits = width;
    pass.position = position;
    pass.kv_capacity = kContext;
    pass.keys = keys.data();
    pass.values = values.data();
    pass.logits = logits.data() + position * kVocab;
    if (memspec_decoder_forward(decoder, &pass) != MS_OK) {
      std::exit(3);
    }
    position += width;
  }
  return logits;
}

bool compare(const Form & form, int32_t kv_kind, MsPool * pool, const char * best)
{
  Maker make(form);
  std::vector<float> norm(kHidden, 1.1f), bias(kHeads * kHeadDim);
  for (float & value : bias) {
    value = make.number();
  }
  std::vector<MsLayer> layers(kLayers);
  const int query = kHeads * kHeadDim, kv = kKvHeads * kHeadDim;
  for (MsLayer & layer : layers) {
    layer = {norm.data(), norm.data(), bias.data(), bias.data(), bias.data(), nullptr, nullptr,
      nullptr,
      make.matrix(query, kHidden), make.matrix(kv, kHidden), make.matrix(kv, kHidden),
      make.matrix(kHidden, query), make.matrix(kInner, kHidden), make.matrix(kInner, kHidden),
      make.matrix(kHidden, kInner)};
  }
  // Rational angles: sine and cosine of the C library differ between machines.
  std::vector<float> cosines(kContext * kHeadDim / 2), sines(cosines.size());
  for (size_t i = 0; i < cosines.size(); ++i) {
    const float t = static_cast<float>(i * 7 % 41) / 16 - 1.25f;
    cosines[i] = (1 - t * t) / (1 + t * t);
    sines[i] = 2 * t / (1 + t * t);
  }
  const MsDecoderConfig config = {kLayers, kHidden, kInner, kHeads, kKvHeads, kHeadDim, kContext,
    kTokens, 1e-5f, kv_kind, cosines.data(), sines.data(), norm.data(), layers.data(),
    make.matrix(kVocab, kHidden), make.matrix(kVocab, kHidden)};
  MsDecoder * decoder = nullptr;
  if (memspec_decoder_create(&config, pool, &decoder) != MS_OK) {
    return false;
  }
  memspec_select_instruction_set("plain");
  const std::vector<float> plain = run(decoder, {kTokens});
  memspec_select_instruction_set(best);
  const std::vector<float> whole = run(decoder, {kTokens});
  const std::vector<float> split =
    run(decoder, {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 40, 51});
  memspec_decoder_destroy(decoder);
  double difference = 0, size = 0;
  uint32_t sum = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    difference = std::fmax(difference, std::fabs(whole[i] - plain[i]));
    size = std::fmax(size, std::fabs(plain[i]));
    sum = sum * 31 + memspec::bits_of_float(whole[i]);
  }
  const bool same = std::memcmp(whole.data(), split.data(), whole.size() * sizeof(float)) == 0;
  const bool near = difference < 0.05 * size;
  std::printf("%-20s %s KV  sum %08x  from plain %.1e of %.1f  %s\n", form.name,
    kv_kind == MS_FP16 ? "fp16" : "fp32", sum, difference, size,
    !same ? "SPLITS DIFFER" : !near ? "FAR FROM PLAIN" : "ok");
  return same && near;
}

}  // namespace

int main()
{
  const char * best = memspec_instruction_set();
  MsPool * pool = memspec_pool_create(2);
  bool good = true;
  std::printf("%s\n", best);
  for (const Form & form : kForms) {
    for (int32_t kv_kind : {MS_FP16, MS_FP32}) {
      good = compare(form, kv_kind, pool, best) && good;
    }
  }
  memspec_pool_destroy(pool);
  return good ? 0 : 1;
}
