// The cases of blocking.c about semaphores of other APIs. The semaphores are Vulkan's.

// Vulkan's structs have the layout that vulkan_core.h gives them. Each begins with a number that says what it is.
typedef struct {
	int is;
	void *next;
	const char *name;
	U version;
	const char *engine;
	U engine_version, api_version;
} VkApplication;
typedef struct {
	int is;
	void *next;
	U flags;
	VkApplication *application;
	U layers;
	const char **layer_names;
	U extensions;
	const char **extension_names;
} VkInstanceInfo;
typedef struct {
	int is;
	void *next;
	Uuid device, driver;
	char luid[8];
	U mask, luid_is_valid;
} VkIds;
typedef struct {
	int is;
	void *next;
	char properties[824];
} VkProperties;
typedef struct {
	int is;
	void *next;
	U flags, family, count;
	const float *priorities;
} VkQueueInfo;
typedef struct {
	int is;
	void *next;
	U timelines;
} VkFeatures;
typedef struct {
	int is;
	void *next;
	U flags, queues;
	VkQueueInfo *queue;
	U layers;
	const char **layer_names;
	U extensions;
	const char **extension_names;
	void *features;
} VkDeviceInfo;
typedef struct {
	int is;
	void *next;
	U kind;
	unsigned long long value;
} VkSemaphoreKind;
typedef struct {
	int is;
	void *next;
	U handles;
} VkSemaphoreExport;
typedef struct {
	int is;
	void *next;
	U flags;
} VkSemaphoreInfo;
typedef struct {
	int is;
	void *next;
	unsigned long long semaphore;
	U handle;
} VkFileInfo;

static void *(*vkGetInstanceProcAddr)(H instance, const char *name);
static void *(*vkGetDeviceProcAddr)(H device, const char *name);
static void *in_vulkan(void *(*find)(H, const char *), H object, const char *name) {
	void *f = find(object, name);
	if (!f)
		skip("Vulkan has no %s", name);
	return f;
}
#define INSTANCE(name) in_vulkan(vkGetInstanceProcAddr, vk_instance, name)
#define DEVICE(name) in_vulkan(vkGetDeviceProcAddr, vk_device, name)

// vk_device is Vulkan's device that is the driver's, too.
static H vk_instance, vk_device;
static void open_vulkan(void) {
	VkApplication application = {.is = 0, .api_version = 1 << 22 | 2 << 12};
	VkInstanceInfo instance_info = {.is = 1, .application = &application};
	VkQueueInfo queue = {.is = 2, .count = 1, .priorities = &(float){1}};
	VkFeatures features = {1000207000, NULL, 1};
	VkDeviceInfo device_info = {.is = 3, .next = &features, .queues = 1, .queue = &queue, .extensions = 1,
	                            .extension_names = (const char *[]){"VK_KHR_external_semaphore_fd"}};
	void *lib = dlopen("libvulkan.so.1", RTLD_NOW);
	Uuid uuid;
	H all[64], found = NULL;
	U n = 64;
	int r;
	if (!lib)
		skip("%s", dlerror());
	*(void **)&vkGetInstanceProcAddr = dlsym(lib, "vkGetInstanceProcAddr");
	int (*create_instance)(VkInstanceInfo *, void *, H *) = INSTANCE("vkCreateInstance");
	if ((r = create_instance(&instance_info, NULL, &vk_instance)))
		skip("vkCreateInstance answers %d", r);
	int (*devices)(H, U *, H *) = INSTANCE("vkEnumeratePhysicalDevices");
	void (*properties)(H, VkProperties *) = INSTANCE("vkGetPhysicalDeviceProperties2");
	int (*create_device)(H, VkDeviceInfo *, void *, H *) = INSTANCE("vkCreateDevice");
	ok(cuDeviceGetUuid_v2(&uuid, dev));
	if ((r = devices(vk_instance, &n, all)))
		skip("vkEnumeratePhysicalDevices answers %d", r);
	for (U i = 0; i < n; i++) {
		VkIds ids = {.is = 1000071004};
		VkProperties p = {.is = 1000059001, .next = &ids};
		properties(all[i], &p);
		if (!memcmp(&ids.device, &uuid, sizeof uuid))
			found = all[i];
	}
	if (!found)
		skip("none of Vulkan's %u devices is the driver's", n);
	if ((r = create_device(found, &device_info, NULL, &vk_device)))
		skip("vkCreateDevice answers %d", r);
	*(void **)&vkGetDeviceProcAddr = INSTANCE("vkGetDeviceProcAddr");
}

