# GCC's tests of libgomp, as far as a command can run them without DejaGnu: those that are to be run, with the options that
# the files name. A test passes by its exit status; what it prints is not compared.

# options FILE: the options that it names for every target, and for NVIDIA's GPUs.
options() {
	sed -nE '/offload_target_nvptx/!{/\{ *target|\{ *xfail/d};  s/.*dg-(additional-)?options  *"([^"]*)".*/\2/p; s/.*dg-additional-options  *(-[^ ]*) *\}.*/\1/p' "$1" |
		tr '\n' ' '
}

# libgomp COMPILER FILE...: runs the tests.
libgomp() {
	local compiler=$1 file dir status more setting words
	for file in "${@:2}"; do
		# What is only compiled, or for other GPUs, or needs the CUDA runtime, or memory that the host and the GPU share,
		# or is known to fail, or reads what was dumped, or is for machines without a GPU.
		if grep -qE 'dg-do  *(compile|link|preprocess|assemble)|dg-error|amdgcn|openacc_(cublas|cudart)|omp_usm|shared_as|dg-xfail-run-if|not_offload|dg-do  *run .*! offload_device|openacc_host|dg-final|gcn' "$file"; then
			continue
		fi
		grep -qE 'omp.*target|acc |acc_|openacc' "$file" || continue
		dir=${file%/*} more=() setting=()
		for words in $(sed -nE 's/.*dg-additional-sources  *"?([^"}]*)"?.*/\1/p' "$file"); do more+=("$dir/$words"); done
		while IFS= read -r words; do setting+=("$words"); done < <(
			sed -nE 's/.*dg-set-target-env-var  *"?([A-Z_]*)"?  *"?([^"} ]*)"?.*/\1=\2/p' "$file")
		number=$((number + 1))
		seconds=30
		log=$logs/$number
		echo "${file#/source/}" >"$log"
		# shellcheck disable=SC2046
		if ! timeout 120 "$compiler" -w -I"$dir" -O2 "${flags[@]}" $(options "$file") -o test "$file" "${more[@]}" -lm $(grep -q openacc_cuda "$file" && echo -L/cusim -lcuda) >>"$log" 2>&1; then
			failed "${file##*/}" "does not compile"
			continue
		fi
		status=0
		env "${setting[@]}" timeout "${seconds:-60}" ./test >>"$log" 2>&1 || status=$?
		if grep -q dg-shouldfail "$file"; then
			((status)) && status=0 || status=1
		fi
		if ((status == 0)); then
			passed "${file##*/}"
			rm "$log"
		else
			failed "${file##*/}" "$(reason $status)"
		fi
	done
}

suite=/tmp/gcc-14/libgomp/testsuite
[[ -e $suite ]] || {
	mkdir -p ${suite%/*/*}
	tar -xf /usr/src/gcc-14/gcc-14*.tar.xz -C ${suite%/*/*} --strip-components=1 --wildcards '*/libgomp/testsuite/*'
}
