/* Products of quantised weights, and attention, for llama.cpp, with the instructions of this CPU.

The llama.cpp of the wheel is compiled for any machine of the architecture. ggml's CPU backend asks a list of "extra
buffer types" for kernels before it uses its own; `sq_install` appends an entry to that list. Its kernels take products
of quantised weights with f32 activations (`products.h`) and attention over a cache of f16 (`attention.h`), and leave
everything else to llama.cpp, whose threads they run on. */

#include "attention.h"
#include "products.h"

#include <dlfcn.h>
#include <stdatomic.h>

/* ---- ggml: the parts of its structures that are used here, checked by `sq_install` ---- */

typedef struct tensor {
  int32_t type;
  void *buffer;
  int64_t ne[4];
  size_t nb[4];
  int32_t op;
  int32_t op_params[16];
  int32_t flags;
  struct tensor *src[10];
  struct tensor *view_src;
  size_t view_offs;
  void *data;
  char name[64];
  void *extra;
} tensor;

typedef struct {
  int ith, nth;
  size_t wsize;
  void *wdata;
  void *threadpool;
} compute_params;

typedef struct {
  void *functions[8];
  void *device;
  void *context; /* a C++ object: its first word is the address of its table of virtual functions */
} buffer_type;

enum { F32 = 0, F16 = 1 };
static int MUL_MAT, FLASH_ATTN_EXT = -1; /* the numbers of the operations, learnt from ggml */
static atomic_int enabled = 1;
static atomic_llong computed, attended;
static void (*barrier)(void *);
static void (*chunk_set)(void *, int);
static int (*chunk_add)(void *, int);
static bool (*is_host)(void *buffer);

static bool supported(const tensor *op) {
  if (op->op != MUL_MAT) return false;
  const tensor *w = op->src[0], *x = op->src[1];
  if (!w || !x || w->type < 0 || w->type > Q6_K || !FUNCTIONS[w->type][0]) return false;
  return x->type == F32 && op->type == F32 && w->ne[2] == 1 && w->ne[3] == 1 && x->ne[2] == 1 && x->ne[3] == 1 &&
         w->ne[0] % (is_k(w->type) ? 256 : 32) == 0 && w->nb[0] == (size_t)bytes_of(w->type) && x->nb[0] == 4 &&
         x->nb[1] % 4 == 0 && op->nb[0] == 4 && op->nb[1] % 4 == 0 && w->ne[0] == x->ne[0] && w->ne[1] == op->ne[0] &&
         x->ne[1] == op->ne[1] && w->data &&
         (!w->buffer || is_host(w->buffer));
}

/* Bytes of the quantised activations of so many tokens. */
static size_t needed(int64_t tokens, int64_t blocks) {
  if (tokens <= FEW) return (size_t)(tokens * ((blocks + 7) / 8)) * sizeof(token_block) + 64;
  return (size_t)((tokens + TILE - 1) / TILE * blocks) * sizeof(tile_block) + 64;
}

/* Quantise those of token `t`; places of a tile without a token count as zeros. */
static void quantise_one(const float *x, int64_t t, int64_t tokens, int64_t blocks, void *to) {
  if (tokens <= FEW) {
    quantise_token(x, blocks, (token_block *)to + t * ((blocks + 7) / 8));
    return;
  }
  tile_block *tile = (tile_block *)to + t / TILE * blocks;
  if (t < tokens)
    quantise_tile(x, blocks, tile, t % TILE);
  else
    for (int64_t b = 0; b < blocks; b++) {
      memset(tile[b].q[t % TILE], 0, 32);
      tile[b].scale[t % TILE] = tile[b].sum[t % TILE] = 0;
    }
}
INLINE int64_t places(int64_t tokens) { return tokens <= FEW ? tokens : (tokens + TILE - 1) / TILE * TILE; }

static bool work_size(void *self, int threads, const tensor *op, size_t *size) {
  (void)self, (void)threads;
  *size = needed(op->src[1]->ne[1], op->src[1]->ne[0] / 32);
  return true;
}

