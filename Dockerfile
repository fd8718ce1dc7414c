# One image for every process: `docker run IMAGE api`, `IMAGE migrate`, …
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#
# The program is compiled, with Bun inside: it starts in two thirds of the processor time that the same code takes from files, and
# nothing else has to be in the image but glibc. With the bytecode of all functions it starts in two thirds of the time that the top level's
# alone takes, and is 4.9 MB larger, compressed.
# Its source maps are inside, so that stack traces name source files and lines: 2.7 MB compressed, nothing at the start, since a map is
# read with the first trace. Chunks (`--splitting`) are loaded when they are used, and share what the worker has in common with the
# program: 2.5 MB and 12 to 22 % of the start's processor time less than without them (Bun 1.4.5, 2 cores, 2026-11).

# The tag is package.json's packageManager; a test holds the two together.
ARG BUN_IMAGE=docker.io/oven/bun:1.4.5-slim
# Needs glibc and CA certificates, no shell. Any such base serves, such as a platform's own.
ARG BASE_IMAGE=gcr.io/distroless/base-nossl-debian12:nonroot

# Cross-compiles, so that no platform is emulated.
FROM --platform=$BUILDPLATFORM ${BUN_IMAGE} AS packages
WORKDIR /src
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile --production --ignore-scripts

# The documentation, which the dashboard serves.
FROM packages AS docs
COPY docs/.vitepress/package.json docs/.vitepress/bun.lock docs/.vitepress/
RUN bun install --cwd docs/.vitepress --frozen-lockfile --ignore-scripts
COPY . .
RUN bun cmd/dev/docs/docs.main.ts build

FROM packages AS build
# Makes the folder without a tool of the builder.
WORKDIR /out/state
WORKDIR /src
COPY tsconfig.json ./
COPY internal internal
COPY cmd cmd
COPY config/providers/built-in config/providers/built-in
COPY --from=docs /src/.latchkey/docs/site.bin .latchkey/docs/site.bin
# By the builder, from the platform. A default would win over what it says, and every image would hold a program for amd64:
# https://github.com/docker/buildx/issues/510
ARG TARGETARCH
# For amd64, one program runs on all processors with SSE4.2, and uses AVX2 where there is some.
RUN case "$TARGETARCH" in \
      amd64) target=bun-linux-x64 ;; \
      arm64) target=bun-linux-arm64 ;; \
      *) echo "no build for $TARGETARCH: amd64 or arm64"; exit 1 ;; \
    esac; \
    # Names are kept, since an error's log line shows them. All modules are in one folder, where they find the worker.
    # `npm run build` and the tests read the command from here.
    bun build --compile --target="$target" --minify-syntax --minify-whitespace \
      --bytecode --splitting --sourcemap=linked --format=esm --entry-naming=[name].[ext] \
      --no-compile-autoload-dotenv --no-compile-autoload-bunfig \
      --outfile=/out/latchkey cmd/latchkey/main.ts ./internal/intake/large-bodies.worker.ts

FROM ${BASE_IMAGE}
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=https://latchkey.dev
LABEL org.opencontainers.image.title="Latchkey" \
      org.opencontainers.image.description="Idempotency records and webhook intake for Kubernetes, multi-tenant" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.source="$SOURCE"
COPY --from=build /out/latchkey /usr/local/bin/latchkey
# Of `run`: a volume that is mounted here gets this owner.
COPY --from=build --chown=65532:65532 /out/state /var/lib/latchkey
COPY LICENSE THIRD_PARTY_NOTICES.md /usr/share/doc/latchkey/
# Calls that the runtime has in flight at once; its own default is 256, and any more wait without an end. Read and checked at start.
ENV BUN_CONFIG_MAX_HTTP_REQUESTS=1024
# A number, so that Kubernetes can see that it is not root. Any other user serves as well.
USER 65532:65532
WORKDIR /
# api, backoffice, ops
EXPOSE 8080 8081 9090
ENTRYPOINT ["latchkey"]
