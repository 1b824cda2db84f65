# What a program's script has: it runs in the root, or where the variables say, and each of its tests is a line of a
# file.

logs=${logs:-/logs/$program}
source=${source:-/source}
log=$logs/log
mkdir -p "$HOME" "${tmp:=/tmp}/$program"
cd "$tmp/$program" || exit 1
number=0

# passed NAME, failed NAME REASON: the result of a test.
passed() { printf 'pass\t%s\n' "$1" >>"$logs/results"; }
failed() { printf 'fail\t%s\t%s\n' "$1" "$(tr -s '\t\n ' ' ' <<<"$2" | sed 's/ *$//')" >>"$logs/results"; }

# reason STATUS: why the last command failed, by what it printed: the function that the driver lacks, an error of CUDA's,
# or how the command ended.
reason() {
	local said
	said=$(grep -aoE 'cusim: [A-Za-z0-9_]+ returns [A-Z_]+ \([0-9]+\)' "$log" | head -1) && [[ -n $said ]] ||
		said=$(grep -aoE '(CUDA|NVML|NVRTC)_ERROR_[A-Z_]+' "$log" | head -1) && [[ -n $said ]] ||
		said=$(grep -aoE 'Not supported on the device|Result FAIL' "$log" | head -1) || true
	if [[ -n $said ]]; then
		echo "${said#cusim: }"
	elif (($1 == 124)); then
		echo "takes too long"
	else
		echo "${2:-exit status $1}"
	fi
}

# check NAME COMMAND...: a test that passes if the command does. What it prints is in $log, and kept.
check() {
	local name=$1 status=0
	shift
	number=$((number + 1))
	log=$logs/$number
	{ printf '%s: %s\n' "$name" "$*" && timeout "${seconds:-60}" "$@"; } >"$log" 2>&1 || status=$?
	if ((status == 0)); then
		passed "$name"
	else
		failed "$name" "$(reason $status)"
	fi
	return 0
}

# says NAME PATTERN COMMAND...: a test that passes if the command does, and prints what a regular expression says.
says() {
	local name=$1 pattern=$2
	shift 2
	check "$name" bash -c 'out=$("${@:2}" 2>&1); status=$?; echo "$out"; ((status == 0)) && grep -qE "$1" <<<"$out"' - "$pattern" "$@"
}