static bool compute(void *self, const compute_params *params, tensor *op) {
  (void)self;
  const tensor *w = op->src[0], *x = op->src[1];
  const int64_t tokens = x->ne[1], blocks = w->ne[0] / 32, rows = w->ne[1];
  if (params->nth < 1 || params->ith < 0 || params->ith >= params->nth || params->wsize < needed(tokens, blocks))
    return false;
  void *room = (void *)(((uintptr_t)params->wdata + 63) & ~(uintptr_t)63);
  for (int64_t t = params->ith; t < places(tokens); t += params->nth)
    quantise_one((const float *)((const char *)x->data + (size_t)t * x->nb[1]), t, tokens, blocks, room);
  if (params->ith == 0) chunk_set(params->threadpool, params->nth);
  barrier(params->threadpool);
  const product p = {w->data, w->nb[1], blocks, room, tokens, op->data, (int64_t)(op->nb[1] / 4)};
  const rows_function function = FUNCTIONS[w->type][tokens > FEW];
  int64_t size = rows / (params->nth * 4) / ROWS * ROWS;
  size = size < ROWS ? ROWS : size > 256 ? 256 : size;
  for (int64_t i = params->ith; i * size < rows; i = chunk_add(params->threadpool, 1))
    function(&p, i * size, (i + 1) * size < rows ? (i + 1) * size : rows);
  if (params->ith == 0) atomic_fetch_add_explicit(&computed, 1, memory_order_relaxed);
  return true;
}

/* ---- attention ---- */

static bool attention_of(const tensor *op, attention *a) {
  if (op->op != FLASH_ATTN_EXT) return false;
  const tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
  float params[3]; /* scale, ALiBi's bias, cap of the scores */
  memcpy(params, op->op_params, sizeof params);
  if (!q || !k || !v || op->src[4] || params[1] != 0 || params[2] != 0 || q->type != F32 || k->type != F16 ||
      v->type != F16 || op->type != F32 || !attends(q->ne[0]) || k->ne[0] != q->ne[0] || v->ne[0] != q->ne[0] ||
      q->ne[3] != 1 || k->ne[3] != 1 || v->ne[3] != 1 || k->ne[1] != v->ne[1] || k->ne[2] != v->ne[2] ||
      k->ne[2] < 1 || q->ne[2] % k->ne[2] || q->nb[0] != 4 || k->nb[0] != 2 || v->nb[0] != 2 || op->nb[0] != 4 ||
      op->ne[0] != q->ne[0] || op->ne[1] != q->ne[2] || op->ne[2] != q->ne[1])
    return false;
  if (mask && (mask->type != F16 || mask->nb[0] != 2 || mask->ne[0] < k->ne[1] || mask->ne[1] < q->ne[1] ||
               mask->ne[2] != 1 || mask->ne[3] != 1))
    return false;
  *a = (attention){
      q->data,  k->data,  v->data,  mask ? mask->data : NULL,  op->data,  q->nb[1],  q->nb[2],           k->nb[1],
      k->nb[2], v->nb[1], v->nb[2], mask ? mask->nb[1] : 0,    op->nb[2], op->nb[1], q->ne[1],           k->ne[1],
      q->ne[2] / k->ne[2], (int)q->ne[0], params[0]};
  return true;
}

static bool attention_size(void *self, int threads, const tensor *op, size_t *size) {
  (void)self, (void)threads, (void)op;
  *size = 0;
  return true;
}

static bool compute_attention(void *self, const compute_params *params, tensor *op) {
  (void)self;
  attention a;
  if (params->nth < 1 || params->ith < 0 || params->ith >= params->nth || !attention_of(op, &a)) return false;
  if (params->ith == 0) chunk_set(params->threadpool, params->nth);
  barrier(params->threadpool);
  const int64_t parts = attention_parts(&a) * op->src[1]->ne[2];
  for (int64_t i = params->ith; i < parts; i = chunk_add(params->threadpool, 1)) attend(&a, i);
  if (params->ith == 0) atomic_fetch_add_explicit(&attended, 1, memory_order_relaxed);
  return true;
}

/* ---- what ggml asks ---- */

static void destroy(void *self) { (void)self; }
static void *const ATTENTION_TABLE[] = {(void *)destroy, (void *)destroy, (void *)attention_size,
                                        (void *)compute_attention};
