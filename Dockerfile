# Target `daemon`: everything but Spark, as an unprivileged user, without a compiler or a package manager's leftovers.
# The daemon handles SIGTERM itself and starts no children, so nothing stands between it and the container's PID 1.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY requirements/ requirements/
# The build backend has a hashed lock too, and an environment that is thrown away.
RUN python3 -m venv /opt/backend \
 && /opt/backend/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.txt \
 && python3 -m venv /opt/tideline \
 && /opt/tideline/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/daemon.txt
COPY pyproject.toml README.md LICENSE ./
COPY state/ state/
COPY handlers/ handlers/
COPY streaming/ streaming/
COPY daemon/ daemon/
RUN /opt/backend/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/tideline/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /opt/tideline/bin/pip uninstall --yes --quiet pip setuptools

FROM ${BASE} AS daemon
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="tideline" \
      org.opencontainers.image.description="Follows a Hive metastore's notification events through Kafka and keeps a replica" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 tideline \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/tideline --shell /usr/sbin/nologin tideline \
 && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/tideline \
 && install --directory /etc/tideline
COPY --from=build /opt/tideline /opt/tideline
ENV PATH=/opt/tideline/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/tideline
EXPOSE 8470
STOPSIGNAL SIGTERM
ENTRYPOINT ["tideline"]
CMD ["run", "--config", "/etc/tideline/tideline.yaml"]
