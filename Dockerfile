# Two images from one Debian whose python3 is 3.11 or later:
#   operator  the control plane: no Spark, no Java
#   spark     driver and executors of every run
# The certificates for the downloads may be lent to the build (PIP_CERT, SSL_CERT_FILE); none stays in an image.
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim

FROM ${BASE_IMAGE} AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 185 seamark \
    && useradd --uid 185 --gid 185 --create-home --home-dir /home/seamark --shell /usr/sbin/nologin seamark
ENV PATH=/opt/seamark/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# Packages first, from the lock with its hashes: a change of our code leaves this layer alone.
FROM base AS packages
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
ARG PIP_CERT
ARG SSL_CERT_FILE
WORKDIR /build
RUN python3 -m venv /opt/seamark/venv
COPY pyproject.toml requirements.lock ./
COPY tools/lock_subset.py tools/

FROM packages AS operator-packages
ARG PIP_CERT
ARG SSL_CERT_FILE
RUN python3 tools/lock_subset.py s3 operator > subset.txt \
    && pip install --no-cache-dir --require-hashes -r subset.txt
COPY README.md LICENSE ./
COPY seamark seamark
COPY spark_apps spark_apps
COPY operator operator
RUN pip install --no-cache-dir --no-deps .

FROM packages AS spark-packages
ARG PIP_CERT
ARG SSL_CERT_FILE
RUN python3 tools/lock_subset.py s3 spark > subset.txt \
    && pip install --no-cache-dir --require-hashes -r subset.txt
COPY README.md LICENSE ./
COPY seamark seamark
COPY spark_apps spark_apps
COPY operator operator
RUN pip install --no-cache-dir --no-deps .

FROM base AS operator
COPY --from=operator-packages /opt/seamark/venv /opt/seamark/venv
USER 185:185
WORKDIR /home/seamark
EXPOSE 8080 8081
ENTRYPOINT ["tini", "-s", "--", "seamark-operator"]

FROM base AS spark
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/java-17
COPY --from=spark-packages /opt/seamark/venv /opt/seamark/venv
RUN ln -s "$(/opt/seamark/venv/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark
COPY spark_apps/*.py /opt/seamark/spark_apps/
COPY docker/spark-entrypoint.sh /opt/entrypoint.sh
ENV JAVA_HOME=/usr/lib/jvm/java-17 \
    SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/seamark/venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/seamark/venv/bin/python
USER 185:185
WORKDIR /home/seamark
ENTRYPOINT ["/opt/entrypoint.sh"]