// semaphore_file returns the file of a new semaphore. The software driver is no device of Vulkan's: it takes the file
// of memory as a semaphore.
static int semaphore_file(int type) {
	VkSemaphoreKind kind = {.is = 1000207002, .kind = type == TIMELINE_FD};
	VkSemaphoreExport export = {1000077000, &kind, 1};
	VkSemaphoreInfo info = {9, &export, 0};
	VkFileInfo file_info = {.is = 1000079001, .handle = 1};
	char name[100];
	int fd, r;
	ok(cuDeviceGetName(name, sizeof name, dev));
	if (!strncmp(name, "Simulated", strlen("Simulated")))
		return memory_file();
	if (!vk_device)
		open_vulkan();
	int (*create)(H, VkSemaphoreInfo *, void *, unsigned long long *) = DEVICE("vkCreateSemaphore");
	int (*file)(H, VkFileInfo *, int *) = DEVICE("vkGetSemaphoreFdKHR");
	if ((r = create(vk_device, &info, NULL, &file_info.semaphore)))
		skip("vkCreateSemaphore answers %d", r);
	if ((r = file(vk_device, &file_info, &fd)))
		skip("vkGetSemaphoreFdKHR answers %d", r);
	return fd;
}
static H new_semaphore(int type) {
	ExternalSem desc = {.type = type, .handle.file = semaphore_file(type)};
	H s;
	ok(cuImportExternalSemaphore(&s, &desc));
	return s;
}

// sem is the semaphore of a case.
static H sem;
static int signal_at(unsigned long long value, H stream) {
	ExternalSignal p = {.value = value};
	return cuSignalExternalSemaphoresAsync(&sem, &p, 1, stream);
}
static int wait_for(unsigned long long value, H stream) {
	ExternalWait p = {.value = value};
	return cuWaitExternalSemaphoresAsync(&sem, &p, 1, stream);
}
#define TIMELINE sem = new_semaphore(TIMELINE_FD)
#define BINARY sem = new_semaphore(OPAQUE_FD)
#define SIGNALLED ok(signal_at(1, idle)); ok(cuStreamSynchronize(idle))

ROW(sem_signal, "cuSignalExternalSemaphoresAsync, timeline, free stream", 0, TIMELINE, signal_at(1, idle))
ROW(sem_signal_held, "cuSignalExternalSemaphoresAsync, timeline, held stream", 0, TIMELINE, signal_at(1, held))
CASE(sem_signal_many, "cuSignalExternalSemaphoresAsync, timeline, free stream, the Nth", 0) {
	TIMELINE;
	MANY(1, 20000, 3, signal_at((unsigned)many.at, idle));
}
CASE(sem_signal_full, "cuSignalExternalSemaphoresAsync, timeline, held stream, the Nth", 0) {
	TIMELINE;
	MANY(1, 50000, 1, signal_at((unsigned)many.at, held));
}
FULL(signal, "cuSignalExternalSemaphoresAsync, timeline", TIMELINE, signal_at(1, held))
ROW(sem_signal_binary, "cuSignalExternalSemaphoresAsync, binary, free stream", 0, BINARY, signal_at(0, idle))
ROW(sem_signal_binary_held, "cuSignalExternalSemaphoresAsync, binary, held stream", 0, BINARY, signal_at(0, held))
ROW(sem_signal_capture, "cuSignalExternalSemaphoresAsync in a capture", 0, TIMELINE; hold(); capture(),
    signal_at(1, idle))

ROW(sem_wait, "cuWaitExternalSemaphoresAsync, timeline, free stream, a value that was reached", 0,
    TIMELINE; SIGNALLED, wait_for(1, idle))
ROW(sem_wait_pending, "cuWaitExternalSemaphoresAsync, timeline, free stream, a value that the held one signals", 0,
    TIMELINE; hold(); ok(signal_at(1, held)), wait_for(1, idle))
ROW(sem_wait_held, "cuWaitExternalSemaphoresAsync, timeline, held stream", 0, TIMELINE; SIGNALLED, wait_for(1, held))
CASE(sem_wait_many, "cuWaitExternalSemaphoresAsync, timeline, free stream, a value that was reached, the Nth", 0) {
	TIMELINE;
	SIGNALLED;
	MANY(1, 20000, 3, wait_for(1, idle));
}
CASE(sem_wait_many_pending,
     "cuWaitExternalSemaphoresAsync, timeline, free stream, a value that the held one signals, the Nth", 0) {
	TIMELINE;
	hold();
	ok(signal_at(1, held));
	MANY(1, 50000, 1, wait_for(1, idle));
}
CASE(sem_wait_full, "cuWaitExternalSemaphoresAsync, timeline, held stream, the Nth", 0) {
	TIMELINE;
	SIGNALLED;
	MANY(1, 50000, 1, wait_for(1, held));
}
FULL(sem_wait, "cuWaitExternalSemaphoresAsync, timeline", TIMELINE; SIGNALLED, wait_for(1, held))
ROW(sem_wait_binary, "cuWaitExternalSemaphoresAsync, binary, free stream, signalled", 0, BINARY; SIGNALLED,
    wait_for(0, idle))
ROW(sem_wait_binary_held, "cuWaitExternalSemaphoresAsync, binary, held stream", 0, BINARY; SIGNALLED, wait_for(0, held))
ROW(sem_wait_capture, "cuWaitExternalSemaphoresAsync in a capture", 0, TIMELINE; hold(); capture(), wait_for(1, idle))
ROW(sem_destroy_used, "cuDestroyExternalSemaphore, timeline, used", 0, TIMELINE; SIGNALLED,
    cuDestroyExternalSemaphore(sem))