static struct { void *const *table; } attention_traits = {ATTENTION_TABLE};
static void *const TRAITS_TABLE[] = {(void *)destroy, (void *)destroy, (void *)work_size, (void *)compute};
static struct { void *const *table; } traits = {TRAITS_TABLE};

static void *get_traits(void *self, const tensor *op) {
  (void)self;
  attention a;
  if (!atomic_load_explicit(&enabled, memory_order_relaxed)) return NULL;
  return supported(op) ? (void *)&traits : attention_of(op, &a) ? (void *)&attention_traits : NULL;
}
static bool supports_op(void *self, void *device, const tensor *op) {
  (void)self, (void)device, (void)op;
  return false; /* no tensor is ever stored in our type of buffer */
}
static void *const TYPE_TABLE[] = {(void *)destroy, (void *)destroy, (void *)supports_op, (void *)get_traits};
static struct { void *const *table; } type_object = {TYPE_TABLE};
static buffer_type our_type;

/* ---- installation ---- */

static struct { size_t size; void *memory; bool no_alloc; } const ARENA = {1 << 20, NULL, false};

/* A small operation in ggml: `run` computes it and returns the sum of its results. */
typedef struct {
  void *context, *graph;
  tensor *weights, *activations, *result;
  int (*compute)(void *, void *, int);
} trial;

static double run(const trial *t) {
  if (t->compute(t->context, t->graph, 2) != 0) return NAN;
  double sum = 0;
  const int64_t count = t->result->ne[0] * t->result->ne[1] * t->result->ne[2];
  for (int64_t i = 0; i < count; i++) sum += (double)(i + 1) * ((const float *)t->result->data)[i];
  return sum;
}

#define FIND(variable, name)                                                                                          \
  do {                                                                                                                \
    *(void **)&(variable) = dlsym(library, name);                                                                     \
    if (!(variable)) return "this llama.cpp does not export " name;                                                   \
  } while (0)

/* Attention of two tokens, four heads on two of keys, over 40 positions, after products are installed: taken over if
ggml's structures look as they do here and the results are the same. */
static void install_attention(void *library, void *(*init)(typeof(ARENA)), void (*release)(void *), trial t,
                              void *(*new_graph)(void *), void (*expand)(void *, tensor *)) {
  tensor *(*cube)(void *, int, int64_t, int64_t, int64_t);
  tensor *(*attention_op)(void *, tensor *, tensor *, tensor *, tensor *, float, float, float);
  const char *(*op_name)(int) = (const char *(*)(int))dlsym(library, "ggml_op_name");
  *(void **)&cube = dlsym(library, "ggml_new_tensor_3d");
  *(void **)&attention_op = dlsym(library, "ggml_flash_attn_ext");
  if (!cube || !attention_op || !op_name || !(t.context = init(ARENA))) return;
  tensor *q = cube(t.context, F32, 64, 2, 4), *mask = cube(t.context, F16, 40, 64, 1);
  tensor *k = cube(t.context, F16, 64, 40, 2), *v = cube(t.context, F16, 64, 40, 2);
  t.result = attention_op(t.context, q, k, v, mask, 0.25f, 0, 0);
  for (int i = 0; i < 512; i++) ((float *)q->data)[i] = (float)(i % 23) / 11 - 1;
  for (int i = 0; i < 5120; i++) {
    ((uint16_t *)k->data)[i] = (uint16_t)(0x3000 + i * 37 % 0x800 + (i % 3 ? 0 : 0x8000)); /* 1/8 to 1/2 */
    ((uint16_t *)v->data)[i] = (uint16_t)(0x3400 + i * 53 % 0x800 + (i % 5 ? 0 : 0x8000));
  }
  for (int i = 0; i < 2560; i++) ((uint16_t *)mask->data)[i] = i % 40 > 36 + i / 40 ? 0xfc00 : 0;
  t.graph = new_graph(t.context);
  expand(t.graph, t.result);
  const double theirs = run(&t);
  const long long before = attended;
  if (strcmp(op_name(t.result->op), "FLASH_ATTN_EXT") == 0) FLASH_ATTN_EXT = t.result->op;
  const double ours = run(&t);
  if (attended != before + 1 || !(fabs(ours - theirs) < 0.01 * fabs(theirs))) FLASH_ATTN_EXT = -1;
  release(t.context);
}

