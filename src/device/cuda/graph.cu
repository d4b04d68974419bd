/* Recordings: stretches of work that are repeated, such as the pass of a token, become CUDA graphs.
 *
 * The host's code of a pass runs every time, but from the second time on its kernels are not
 * launched one by one: each is compared with the one recorded in its place, and at the end the graph
 * is launched once, with the arguments that have changed set anew. A pass that takes another course
 * is launched as it comes, and recorded again. So nothing but the begin and the end of a stretch
 * needs to be known. Numbers of the host lie in memory of the recording, in the order in which they
 * are staged, and are copied at once by the graph's first node.
 */
#include "device/cuda/gpu.cuh"

#include <new>
#include <string.h>
#include <vector>

enum { RECORDED_BYTES = 1 << 18, MOST_CHANGES = 8 };

namespace {
struct node {
  const void *function;
  const char *name;
  bool early;
  dim3 grid, block;
  size_t shared;
  std::vector<size_t> size, at; /* of each argument, in bytes */
  std::vector<unsigned char> data;
  cudaGraphNode_t in_graph;
  bool changed;
};

size_t aligned(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

std::vector<void *> pointers_of(node &n) {
  std::vector<void *> list;
  for (size_t at : n.at) list.push_back(n.data.data() + at);
  return list;
}
}  // namespace

struct cuda_recording {
  std::vector<node> nodes;
  size_t at;   /* kernels of this pass so far */
  bool held;   /* they are not launched yet */
  bool whole;  /* nodes are those of a whole pass */
  int changes; /* passes that took another course; since one was repeated; after MOST_CHANGES nothing is recorded */
  size_t staged; /* bytes of host numbers of this pass */
  size_t sent;   /* of them on the device: those of a pass that is not held */
  unsigned char *host, *device;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  size_t graph_staged;  /* bytes that the graph copies */
  cudaEvent_t launched; /* the host's numbers were read */
  bool waits;
  int graphs; /* launched */
};

/* ---- kernels ------------------------------------------------------------------------- */

static void drop_graph(cuda_recording *r) {
  if (r->ready) cudaGraphExecDestroy(r->ready);
  if (r->graph) cudaGraphDestroy(r->graph);
  r->ready = NULL;
  r->graph = NULL;
}

static void launch(cuda_gpu *gpu, const gpu_kernel &k) {
  if (gpu->error) return;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t how = {};
  how.gridDim = k.grid, how.blockDim = k.block;
  how.dynamicSmemBytes = k.shared;
  how.stream = gpu->stream;
  how.attrs = &early, how.numAttrs = k.early;
  gpu_check(gpu, cudaLaunchKernelExC(&how, k.function, k.argument), k.name);
}

static void send_staged(cuda_gpu *gpu, cuda_recording *r) {
  if (r->staged > r->sent)
    gpu_check(gpu,
              cudaMemcpyAsync(r->device + r->sent, r->host + r->sent, r->staged - r->sent,
                              cudaMemcpyHostToDevice, gpu->stream),
              "a copy");
  r->sent = r->staged;
}

/* Launches what was held back; the pass goes on without a graph. */
void gpu_flush(cuda_gpu *gpu) {
  cuda_recording *r = gpu->recording;
  if (!r || !r->held) return;
  r->held = false;
  send_staged(gpu, r);
  for (size_t i = 0; i < r->at; i++) {
    node &n = r->nodes[i];
    std::vector<void *> arguments = pointers_of(n);
    launch(gpu, {n.function, n.name, n.early, n.grid, n.block, n.shared, (int)arguments.size(),
                 arguments.data(), n.size.data(), NULL});
  }
  r->nodes.resize(r->at);
  r->changes++;
  drop_graph(r);
}

static node node_of(const gpu_kernel &k) {
  node n = {k.function, k.name, k.early, k.grid, k.block, k.shared, {}, {}, {}, NULL, true};
  size_t at = 0;
  for (int i = 0; i < k.count; i++) {
    at = aligned(at, k.align[i]);
    n.at.push_back(at);
    n.size.push_back(k.size[i]);
    at += k.size[i];
  }
  n.data.resize(at);
  for (int i = 0; i < k.count; i++) memcpy(&n.data[n.at[i]], k.argument[i], k.size[i]);
  return n;
}

static bool same(const dim3 &a, const dim3 &b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

static void compare(node *n, const gpu_kernel &k) {
  if (!same(n->grid, k.grid) || !same(n->block, k.block) || n->shared != k.shared) {
    n->grid = k.grid, n->block = k.block, n->shared = k.shared;
    n->changed = true;
  }
  for (int i = 0; i < k.count; i++) {
    unsigned char *to = &n->data[n->at[i]];
    if (!memcmp(to, k.argument[i], k.size[i])) continue;
    memcpy(to, k.argument[i], k.size[i]);
    n->changed = true;
  }
}

void gpu_submit(cuda_gpu *gpu, const gpu_kernel &k) {
  cuda_recording *r = gpu->recording;
  if (r && r->held && r->at < r->nodes.size() && r->nodes[r->at].function == k.function) {
    compare(&r->nodes[r->at++], k);
    return;
  }
  gpu_flush(gpu);
  launch(gpu, k);
  if (!r || r->changes > MOST_CHANGES) return;
  r->nodes.push_back(node_of(k));
  r->at++;
}

/* ---- host numbers -------------------------------------------------------------------- */

/* In a recording: NULL where there is none, or no more memory for them. */
void *recording_stage(cuda_gpu *gpu, const void *host, size_t bytes) {
  cuda_recording *r = gpu->recording;
  if (!r) return NULL;
  if (r->staged + aligned(bytes, 256) > RECORDED_BYTES) {
    gpu_flush(gpu);
    return NULL;
  }
  unsigned char *at = r->device + r->staged;
  memcpy(r->host + r->staged, host, bytes);
  r->staged += aligned(bytes, 256);
  if (!r->held) send_staged(gpu, r);
  return at;
}

/* ---- graphs -------------------------------------------------------------------------- */

static cudaKernelNodeParams params_of(node &n, std::vector<void *> &arguments) {
  arguments = pointers_of(n);
  cudaKernelNodeParams p = {};
  p.func = (void *)n.function;
  p.gridDim = n.grid;
  p.blockDim = n.block;
  p.sharedMemBytes = (unsigned)n.shared;
  p.kernelParams = arguments.data();
  return p;
}

static cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to,
                            bool early) {
  cudaGraphEdgeData how = {};
  if (early) {
    how.from_port = cudaGraphKernelNodePortProgrammatic;
    how.type = cudaGraphDependencyTypeProgrammatic;
  }
  return cudaGraphAddDependencies(graph, &from, &to, &how, 1);
}

static cudaError_t build(cuda_recording *r) {
  cudaGraphNode_t last = NULL;
  std::vector<void *> arguments;
  cudaError_t e = cudaGraphCreate(&r->graph, 0);
  if (!e && r->staged)
    e = cudaGraphAddMemcpyNode1D(&last, r->graph, NULL, 0, r->device, r->host, r->staged,
                                 cudaMemcpyHostToDevice);
  for (node &n : r->nodes) {
    if (e) return e;
    const cudaKernelNodeParams p = params_of(n, arguments);
    e = cudaGraphAddKernelNode(&n.in_graph, r->graph, NULL, 0, &p);
    if (!e && last) e = add_edge(r->graph, last, n.in_graph, n.early && &n != &r->nodes[0]);
    last = n.in_graph;
    n.changed = false;
  }
  r->graph_staged = r->staged;
  return e ? e : cudaGraphInstantiate(&r->ready, r->graph, 0);
}

static cudaError_t update(cuda_recording *r) {
  std::vector<void *> arguments;
  for (node &n : r->nodes) {
    if (!n.changed) continue;
    const cudaKernelNodeParams p = params_of(n, arguments);
    const cudaError_t e = cudaGraphExecKernelNodeSetParams(r->ready, n.in_graph, &p);
    if (e) return e;
    n.changed = false;
  }
  return cudaSuccess;
}

static void launch_graph(cuda_gpu *gpu, cuda_recording *r) {
  if (r->ready && r->graph_staged != r->staged) drop_graph(r);
  const bool again = r->ready;
  const cudaError_t e = again ? update(r) : build(r);
  if (e || gpu->error) {
    cudaGetLastError();
    gpu_flush(gpu); /* without a graph */
    return;
  }
  r->held = false;
  if (again) r->changes = 0;
  r->graphs++;
  gpu_check(gpu, cudaGraphLaunch(r->ready, gpu->stream), "a graph");
}

/* ---- the table ----------------------------------------------------------------------- */

static cuda_recording *make() {
  cuda_recording *r = new (std::nothrow) cuda_recording{};
  if (!r) return NULL;
  if (!cudaMallocHost(&r->host, RECORDED_BYTES) && !cudaMalloc(&r->device, RECORDED_BYTES) &&
      !cudaEventCreateWithFlags(&r->launched, cudaEventDisableTiming))
    return r;
  cudaGetLastError();
  cudaFreeHost(r->host);
  cudaFree(r->device);
  delete r;
  return NULL;
}

/* Without memory the work is simply launched. */
void record_begin(cuda_gpu *gpu, cuda_recording **recording) {
  if (!*recording) *recording = make();
  cuda_recording *r = *recording;
  if (!r || gpu->recording || r->changes > MOST_CHANGES) return;
  if (r->waits) gpu_check(gpu, cudaEventSynchronize(r->launched), "an event");
  r->held = r->whole;
  r->at = r->staged = r->sent = 0;
  if (!r->held) r->nodes.clear();
  gpu->recording = r;
}

void record_end(cuda_gpu *gpu) {
  cuda_recording *r = gpu->recording;
  if (!r) return;
  if (r->held && r->at != r->nodes.size()) gpu_flush(gpu);
  if (r->held) launch_graph(gpu, r);
  gpu_check(gpu, cudaEventRecord(r->launched, gpu->stream), "an event");
  r->waits = r->whole = true;
  gpu->recording = NULL;
}

void record_free(cuda_gpu *gpu, cuda_recording *r) {
  if (!r) return;
  cudaStreamSynchronize(gpu->stream);
  drop_graph(r);
  cudaEventDestroy(r->launched);
  cudaFreeHost(r->host);
  cudaFree(r->device);
  delete r;
}

int record_graphs(const cuda_recording *r) { return r ? r->graphs : 0; }
