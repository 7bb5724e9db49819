// The kernels of the burn-in. Plain CUDA C++ without headers, so that NVRTC alone can build it.
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u64 mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

// ---- memory patterns -------------------------------------------------------------------------
// What a word must hold: its own address, a constant, a walking bit, or noise.
__device__ __forceinline__ u64 expected(u32 kind, u64 i, u64 base, u64 seed) {
    switch (kind) {
    case 0: return base + i * 8;
    case 1: return seed;
    case 2: return 1ULL << ((i + seed) & 63);
    default: return mix(i ^ seed);
    }
}

struct Found {
    u64 errors;
    u64 first[8][3];
};

__device__ __noinline__ void report(Found *found, u64 at, u64 want, u64 got) {
    u64 n = atomicAdd(&found->errors, 1ULL);
    if (n < 8) {
        found->first[n][0] = at;
        found->first[n][1] = want;
        found->first[n][2] = got;
    }
}

extern "C" __global__ void fill(u64 *p, u64 n, u32 kind, u64 base, u64 seed, u64 flip) {
    u64 step = (u64)gridDim.x * blockDim.x * 2;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 2; i < n; i += step) {
        ulonglong2 v;
        v.x = expected(kind, i, base, seed) ^ flip;
        v.y = expected(kind, i + 1, base, seed) ^ flip;
        *(ulonglong2 *)(p + i) = v;
    }
}

// Checks every word; with `turn` set it also writes the inverse behind itself.
extern "C" __global__ void check(u64 *p, u64 n, u32 kind, u64 base, u64 seed, u64 flip, u32 turn,
                                 Found *found) {
    u64 step = (u64)gridDim.x * blockDim.x * 2;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 2; i < n; i += step) {
        ulonglong2 v = *(ulonglong2 *)(p + i);
        u64 a = expected(kind, i, base, seed) ^ flip;
        u64 b = expected(kind, i + 1, base, seed) ^ flip;
        if (v.x != a) report(found, base + i * 8, a, v.x);
        if (v.y != b) report(found, base + i * 8 + 8, b, v.y);
        if (turn) {
            v.x = ~a;
            v.y = ~b;
            *(ulonglong2 *)(p + i) = v;
        }
    }
}

// ---- bandwidth -------------------------------------------------------------------------------
extern "C" __global__ void __launch_bounds__(1024) copy(const uint4 *a, uint4 *b, u64 n) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        uint4 x = __ldcs(a + i), y = __ldcs(a + i + step);
        uint4 z = __ldcs(a + i + 2 * step), w = __ldcs(a + i + 3 * step);
        __stcs(b + i, x);
        __stcs(b + i + step, y);
        __stcs(b + i + 2 * step, z);
        __stcs(b + i + 3 * step, w);
    }
    for (; i < n; i += step) __stcs(b + i, __ldcs(a + i));
}

extern "C" __global__ void __launch_bounds__(1024) read(const uint4 *a, u64 n, u32 *out) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 sum = 0;
    for (; i + 3 * step < n; i += 4 * step) {
        uint4 x = __ldcs(a + i), y = __ldcs(a + i + step);
        uint4 z = __ldcs(a + i + 2 * step), w = __ldcs(a + i + 3 * step);
        sum += x.x ^ x.y ^ x.z ^ x.w ^ y.x ^ y.y ^ y.z ^ y.w;
        sum += z.x ^ z.y ^ z.z ^ z.w ^ w.x ^ w.y ^ w.z ^ w.w;
    }
    for (; i < n; i += step) {
        uint4 x = __ldcs(a + i);
        sum += x.x ^ x.y ^ x.z ^ x.w;
    }
    if (sum == 0x12345678u) *out = sum;
}

// ---- matrices --------------------------------------------------------------------------------
// Roughly normal with deviation 1: twelve uniform numbers would be better, four are enough.
__device__ __forceinline__ float normal(u64 i, u64 seed) {
    u64 h = mix(i ^ seed);
    float s = (float)(h & 0xffff) + (float)((h >> 16) & 0xffff) + (float)((h >> 32) & 0xffff) +
              (float)(h >> 48);
    return (s * (1.0f / 65536.0f) - 2.0f) * 1.7320508f;
}

