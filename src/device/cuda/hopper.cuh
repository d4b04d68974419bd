/* Hopper's asynchronous units: barriers in shared memory, the tensor memory accelerator (TMA) and
 * warpgroup products (wgmma). Thin wrappers around PTX (sm_90a), no policy.
 *
 * Tiles in shared memory are slabs of 64 bf16 or f16 columns: [slab][rows][64], swizzled in units
 * of 128 bytes, as TMA writes and wgmma reads them.
 */
#ifndef DEVICE_CUDA_HOPPER_CUH
#define DEVICE_CUDA_HOPPER_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

enum { SLAB = 64, SLAB_BYTES = 128 }; /* columns of a slab; bytes of its rows */

__device__ inline uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers ------------------------------------------------------------------------ */

__device__ inline void barrier_init(uint64_t *barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
__device__ inline void barrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ inline void barrier_arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
/* Waits until the phase of this parity has completed. */
__device__ inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
/* Hardware barriers among warps: id 0 is __syncthreads. */
__device__ inline void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- TMA ------------------------------------------------------------------------------- */

/* One slab: `rows` rows from `row` on, 64 columns from `column` on, of head and batch. Rows past
 * the end are zeros. Completes on the barrier. */
__device__ inline void tma_load(const CUtensorMap *map, void *to, uint64_t *barrier, int column,
                                int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"((uint64_t)map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
/* `bytes` that lie one behind the other; both addresses and bytes are multiples of 16. */
__device__ inline void bulk_load(const void *from, void *to, uint64_t *barrier, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
/* A slab from shared memory; rows and columns past the end are not written. Threads that wrote it
 * call fence_shared before the barrier behind which one thread stores. */
__device__ inline void fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void tma_store(const CUtensorMap *map, const void *from, int column, int row,
                                 int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
          (uint64_t)map),
      "r"(shared_address(from)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
__device__ inline void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* The memory that was stored from may be written again. */
__device__ inline void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* ---- a kernel behind another -------------------------------------------------------------- */

/* The next kernel of the stream, if it was launched for that, may start; it waits for this one. */
__device__ inline void next_kernel_may_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ inline void wait_for_last_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/* ---- wgmma ----------------------------------------------------------------------------- */

/* Operand in slabs whose rows are the columns of k (K-major): q and k of q k^T. */
__device__ inline uint64_t operand_rows(const void *tile) {
  return (uint64_t)((shared_address(tile) & 0x3ffff) >> 4) | (uint64_t)1 << 16 |
         (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
/* B whose rows are k and whose columns are n (MN-major): v of w v. slab_bytes: of one slab. */
__device__ inline uint64_t operand_columns(const void *tile, int slab_bytes) {
  return (uint64_t)((shared_address(tile) & 0x3ffff) >> 4) | (uint64_t)(slab_bytes >> 4) << 16 |
         (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
/* Keeps the compiler from moving uses of registers across asynchronous products. */
template <int N>
__device__ inline void wgmma_hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int REGISTERS>
__device__ inline void registers_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ inline void registers_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* d[64][N] (+)= A[64][16] B[16][N]. The element (row, column) of d that register i of thread t of
 * the warpgroup holds: row = 16 (t / 32) + t % 32 / 4 + 8 (i / 2 % 2),
 * column = 8 (i / 4) + 2 (t % 4) + i % 2. A in registers has the same layout, two to a register. */
#define D8(i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define D16(i) D8(i), D8(i + 8)
#define D32(i) D16(i), D16(i + 16)
#define D64(i) D32(i), D32(i + 32)
#define R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R32 R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R48 R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define D48(i) D32(i), D16(i + 32)
#define D128(i) D64(i), D64(i + 64)
#define D96(i) D64(i), D32(i + 64)
#define R64 R48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

#define R96                                                                                       \
  R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85," \
      "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define R128                                                                                     \
  R96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%" \
      "114,"                                                                                     \
      "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* A in shared memory (of_shared, of_columns) or in registers (of_registers). B is K-major for
 * of_shared and MN-major for the others, as attention needs them. add 0: d is overwritten. */
template <typename T, int N>
struct wgmma;
#define WGMMA(T, TYPE, N, REGS, LIST, A0, A1, A2, A3, B, P)                                        \
  template <>                                                                                      \
  struct wgmma<T, N> {                                                                             \
    static __device__ inline void of_shared(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {  \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" P                                            \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGS       \
                   "}, %" A0 ", %" A1 ", p, 1, 1, 0, 0; }\n"                                       \
                   : LIST                                                                          \
                   : "l"(a), "l"(b), "n"(0), "n"(0), "n"(0), "r"(add));                            \
    }                                                                                              \
    static __device__ inline void of_registers(float (&d)[N / 2], const uint32_t (&a)[4],          \
                                               uint64_t b, int add) {                              \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" P                                            \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGS       \
                   "}, {%" A0 ",%" A1 ",%" A2 ",%" A3 "}, %" B ", p, 1, 1, 1; }\n"                 \
                   : LIST                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                \
    }                                                                                              \
    static __device__ inline void of_columns(float (&d)[N / 2], uint64_t a, uint64_t b, int add) { \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" P                                            \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGS       \
                   "}, %" A0 ", %" A1 ", p, 1, 1, 0, 1; }\n"                                       \
                   : LIST                                                                          \
                   : "l"(a), "l"(b), "n"(0), "n"(0), "n"(0), "r"(add));                            \
    }                                                                                              \
  };
#define WGMMAS(T, TYPE)                                                  \
  WGMMA(T, TYPE, 64, R32, D32(0), "32", "33", "34", "35", "36", "37")    \
  WGMMA(T, TYPE, 96, R48, D48(0), "48", "49", "50", "51", "52", "53")    \
  WGMMA(T, TYPE, 128, R64, D64(0), "64", "65", "66", "67", "68", "69")   \
  WGMMA(T, TYPE, 192, R96, D96(0), "96", "97", "98", "99", "100", "101") \
  WGMMA(T, TYPE, 256, R128, D128(0), "128", "129", "130", "131", "132", "133")
WGMMAS(__nv_bfloat16, "bf16")
WGMMAS(__half, "f16")
#undef WGMMAS
#undef WGMMA

#endif
