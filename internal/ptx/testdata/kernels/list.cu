// A linked list and a stack built with atomics, a lock, and a ticket lock.
//! buf nodes u64 2048 zero
//! buf head u64 2 zero
//! buf out u64 4 zero out
//! buf lock u32 4 zero out
//! launch push 4 128 0 nodes head
//! launch walk 1 1 0 head out
//! launch locked 2 64 0 lock
//! launch ticket 4 32 0 lock
struct Node { Node *next; unsigned long long value; };
extern "C" __global__ void push(Node *nodes, Node **head) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    Node *n = &nodes[i];
    n->value = i * 3 + 1;
    Node *old = *(Node *volatile *)head, *seen;
    do {
        seen = old;
        n->next = seen;
        __threadfence();
        old = (Node *)atomicCAS((unsigned long long *)head, (unsigned long long)seen, (unsigned long long)n);
    } while (old != seen);
}
extern "C" __global__ void walk(Node **head, unsigned long long *out) {
    for (Node *n = *head; n; n = n->next) { out[0]++; out[1] += n->value; out[2] ^= n->value * 0x9E3779B97F4A7C15ull; }
}
extern "C" __global__ void locked(unsigned *lock) {
    for (bool done = false; !done;) {
        if (atomicExch(&lock[0], 1) == 0) {
            *(volatile unsigned *)&lock[1] = *(volatile unsigned *)&lock[1] + 1;
            __threadfence();
            atomicExch(&lock[0], 0);
            done = true;
        }
    }
}
extern "C" __global__ void ticket(unsigned *lock) {
    if (threadIdx.x != 0) return;
    unsigned mine = atomicAdd(&lock[2], 1);
    while (*(volatile unsigned *)&lock[3] % 16 != mine % 16)
        ;
    __threadfence();
    lock[1] += mine * 1000;
    __threadfence();
    atomicAdd(&lock[3], 1);
}
