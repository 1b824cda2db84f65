// The process of blocking.c that shares objects with a case.

// The other process, which has something to share if it is a HELPER, or if the case needs a POOL.
static int from_helper = -1;
static pid_t helper;

// What it shares: an event, memory, and memory of a pool, whose file comes beside them.
enum { SHARED_EVENT, SHARED_MEM, SHARED_POOL_MEM, SHARED };
static int pool_file = -1;

// share_pool makes a pool and memory of it.
static void share_pool(Ipc *mem) {
	PoolProps props = {1, 1, {1, dev}, NULL, 0, {0}};
	H pool, stream = new_stream(STREAM_NON_BLOCKING);
	D at;
	ok(cuMemPoolCreate(&pool, &props));
	ok(cuMemPoolExportToShareableHandle(&pool_file, pool, 1, 0));
	ok(cuMemAllocFromPoolAsync(&at, 1 << 20, pool, stream));
	ok(cuStreamSynchronize(stream));
	ok(cuMemPoolExportPointer(mem, at));
}

// message is what the processes send: the handles, and the file if there is one.
struct message {
	struct iovec text;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} file;
	struct msghdr head;
};
static struct msghdr *message(struct message *m, Ipc handles[SHARED]) {
	m->text = (struct iovec){handles, SHARED * sizeof *handles};
	m->head = (struct msghdr){.msg_iov = &m->text, .msg_iovlen = 1, .msg_control = m->file.bytes,
	                          .msg_controllen = sizeof m->file.bytes};
	return &m->head;
}

static void start_helper(void) {
	int up[2], down[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, up) || pipe(down))
		skip("pipe: %s", strerror(errno));
	if ((helper = fork()) != 0) {
		close(up[1]), close(down[0]);
		from_helper = up[0];
		return; // down[1] stays open as long as this process lives
	}
	close(RESULT_FD), close(down[1]);
	open("/dev/null", O_WRONLY);
	load();
	ok(cuInit(0)), ok(cuDeviceGet(&dev, 0)), ok(cuDevicePrimaryCtxRetain(&ctx, dev)), ok(cuCtxSetCurrent(ctx));
	Ipc handles[SHARED] = {0};
	struct message m;
	if (the_case->flags & HELPER) {
		H event = new_event(EVENT_INTERPROCESS);
		ok(cuEventRecord(event, NULL));
		ok(cuIpcGetEventHandle(&handles[SHARED_EVENT], event));
		if (cuIpcGetMemHandle(&handles[SHARED_MEM], new_mem(2 << 20)))
			memset(&handles[SHARED_MEM], 0, sizeof *handles);
	}
	message(&m, handles);
	if (the_case->flags & POOL) {
		share_pool(&handles[SHARED_POOL_MEM]);
		m.file.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&m.file.head), &pool_file, sizeof pool_file);
	} else {
		m.head.msg_controllen = 0;
	}
	if (sendmsg(up[1], &m.head, 0) != sizeof handles || read(down[0], handles, 1))
		_exit(1);
	_exit(0);
}

// shared waits for what the other process shares.
static void shared(Ipc handles[SHARED]) {
	struct pollfd p = {from_helper, POLLIN, 0};
	struct message m;
	if (poll(&p, 1, 30000) != 1 || recvmsg(from_helper, message(&m, handles), 0) != SHARED * sizeof *handles)
		skip("the other process cannot share an event and memory");
	if (CMSG_FIRSTHDR(&m.head))
		memcpy(&pool_file, CMSG_DATA(CMSG_FIRSTHDR(&m.head)), sizeof pool_file);
}