/* Use the kernel in an opened llama.cpp, once; NULL, or why it cannot be used. Nothing is changed then. */
EXPORT const char *sq_install(void *library) {
  struct { buffer_type **begin, **end, **room; } *(*types)(void);
  buffer_type *(*repack)(void), *(*cpu_type)(void);
  void **type_table, **traits_table, *part;
  void *(*cpu)(void), *(*procedure)(void *, const char *), *(*device)(void *, size_t);
  FIND(types, "_Z39ggml_backend_cpu_get_extra_buffer_typesv");
  FIND(repack, "_Z35ggml_backend_cpu_repack_buffer_typev");
  FIND(type_table, "_ZTVN4ggml3cpu6repack17extra_buffer_typeE");
  FIND(traits_table, "_ZTVN4ggml3cpu6repack13tensor_traitsI10block_q4_0Ll4ELl4EL9ggml_type8EEE");
  FIND(cpu_type, "ggml_backend_cpu_buffer_type");
  FIND(cpu, "ggml_backend_cpu_reg");
  FIND(procedure, "ggml_backend_reg_get_proc_address");
  FIND(device, "ggml_backend_reg_dev_get");
  FIND(barrier, "ggml_barrier");
  FIND(chunk_set, "ggml_threadpool_chunk_set");
  FIND(chunk_add, "ggml_threadpool_chunk_add");
  FIND(is_host, "ggml_backend_buffer_is_host");

  /* Virtual functions stand where ours will stand: two destructors, then these. */
  if (*(void **)repack()->context != (void *)(type_table + 2)) return "another layout of buffer types";
  FIND(part, "_ZN4ggml3cpu6repack17extra_buffer_type11supports_opEP19ggml_backend_devicePK11ggml_tensor");
  if (type_table[4] != part) return "another interface of buffer types";
  FIND(part, "_ZN4ggml3cpu6repack17extra_buffer_type17get_tensor_traitsEPK11ggml_tensor");
  if (type_table[5] != part) return "another interface of buffer types";
#define TRAITS "_ZN4ggml3cpu6repack13tensor_traitsI10block_q4_0Ll4ELl4EL9ggml_type8EE"
  FIND(part, TRAITS "9work_sizeEiPK11ggml_tensorRm");
  if (traits_table[4] != part) return "another interface of kernels";
  FIND(part, TRAITS "15compute_forwardEP19ggml_compute_paramsP11ggml_tensor");
  if (traits_table[5] != part) return "another interface of kernels";

  /* Tensors look as they do here. */
  void *(*init)(typeof(ARENA)), (*release)(void *), *(*new_graph)(void *), (*expand)(void *, tensor *);
  tensor *(*matrix)(void *, int, int64_t, int64_t), *(*mul_mat)(void *, tensor *, tensor *);
  const char *(*op_name)(int);
  trial t;
  FIND(init, "ggml_init");
  FIND(release, "ggml_free");
  FIND(matrix, "ggml_new_tensor_2d");
  FIND(mul_mat, "ggml_mul_mat");
  FIND(op_name, "ggml_op_name");
  FIND(new_graph, "ggml_new_graph");
  FIND(expand, "ggml_build_forward_expand");
  FIND(t.compute, "ggml_graph_compute_with_ctx");
  if (!(t.context = init(ARENA))) return "no memory";
  t.weights = matrix(t.context, Q8_0, 64, 3);
  t.activations = matrix(t.context, F32, 64, 2);
  t.result = mul_mat(t.context, t.weights, t.activations);
  const tensor *w = t.weights, *m = t.result;
  if (w->type != Q8_0 || w->ne[0] != 64 || w->ne[1] != 3 || w->ne[2] != 1 || w->nb[0] != 34 || w->nb[1] != 68 ||
      !w->data || !m->data || m->src[0] != w || m->src[1] != t.activations || m->ne[0] != 3 || m->ne[1] != 2 ||
      strcmp(op_name(m->op), "MUL_MAT") != 0) {
    release(t.context);
    return "another layout of tensors";
  }
  MUL_MAT = m->op;
  for (int i = 0; i < 6; i++) {
    uint8_t *block = (uint8_t *)w->data + 34 * i;
    memcpy(block, "\x00\x30", 2); /* 1/8 in sixteen bits */
    for (int j = 0; j < 32; j++) block[2 + j] = (uint8_t)(37 * i + 11 * j);
  }
  for (int i = 0; i < 128; i++) ((float *)t.activations->data)[i] = (float)(i % 19) - 9;
  t.graph = new_graph(t.context);
  expand(t.graph, t.result);
  const double theirs = run(&t);

  /* llama.cpp's loader keeps a copy of the list: it is made now, without our entry. */
  void *(*copy)(void *) = (void *(*)(void *))procedure(cpu(), "ggml_backend_dev_get_extra_bufts");
  if (copy) copy(device(cpu(), 0));
  typeof(types()) list = types();
  const size_t count = (size_t)(list->end - list->begin);
  buffer_type **entries = malloc((count + 1) * sizeof *entries);
  if (!entries) {
    release(t.context);
    return "no memory";
  }
  memcpy(entries, list->begin, count * sizeof *entries);
  our_type = *cpu_type();
  our_type.context = &type_object;
  entries[count] = &our_type;
  list->begin = entries;
  list->end = list->room = entries + count + 1;
  const double ours = run(&t);
  release(t.context);
  if (computed == 1 && fabs(ours - theirs) < 0.01 * fabs(theirs)) {
    install_attention(library, init, release, t, new_graph, expand);
    return NULL;
  }
  list->end--;
  return "another way of computing products";
}