ROW(sem_destroy_held, "cuDestroyExternalSemaphore, timeline, the held stream signals it", 0,
    TIMELINE; hold(); ok(signal_at(1, held)), cuDestroyExternalSemaphore(sem))

// Nodes. sem_graph is a graph whose nodes, hs[0] and hs[1], signal a semaphore and wait for it.
static ExternalSignal node_signal = {.value = 1};
static ExternalWait node_wait = {.value = 1};
static SignalNodeParams signal_params = {&sem, &node_signal, 1};
static WaitNodeParams wait_params = {&sem, &node_wait, 1};
static H sem_graph(void) {
	H g;
	TIMELINE;
	ok(cuGraphCreate(&g, 0));
	ok(cuGraphAddExternalSemaphoresSignalNode(&hs[0], g, NULL, 0, &signal_params));
	ok(cuGraphAddExternalSemaphoresWaitNode(&hs[1], g, hs, 1, &wait_params));
	return g;
}
#define SEM_EXEC h = sem_graph(); h2 = executable(h)
#define SEM_RUNNING SEM_EXEC; hold(); ok(cuGraphLaunch(h2, held))
#define SEM_IDLE SEM_EXEC; ok(cuGraphLaunch(h2, idle)); ok(cuStreamSynchronize(idle))
ROW(sem_add_signal, "cuGraphAddExternalSemaphoresSignalNode", 0, h = sem_graph(),
    cuGraphAddExternalSemaphoresSignalNode(&h2, h, NULL, 0, &signal_params))
ROW(sem_add_wait, "cuGraphAddExternalSemaphoresWaitNode", 0, h = sem_graph(),
    cuGraphAddExternalSemaphoresWaitNode(&h2, h, NULL, 0, &wait_params))
ROW(sem_get_signal, "cuGraphExternalSemaphoresSignalNodeGetParams", 0, h = sem_graph(),
    cuGraphExternalSemaphoresSignalNodeGetParams(hs[0], &(SignalNodeParams){.count = 0}))
ROW(sem_get_wait, "cuGraphExternalSemaphoresWaitNodeGetParams", 0, h = sem_graph(),
    cuGraphExternalSemaphoresWaitNodeGetParams(hs[1], &(WaitNodeParams){.count = 0}))
ROW(sem_set_signal, "cuGraphExternalSemaphoresSignalNodeSetParams", 0, h = sem_graph(),
    cuGraphExternalSemaphoresSignalNodeSetParams(hs[0], &signal_params))
ROW(sem_set_wait, "cuGraphExternalSemaphoresWaitNodeSetParams", 0, h = sem_graph(),
    cuGraphExternalSemaphoresWaitNodeSetParams(hs[1], &wait_params))
ROW(sem_exec_set_signal, "cuGraphExecExternalSemaphoresSignalNodeSetParams", 0, SEM_EXEC,
    cuGraphExecExternalSemaphoresSignalNodeSetParams(h2, hs[0], &signal_params))
ROW(sem_exec_set_signal2, "cuGraphExecExternalSemaphoresSignalNodeSetParams, runs on the held stream", 0, SEM_RUNNING,
    cuGraphExecExternalSemaphoresSignalNodeSetParams(h2, hs[0], &signal_params))
ROW(sem_exec_set_wait, "cuGraphExecExternalSemaphoresWaitNodeSetParams", 0, SEM_EXEC,
    cuGraphExecExternalSemaphoresWaitNodeSetParams(h2, hs[1], &wait_params))
ROW(sem_exec_set_wait2, "cuGraphExecExternalSemaphoresWaitNodeSetParams, runs on the held stream", 0, SEM_RUNNING,
    cuGraphExecExternalSemaphoresWaitNodeSetParams(h2, hs[1], &wait_params))
ROW(sem_instantiate, "cuGraphInstantiateWithFlags, a signal and a wait of a semaphore", 0, h = sem_graph(),
    cuGraphInstantiateWithFlags(&h2, h, 0))
ROW(sem_launch, "cuGraphLaunch, a signal and a wait of a semaphore, free stream, the first", 0, SEM_EXEC,
    cuGraphLaunch(h2, idle))
ROW(sem_launch_held, "cuGraphLaunch, a signal and a wait of a semaphore, held stream, the first", 0, SEM_EXEC,
    cuGraphLaunch(h2, held))
ROW(sem_exec_destroy, "cuGraphExecDestroy, a signal and a wait of a semaphore, idle", 0, SEM_IDLE,
    cuGraphExecDestroy(h2))
ROW(sem_exec_destroy2, "cuGraphExecDestroy, a signal and a wait of a semaphore, runs on the held stream", 0,
    SEM_RUNNING, cuGraphExecDestroy(h2))
ROW(sem_graph_destroy, "cuGraphDestroy, a signal and a wait of a semaphore", 0, h = sem_graph(), cuGraphDestroy(h))
