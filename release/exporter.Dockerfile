# docker build -f release/exporter.Dockerfile -t exporter DIR, where DIR has the files of a release. It needs BuildKit,
# which sets TARGETARCH: a default value here would replace that.
FROM debian:trixie-slim AS glibc

# What NVIDIA's driver needs, where its loader looks for it. Without these files the program starts, and says so.
FROM scratch AS image-amd64
COPY --from=glibc /lib64/ld-linux-x86-64.so.2 /lib64/
COPY --from=glibc /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/libm.so.6 /lib/x86_64-linux-gnu/libdl.so.2 \
     /lib/x86_64-linux-gnu/libpthread.so.0 /lib/x86_64-linux-gnu/librt.so.1 \
     /lib/x86_64-linux-gnu/libgcc_s.so.1 /lib/x86_64-linux-gnu/

FROM scratch AS image-arm64
COPY --from=glibc /lib/ld-linux-aarch64.so.1 /lib/
COPY --from=glibc /lib/aarch64-linux-gnu/libc.so.6 /lib/aarch64-linux-gnu/libm.so.6 /lib/aarch64-linux-gnu/libdl.so.2 \
     /lib/aarch64-linux-gnu/libpthread.so.0 /lib/aarch64-linux-gnu/librt.so.1 \
     /lib/aarch64-linux-gnu/libgcc_s.so.1 /lib/aarch64-linux-gnu/

FROM image-${TARGETARCH}
ARG TARGETARCH
COPY --chmod=755 exporter-linux-${TARGETARCH} /exporter
COPY LICENSES.txt /
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65534
EXPOSE 9999
ENTRYPOINT ["/exporter", "-listen", ":9999"]