/* Whether products are computed here from now on; only between passes. */
EXPORT void sq_enable(int on) { atomic_store(&enabled, on); }
/* Products computed here since the start. */
EXPORT long long sq_computed(void) { return atomic_load(&computed); }
/* Attention of a layer computed here since the start; none if this llama.cpp keeps its own. */
EXPORT long long sq_attended(void) { return atomic_load(&attended); }
EXPORT const char *sq_name(void) { return KERNEL; }

/* One product on one thread, for tests: out[tokens][rows] of contiguous weights; 0, or -1 for what is not supported. */
EXPORT int sq_multiply(int type, const void *weights, int64_t columns, int64_t rows, const float *x, int64_t tokens,
                       float *out) {
  if (type < 0 || type > Q6_K || !FUNCTIONS[type][0] || columns % (is_k(type) ? 256 : 32)) return -1;
  const int64_t blocks = columns / 32;
  void *all = aligned_alloc(64, (needed(tokens, blocks) + 63) / 64 * 64);
  if (!all) return -1;
  for (int64_t t = 0; t < places(tokens); t++) quantise_one(x + t * columns, t, tokens, blocks, all);
  const product p = {weights, row_bytes(type, blocks), blocks, all, tokens, out, rows};
  FUNCTIONS[type][tokens > FEW](&p, 0, rows);
  free(all);
  return 0;
}

/* Attention on one thread, for tests, of contiguous q[heads][tokens][size], k and v[shared][positions][size] and
mask[tokens][positions] or NULL; out[tokens][heads][size]. 0, or -1 for what is not supported. */
EXPORT int sq_attend(const float *q, const uint16_t *k, const uint16_t *v, const uint16_t *mask, int64_t tokens,
                     int64_t positions, int64_t heads, int64_t shared, int64_t size, float scale, float *out) {
  if (!attends(size) || shared < 1 || heads % shared) return -1;
  const size_t row = (size_t)size * 4, half_row = (size_t)size * 2, all = half_row * (size_t)positions;
  const attention a = {(const char *)q, (const char *)k, (const char *)v, (const char *)mask, (char *)out, row,
                       row * (size_t)tokens, half_row, all, half_row, all, 2 * (size_t)positions, row * (size_t)heads,
                       row, tokens, positions, heads / shared, (int)size, scale};
  for (int64_t i = 0; i < attention_parts(&a) * shared; i++) attend(&a, i);
  return 0;
}
