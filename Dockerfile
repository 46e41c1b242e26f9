# Target `daemon` (default): everything except Spark, for an unprivileged user, without a compiler or package manager caches.
# Builders other than BuildKit build all preceding targets, so name the target explicitly there.
# Target `flat`: adds Spark, its Kafka connector, Java 17 and the database drivers of the key log, for flat tables, and a class archive of its drivers (about 1.25 GB).
# Spark's executors use the same image: Spark starts them with the argument 'executor', which is a command of tideline.
# tini is PID 1: it passes signals on, of which the kernel drops those that PID 1 does not handle yet, and reaps processes that lost
# their parent, such as those of Spark drivers.
# For a build that can be repeated, name the base by digest (BASE=python@sha256:…) and a snapshot of Debian's
# packages (DEBIAN_SNAPSHOT=URL, in which %s stands for the archive: debian or debian-security).
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
ARG DEBIAN_SNAPSHOT=""
RUN if [ -n "${DEBIAN_SNAPSHOT}" ]; then \
      rm -f /etc/apt/sources.list.d/* \
      && for suite in "debian bookworm" "debian bookworm-updates" "debian-security bookworm-security"; do \
        printf "deb [check-valid-until=no] ${DEBIAN_SNAPSHOT} %s main\n" "${suite% *}" "${suite#* }"; \
      done > /etc/apt/sources.list; \
    fi

FROM base AS build
WORKDIR /build
COPY requirements/ requirements/
# The build backend also has a hashed lock, and an environment that is not copied into the image.
RUN python3 -m venv /opt/backend \
 && /opt/backend/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.txt \
 && python3 -m venv /opt/tideline \
 && /opt/tideline/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/daemon.txt
COPY pyproject.toml README.md LICENSE ./
COPY state/ state/
COPY handlers/ handlers/
COPY streaming/ streaming/
COPY daemon/ daemon/
COPY tideline/ tideline/
COPY docs/ docs/
RUN /opt/backend/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/tideline/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /opt/tideline/bin/pip uninstall --yes --quiet pip setuptools

# The Kafka client with Kerberos, which the wheel in the lock does not have. NPM_REGISTRY_URL is the root of the registry with the
# source of librdkafka, which is verified by checksum ('make image' passes it). Without it, the image has the client of the lock.
FROM build AS kafka
ARG NPM_REGISTRY_URL=""
COPY dev/ dev/
# hadolint ignore=DL3008
RUN mkdir -p /opt/kafka \
 && if [ -n "${NPM_REGISTRY_URL}" ]; then \
      apt-get update \
      && apt-get install --yes --no-install-recommends g++ gcc libc6-dev make pkg-config libsasl2-dev libssl-dev libcurl4-openssl-dev libzstd-dev zlib1g-dev \
      && npm_config_registry="${NPM_REGISTRY_URL}" /opt/backend/bin/python -m dev.kafka_client /opt/kafka; \
    fi

FROM base AS runtime
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="tideline" \
      org.opencontainers.image.description="Replicates Apache Hive databases and maintains timelines and a partition index" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Kerberos, for metastores, HDFS and brokers that require it, and the libraries of the Kafka client.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends krb5-user libcurl4 libgssapi-krb5-2 libsasl2-2 libsasl2-modules-gssapi-mit libzstd1 tini \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 tideline \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/tideline --shell /usr/sbin/nologin tideline \
 && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/tideline \
 && install --directory /etc/tideline
COPY --from=kafka /opt/kafka /opt/kafka
ENV PATH=/opt/tideline/bin:${PATH} \
    PYTHONPATH=/opt/kafka/python \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/tideline
EXPOSE 8470
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "tideline"]
CMD ["run", "--config", "/etc/tideline/tideline.yaml"]

FROM runtime AS daemon
COPY --from=build /opt/tideline /opt/tideline
USER 10001:10001

FROM build AS build-flat
# Root of a Maven repository. The jars of these locks are downloaded from it and verified by checksum: by default the Kafka connector.
# 'spark-kafka hadoop-s3' adds the client of object stores (s3a://), which uses Spark's own Netty.
ARG MAVEN_REPO_URL=""
ARG JAR_LOCKS="spark-kafka"
COPY dev/ dev/
RUN /opt/backend/bin/pip --python /opt/tideline/bin/python install --no-cache-dir --require-hashes -r requirements/flat.txt \
 && TIDELINE_CACHE=/jars /opt/tideline/bin/python -c "from dev.stack.downloads import jars, maven_repository; [jars.fetch(jars.read_lock(name), maven_repository.find_repository()) for name in '${JAR_LOCKS}'.split()]" \
 && find /jars -name '*.jar' ! -name 'netty-*' -exec cp {} "$(/opt/tideline/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/" \;

FROM runtime AS flat
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/*
# Spark creates directories in its working directory, which must be neither the volume nor a root file system that may be read-only.
WORKDIR /tmp
COPY --from=build-flat /opt/tideline /opt/tideline
# The class archive, with which a driver starts faster. It must be written by the Java and for the jars that use it.
RUN tideline split prepare && rm -rf /tmp/*
USER 10001:10001

# The default target.
FROM daemon AS default
