# FFmpeg: filters on the GPU
# packages: ffmpeg
# note: A filter passes if it makes the frames that were asked for. Frames that are only uploaded and downloaded, or overlaid, are compared with those that the processor makes.

# frames FILTERS: the sums of the frames that the filters make of a test picture; the exit status tells an error, also one of a frame.
frames() {
	ffmpeg -hide_banner -xerror -loglevel error -init_hw_device cuda=gpu -filter_hw_device gpu -f lavfi \
		-i testsrc=size=128x96:rate=5:duration=1 -filter_complex "[0:v]$1" -f framemd5 - >frames.txt 2>errors.txt
	local status=$?
	cat frames.txt errors.txt
	! grep -q CUDA_ERROR errors.txt && ((status == 0)) && [[ $(grep -vc '^#' frames.txt) -ge ${2:-5} ]]
}

# same GPU PROCESSOR: both make the same frames.
same() {
	frames "$1" && cp frames.txt gpu.txt && frames "$2" && cmp frames.txt gpu.txt
}

export -f frames same
here() { check "$1" bash -c '"$@"' - "${@:2}"; }

down=hwdownload,format=yuv420p
here hwupload_cuda same "format=yuv420p,hwupload_cuda,$down" format=yuv420p
here hwupload_cuda-nv12 same "format=nv12,hwupload_cuda,hwdownload,format=nv12" format=nv12
here overlay_cuda same \
	"format=yuv420p,split[a][b];[a]hwupload_cuda[a];[b]crop=32:32,hwupload_cuda[b];[a][b]overlay_cuda=16:16,$down" \
	"format=yuv420p,split[a][b];[b]crop=32:32[b];[a][b]overlay=16:16,format=yuv420p"
for filter in colorspace_cuda=range=tv scale_cuda=64:48 scale_cuda=64:48:interp_algo=nearest scale_cuda=format=nv12,scale_cuda=format=yuv420p \
	yadif_cuda bwdif_cuda bilateral_cuda=window_size=3; do
	here "$filter" frames "format=yuv420p,hwupload_cuda,$filter,$down"
done
here thumbnail_cuda frames "format=yuv420p,hwupload_cuda,thumbnail_cuda=2,$down" 2
here chromakey_cuda frames "format=yuv420p,hwupload_cuda,chromakey_cuda=green,hwdownload,format=yuva420p"
