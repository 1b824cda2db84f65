# docker build -f release/cusim.Dockerfile -t cusim DIR, where DIR has the files of a release. Add your program, or take
# the libraries: COPY --from=cusim /opt/cusim /opt/cusim.
FROM debian:trixie-slim
ARG TARGETARCH
ADD cusim-linux-${TARGETARCH}.tar.gz /opt/
ENTRYPOINT ["/opt/cusim/cusim-run"]
