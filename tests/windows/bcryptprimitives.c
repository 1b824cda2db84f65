// This library has the only function of Windows' bcryptprimitives.dll that Go's runtime
// calls. It is for versions of Wine that lack the library.
//
// Build: x86_64-w64-mingw32-gcc -shared -o bcryptprimitives.dll bcryptprimitives.c -ladvapi32

#include <windows.h>
#include <ntsecapi.h> // RtlGenRandom

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T n) {
	while (n > 0) {
		ULONG part = n < 1 << 20 ? (ULONG)n : 1 << 20;
		if (!RtlGenRandom(data, part))
			return FALSE;
		data += part;
		n -= part;
	}
	return TRUE;
}