extern "C" __global__ void normal_bf16(unsigned short *p, u64 n, u64 seed) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        u32 bits = __float_as_uint(normal(i, seed));
        p[i] = (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
}

// Eight bits: sign, four of exponent (bias 7), three of mantissa.
extern "C" __global__ void normal_e4m3(unsigned char *p, u64 n, u64 seed) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        u32 bits = __float_as_uint(normal(i, seed));
        int e = (int)((bits >> 23) & 0xff) - 127 + 7;
        u32 m = (bits >> 20) & 7;
        if (e < 1) { e = 0; m = 0; }
        if (e > 14) { e = 14; m = 7; }
        p[i] = (unsigned char)(((bits >> 24) & 0x80) | ((u32)e << 3) | m);
    }
}

extern "C" __global__ void differ(const ulonglong2 *a, const ulonglong2 *b, u64 n, Found *found) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        ulonglong2 x = a[i], y = b[i];
        if (x.x != y.x) report(found, i * 16, x.x, y.x);
        if (x.y != y.y) report(found, i * 16 + 8, x.y, y.y);
    }
}

// ---- the same work on every multiprocessor ---------------------------------------------------
// Every block computes the same, whichever multiprocessor it lands on; one that disagrees with
// the others is wrong. Integer, single, double and tensor arithmetic and shared memory take part,
// and each round feeds on the one before, so that one wrong bit anywhere changes the end.
extern "C" __global__ void __launch_bounds__(256) agree(u32 rounds, u64 seed, u64 *sums, u32 *where) {
    __shared__ u64 board[256];
    u32 t = threadIdx.x;
    u64 h = mix(seed ^ (t * 0x9e3779b97f4a7c15ULL));
    float f = 0.1f + (float)(t & 63) * 0.01f;
    double d = 0.2 + (double)(t & 63) * 0.01;
    for (u32 r = 0; r < rounds; r++) {
        for (int k = 0; k < 16; k++) {
            f = __fmul_rn(__fmul_rn(3.71f, f), __fsub_rn(1.0f, f));
            d = __dmul_rn(__dmul_rn(3.73, d), __dsub_rn(1.0, d));
            h = mix(h + k);
        }
#if __CUDA_ARCH__ >= 800
        // Small numbers near one, from bits that are known to be noise.
        u32 a0 = ((u32)h & 0x007f007f) | 0x3f803f80, a1 = ((u32)(h >> 8) & 0x007f007f) | 0x3f803f80;
        u32 a2 = ((u32)(h >> 16) & 0x007f007f) | 0xbf803f80;
        u32 a3 = ((u32)(h >> 24) & 0x007f007f) | 0x3f80bf80;
        u32 b0 = ((u32)(h >> 32) & 0x007f007f) | 0x3f803f80, b1 = ((u32)(h >> 7) & 0x007f007f) | 0x3f803f80;
        float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
        for (int k = 0; k < 16; k++) {
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        }
        h ^= ((u64)__float_as_uint(c0) << 32) ^ __float_as_uint(c1);
        h += ((u64)__float_as_uint(c2) << 32) ^ __float_as_uint(c3);
#endif
        h ^= ((u64)__float_as_uint(f) << 17) ^ (u64)__double_as_longlong(d);
        board[t] = h;
        __syncthreads();
        h ^= board[(t * 7 + r) & 255] << 1;
        __syncthreads();
    }
    board[t] = h;
    __syncthreads();
    if (t == 0) {
        u64 sum = 0;
        for (int k = 0; k < 256; k++) sum = mix(sum ^ board[k]);
        u32 sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        sums[blockIdx.x] = sum;
        where[blockIdx.x] = sm;
    }
}

// ---- drills ----------------------------------------------------------------------------------
// Faults on purpose, for drills: the driver must name the process that made them.
extern "C" __global__ void out_of_bounds(u32 *p) { p[(1ULL << 40) + threadIdx.x] = 1; }
extern "C" __global__ void trap_now() { asm volatile("trap;"); }
