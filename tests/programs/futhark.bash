# Futhark: its tests of parallel operations
# packages: futhark libnvrtc12 gcc-14
# alone: nvidia-cuda-dev libcudart12
# source: futhark
# note: The backend `cuda` calls the driver API, and compiles with NVRTC. These are the tests in the folder `segredomap` of its sources.
for library in cudart nvrtc; do ln -sf lib$library.so.12 /usr/lib/x86_64-linux-gnu/lib$library.so; done
export CC=gcc-14 CFLAGS="-O1 -L/cusim" OCL_ICD_VENDORS=/none seconds=300
cp -r /source/tests .
for folder in segredomap; do
	for file in tests/"$folder"/*.fut; do
		grep -q '^-- ==' "$file" || continue # another file's
		check "${file#tests/}" futhark test --backend=cuda --no-terminal "$file"
	done
done
